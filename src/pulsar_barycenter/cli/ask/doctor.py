"""`barycenter doctor`: what is wrong with a cluster, and what to do about it."""

import asyncio
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.asking.client import URL_VARIABLE, asked_url, asking_client, named_url
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError
from pulsar_barycenter.doctor.catalogue import CHECKS, Diagnosis
from pulsar_barycenter.doctor.finding import ClusterFinding, Severity
from pulsar_barycenter.doctor.picture import OWN_KEY, Picture
from pulsar_barycenter.doctor.reading.cluster import ClusterUnreadableError
from pulsar_barycenter.doctor.reading.store import StoreUnreadableError
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.collector import admin_urls
from pulsar_barycenter.questions.examination import Asked, examine
from pulsar_barycenter.run.broker_folders import check_ledgers_folder
from pulsar_barycenter.terminal.suggestions import did_you_mean
from pulsar_barycenter.terminal.tables import output_width, printable

SICK: Final = 1
BLIND: Final = 2
_WIDTH: Final = 80
_MOST_SHOWN: Final = 20
_COLOURS: Final = {
    Severity.INFO: "blue",
    Severity.WARNING: "yellow",
    Severity.ERROR: "red",
    Severity.CRITICAL: "bright_red",
}


@click.command(name="doctor")
@click.option("--url", help=f"The web address of any broker, or several.  [{URL_VARIABLE}; http://127.0.0.1:8080]")
@click.option(
    "--store",
    help="A metadataStoreUrl. Brokers are asked, too, if --url or the configuration names them; else the store alone is"
    " looked at, as of a stopped cluster.",
)
@click.option(
    "--store-config",
    default="",
    type=click.Path(dir_okay=False),
    help="Its metadataStoreConfigPath: TLS, user and password.",
)
@click.option(
    "--ledgers",
    type=click.Path(file_okay=False),
    help="`ledgers` in barycenterDataDir as this machine has it; files are made in it and removed.",
)
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False),
    help="The broker.conf of a broker on this machine: are there keys in it that nobody knows?",
)
@click.option("--check", "names", multiple=True, metavar="NAME", help="Make this check alone; may be repeated.")
@click.option("--verbose", is_flag=True, help="Say what was not looked at as no option names it, and why.")
@click.option("--list", "is_list", is_flag=True, help="Tell which checks there are.")
@click.option(
    "--fail-at",
    type=click.Choice([str(severity) for severity in Severity]),
    default=str(Severity.WARNING),
    show_default=True,
    help="End with 1 if there is a finding of this severity or a worse one.",
)
@click.option(
    "--timeout",
    "timeout_s",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0.1, 60),
    help="Seconds after which a broker does not answer.",
)
@with_client_conf
@with_format("text", "json", json="one object a line")
def command(
    url: str | None,
    store: str | None,
    store_config: str,
    ledgers: str | None,
    file: str | None,
    names: tuple[str, ...],
    verbose: bool,
    is_list: bool,
    fail_at: str,
    timeout_s: float,
    form: str,
) -> None:
    """Tell what is wrong with a cluster, and how to mend it.

    Every broker is asked, and the metadata store is read if --store names it: who owns what, who leads, whether bundles
    tile the hash range, whose caches are stale, how settings differ, why load may never move. docs/doctor.md explains
    each finding. Nothing is changed. What may come of a cluster in motion is looked at twice.

    Of Apache Pulsar the admin REST is asked; what it does not tell is said to be not looked at. A superuser's rights
    may be needed: as whom brokers are asked is told by options, --context, the client.conf that PULSAR_CLIENT_CONF
    names, or BARYCENTER_TOKEN.

    Ends with 0, with 1 if there are findings at or above --fail-at, with 2 if neither brokers nor store can be looked
    at.
    """
    if is_list:
        _print_catalogue(form)
        return
    known = [check.name for check in CHECKS]
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no check {name} (--list shows all){did_you_mean(name, known)}")
    try:
        if ledgers is not None:
            check_ledgers_folder(Path(ledgers))
    except WrongFolderError as error:
        raise click.UsageError(f"--ledgers: {error}") from error
    try:
        address = named_url(url) if store else asked_url(url)
        urls = () if address is None else admin_urls(address)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        picture, diagnosis = asyncio.run(
            examine(asking_client, Asked(urls, store, store_config, ledgers, file, timeout_s), names)
        )
    except (ClusterUnreadableError, StoreUnreadableError) as error:
        click.echo(f"barycenter: cannot look at the cluster: {error}", err=True)
        sys.exit(BLIND)
    if form == "json":
        _print_json(diagnosis)
    else:
        places = {"--store": store, "--ledgers": ledgers, "--config": file}
        _print_text(picture, diagnosis, [option for option, place in places.items() if place is None], verbose=verbose)
    if diagnosis.fails(Severity(fail_at)):
        sys.exit(SICK)


def _print_catalogue(form: str) -> None:
    for check in CHECKS:
        if form == "json":
            click.echo(msgspec.json.encode({"check": check.name, "tells": check.tells}))
        else:
            _print_wrapped(f"{check.name:17} ", check.tells, 18)


def _print_json(diagnosis: Diagnosis) -> None:
    for finding in diagnosis.findings:
        click.echo(msgspec.json.encode({"kind": "finding", **msgspec.to_builtins(finding)}))
    for each in diagnosis.unseen:
        click.echo(msgspec.json.encode({"kind": "notLookedAt", **msgspec.to_builtins(each)}))


def _print_text(picture: Picture, diagnosis: Diagnosis, not_given: Sequence[str], *, verbose: bool) -> None:
    """Print what was found; `not_given` are the options by which more would be looked at."""
    shown: Counter[str] = Counter()
    for finding in diagnosis.findings:
        shown[finding.check] += 1
        if shown[finding.check] <= _MOST_SHOWN:
            _print_finding(finding)
    for check, count in shown.items():
        if count > _MOST_SHOWN:
            click.echo(f"… and {count - _MOST_SHOWN:,} more of {check}; --json tells of all\n")
    reasons: dict[str, list[str]] = {}
    for each in diagnosis.unseen:
        if verbose or not each.is_optional:
            reasons.setdefault(each.why, []).append(each.what)
    for why, unseen in reasons.items():
        _print_wrapped("not looked at: ", f"{', '.join(unseen)}: {why}", 4)
    if reasons:
        click.echo()
    is_whole = not any(each.is_optional for each in diagnosis.unseen)
    is_quiet = verbose or is_whole or not not_given or diagnosis.fails(Severity.WARNING)
    hint = "" if is_quiet else f"; --verbose says what {_listed(not_given)} would add"
    _print_wrapped("", f"{_sizes(picture)}: {_sum(diagnosis)}{hint}", 0)


def _listed(options: Sequence[str]) -> str:
    return " and ".join([*filter(None, [", ".join(options[:-1])]), *options[-1:]])


def _print_finding(finding: ClusterFinding) -> None:
    severity = click.style(f"{finding.severity:8}", fg=_COLOURS[finding.severity], bold=True)
    click.echo(f"{severity} {finding.check}  {printable(finding.subject)}")
    _print_wrapped("    ", finding.sentence, 4)
    _print_wrapped("    → ", finding.mend, 6)
    click.echo()


def _print_wrapped(start: str, text: str, indent: int) -> None:
    """Print a text whose further lines are indented; names that are wider than the line stay whole."""
    lines = textwrap.wrap(
        printable(" ".join(text.split())),
        max(40, output_width(_WIDTH)),
        initial_indent=start,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    click.echo("\n".join(lines))


def _sizes(picture: Picture) -> str:
    brokers = len(picture.registered) if picture.brokers is None else len(picture.brokers)
    bundles = sum(map(len, picture.bundles.values()))
    whose = "Apache Pulsar, " if _is_foreign(picture) else ""
    namespaces = count_of(len(picture.known_boundaries), "namespace")
    return f"{whose}{count_of(brokers, 'broker')}, {namespaces}, {count_of(bundles, 'bundle')}"


def _is_foreign(picture: Picture) -> bool:
    told = [broker.settings for broker in picture.answering if broker.settings is not None]
    return bool(told) and not any(OWN_KEY in settings for settings in told)


def _sum(diagnosis: Diagnosis) -> str:
    """Say how it is in a few words: healthy without a warning or worse, if all was looked at that brokers tell."""
    counts = Counter(finding.severity for finding in diagnosis.findings)
    told = [f"{counts[severity]:,} {severity}" for severity in reversed(Severity) if counts[severity]]
    if diagnosis.fails(Severity.WARNING):
        return ", ".join(told)
    is_whole = all(each.is_optional for each in diagnosis.unseen)
    return ", ".join(["healthy" if is_whole else "nothing wrong in what was looked at", *told])
