"""`barycenter doctor`: prints the problems of a cluster, and how to repair each."""

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
from pulsar_barycenter.cli.numbers import Number
from pulsar_barycenter.cluster_logs.data_folder import WrongFolderError
from pulsar_barycenter.doctor.catalogue import CHECKS, NOT_READ, Diagnosis
from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, Unseen
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
_MAX_SHOWN: Final = 20
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
    help="The metadataStoreUrl, to check the metadata store too. Without --url and a configured address only the store"
    " is checked: use this for a stopped cluster.",
)
@click.option(
    "--store-config",
    default="",
    type=click.Path(dir_okay=False),
    help="The metadataStoreConfigPath: TLS, user and password of the store.",
)
@click.option(
    "--ledgers",
    type=click.Path(file_okay=False),
    help="The folder `ledgers` in barycenterDataDir, as mounted here. The check creates files in it and deletes them.",
)
@click.option(
    "--config",
    "file",
    type=click.Path(dir_okay=False),
    help="The broker.conf of a broker on this machine, to check it for unknown keys.",
)
@click.option("--check", "names", multiple=True, metavar="NAME", help="Run only this check; may be repeated.")
@click.option(
    "--verbose", is_flag=True, help="Also name the checks that were left out because an option was not given."
)
@click.option("--list", "is_list", is_flag=True, help="List the checks.")
@click.option(
    "--fail-at",
    type=click.Choice([str(severity) for severity in Severity]),
    default=str(Severity.WARNING),
    show_default=True,
    help="Exit with 1 if there is a finding of this severity or a higher one.",
)
@click.option(
    "--timeout",
    "timeout_s",
    default=5.0,
    show_default=True,
    type=Number(0.1, 60),
    help="Seconds to wait for the answer of a broker.",
)
@with_client_conf
@with_format("text", "json", json="one object on each line")
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
    """Find problems of a cluster, and print how to repair each.

    The command queries every broker, and reads the metadata store if --store names it. It checks the owners of bundles,
    the leader, whether bundles cover the hash range, outdated caches, settings that differ between brokers, and
    settings that keep load from moving. docs/doctor.md explains each finding. Nothing is changed. Findings that may be
    an effect of a change in progress are checked a second time.

    Apache Pulsar is queried by its admin REST; checks that it has no data for are reported as not made. A superuser's
    rights may be needed. Credentials come from the options, --context, the client.conf that PULSAR_CLIENT_CONF names,
    or BARYCENTER_TOKEN.

    Exit code: 0; 1 if there are findings at or above --fail-at; 2 if neither the brokers nor the store can be read.
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
        click.echo(f"barycenter: cannot check the cluster: {error}", err=True)
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
    for unseen in diagnosis.unseen:
        click.echo(msgspec.json.encode({"kind": "notLookedAt", **msgspec.to_builtins(unseen)}))


def _print_text(picture: Picture, diagnosis: Diagnosis, not_given: Sequence[str], *, verbose: bool) -> None:
    """Print the findings; `not_given` are the options that would enable more checks."""
    shown: Counter[str] = Counter()
    for finding in diagnosis.findings:
        shown[finding.check] += 1
        if shown[finding.check] <= _MAX_SHOWN:
            _print_finding(finding)
    for check, count in shown.items():
        if count > _MAX_SHOWN:
            click.echo(f"… and {count - _MAX_SHOWN:,} more of {check}; --json prints all\n")
    reasons = _reasons([unseen for unseen in diagnosis.unseen if verbose or not unseen.is_optional])
    for why, unseen in reasons.items():
        _print_wrapped("not checked: ", f"{', '.join(unseen)}: {why}", 4)
    if reasons:
        click.echo()
    is_whole = not any(left_out.is_optional for left_out in diagnosis.unseen)
    is_quiet = verbose or is_whole or not not_given or diagnosis.fails(Severity.WARNING)
    hint = "" if is_quiet else f"; --verbose shows what {_listed(not_given)} would check"
    _print_wrapped("", f"{_sizes(picture)}: {_sum(diagnosis)}{hint}", 0)


def _reasons(unseen: Sequence[Unseen]) -> dict[str, list[str]]:
    """Return a mapping from reason to the checks that were not made for this reason. Optional checks that need
    something that was not read have one common reason, which lists all that was not read.
    """
    parts = dict.fromkeys(
        left_out.why.removesuffix(NOT_READ)
        for left_out in unseen
        if left_out.is_optional and left_out.why.endswith(NOT_READ)
    )
    of_options = f"not read: {_listed(list(parts))}"
    reasons: dict[str, list[str]] = {}
    for left_out in unseen:
        is_of_option = left_out.is_optional and left_out.why.endswith(NOT_READ)
        reasons.setdefault(of_options if is_of_option else left_out.why, []).append(left_out.what)
    return reasons


def _listed(options: Sequence[str]) -> str:
    return " and ".join([*filter(None, [", ".join(options[:-1])]), *options[-1:]])


def _print_finding(finding: ClusterFinding) -> None:
    severity = click.style(f"{finding.severity:8}", fg=_COLOURS[finding.severity], bold=True)
    click.echo(f"{severity} {finding.check}  {printable(finding.subject)}")
    _print_wrapped("    ", finding.sentence, 4)
    _print_wrapped("    → ", finding.mend, 6)
    click.echo()


def _print_wrapped(start: str, text: str, indent: int) -> None:
    """Print a text wrapped to the width of the terminal, with its second and later lines indented; a name that is wider
    than the line is not broken.
    """
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
    all_settings = [broker.settings for broker in picture.answering if broker.settings is not None]
    return bool(all_settings) and not any(OWN_KEY in settings for settings in all_settings)


def _sum(diagnosis: Diagnosis) -> str:
    """Return the last line of the output: the number of findings by severity; "healthy" if no finding is a warning or
    worse and every check was made.
    """
    counts = Counter(finding.severity for finding in diagnosis.findings)
    found = [f"{counts[severity]:,} {severity}" for severity in reversed(Severity) if counts[severity]]
    if diagnosis.fails(Severity.WARNING):
        return ", ".join(found)
    is_whole = all(left_out.is_optional for left_out in diagnosis.unseen)
    return ", ".join(["healthy" if is_whole else "no problem in what could be checked", *found])
