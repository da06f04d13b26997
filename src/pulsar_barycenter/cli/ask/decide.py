"""`barycenter decide`: what a strategy would do with a snapshot, and why; nothing is carried out."""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.ask.decision_tables import headline, print_json, print_tables, window_of
from pulsar_barycenter.cli.asking.client import asking_client, named_url
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.moments import moment_ms
from pulsar_barycenter.load.advice.configuration_advice import Severity, advice
from pulsar_barycenter.load.managers import short_name
from pulsar_barycenter.load.rounds.snapshot_rounds import placement_lines, shedding_rounds, split_rounds
from pulsar_barycenter.load.strategies import Role, placer_name, shedder_name, splitter_name
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.observer.running_cluster import ClusterError, snapshot_of
from pulsar_barycenter.questions.past_state import Subject
from pulsar_barycenter.snapshots.decided_by import (
    UNUSABLE,
    WrongWordError,
    configured,
    is_splitter,
    manager_of,
    read_memory,
    role_of,
)
from pulsar_barycenter.snapshots.settings_in_force import OF_LEADER, read_with_settings, settings_in_words
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFile, of_document
from pulsar_barycenter.terminal.errors import in_words

SOMETHING_TO_DO: Final = 3


@click.command(name="decide")
@click.argument("file", metavar="[SNAPSHOT]", required=False, type=click.Path(path_type=Path))
@click.option("--snapshot", "path", type=click.Path(path_type=Path), help="The same as SNAPSHOT.")
@click.option("--url", help="Ask the leader of a running cluster: web address of any broker.  [BARYCENTER_URL]")
@click.option("--at", default="", help="Of the pipeline's tables the state at this time: 15m, 2h, 2026-01-31T12:00.")
@click.option("--strategy", help="A shedder, a placement or a splitter; unless given, what is configured.")
@click.option("--placement", help="The placement of what is shed; unless given, what is configured.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="A key of broker.conf; may be repeated.")
@click.option("--config", "conf", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A broker.conf.")
@click.option(
    "--place",
    "bundles",
    multiple=True,
    metavar="TOPIC|BUNDLE",
    help="Place this bundle, or a topic's; may be repeated.",
)
@click.option("--split", is_flag=True, help="Tell which bundles are too large.")
@click.option("--cycles", default=1, show_default=True, type=click.IntRange(1, 1000), help="Rounds, one after another.")
@click.option(
    "--history",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What the shedder remembers, as --save-history wrote it; unless given, what the snapshot says.",
)
@click.option("--save-history", type=click.Path(dir_okay=False, path_type=Path), help="Write what it remembers then.")
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of draws.")
@click.option("--explain", is_flag=True, help="Print whole reasons.")
@with_client_conf
@with_format("table", "json", json="one object a line")
@click.option("--exit-code", is_flag=True, help="End with 3 if something would be done.")
def command(
    file: Path | None,
    path: Path | None,
    url: str | None,
    at: str,
    strategy: str | None,
    placement: str | None,
    changes: tuple[str, ...],
    conf: Path | None,
    bundles: tuple[str, ...],
    split: bool,
    cycles: int,
    history: Path | None,
    save_history: Path | None,
    seed: int,
    explain: bool,
    form: str,
    exit_code: bool,
) -> None:
    """Say what a strategy would do with a snapshot, and why.

    SNAPSHOT is a file of `barycenter snapshot`, or - for one at standard input, a load report of `pulsar-admin
    broker-stats load-report`, a folder of load reports, or a data folder with the pipeline's tables. One round is run
    as the leader runs it: shed, then place what was shed. Nothing is carried out.

    Settings are those that came with the snapshot, or that the brokers of the data folder have, else the defaults;
    --config and --set change them. What was used is said.

    Ends with 0, with 1 if the snapshot or the configuration is not usable, with 2 for wrong usage.
    """
    if file is not None and path is not None:
        raise click.UsageError(f"give one snapshot: {file} or --snapshot {path}")
    try:
        found = snapshot_given(path or file, url, at)
        config = configured(found, conf, changes, strategy, placement)
        manager = manager_of(found, strategy)
        if split or (strategy and is_splitter(strategy)):
            by = f"{splitter_name(manager)} splits"
            rounds = split_rounds(found.snapshot, config, cycles, manager)
        elif bundles:
            by = f"{placer_name(config, manager)} places"
            named = _bundles_named(bundles, found.snapshot.bundles.names)
            rounds = [list(placement_lines(found.snapshot, config, named, seed, manager))]
        elif strategy and role_of(strategy) is Role.PLACEMENT:
            raise click.UsageError(f"{short_name(strategy)} places bundles: say which with --place BUNDLE")
        else:
            by = f"{shedder_name(config, manager)} sheds, {placer_name(config, manager)} places"
            memory = read_memory(history) if history else found.memory
            rounds, after = shedding_rounds(found.snapshot, config, memory, cycles, seed, manager)
            if save_history:
                save_history.write_bytes(msgspec.json.encode(after))
    except WrongWordError as error:
        raise click.UsageError(str(error)) from error
    except (*UNUSABLE, ClusterError) as error:
        fail(in_words(error))
        return
    for warning in found.warnings:
        click.echo(f"barycenter: warning: {warning}", err=True)
    for each in advice(config):
        if each.severity is not Severity.REFUSED:  # what a broker refuses was refused above, if it mattered here
            click.echo(f"barycenter: {each.severity}: {each}", err=True)
    settings = settings_in_words(found, config.barycenter_pulsar_compatibility, conf, changes)
    if form == "json":
        click.echo(f"barycenter: by {settings}", err=True)
        print_json(line for lines in rounds for line in lines)
    else:
        click.echo(headline(found, f"{by}; {settings}"))
        for number, lines in enumerate(rounds, 1):
            if len(rounds) > 1:
                click.echo(f"\ncycle {number}")
            print_tables(lines, explain=explain, window=window_of(found.snapshot))
        if not any(rounds):
            click.echo("\nnothing to do")
    if exit_code and any(line.kind in ("unload", "assign", "split") for lines in rounds for line in lines):
        sys.exit(SOMETHING_TO_DO)


def snapshot_given(path: Path | None, url: str | None, at: str) -> SnapshotFile:
    """Return the snapshot of a file or folder, of a data folder at a time, or of the cluster that runs at `url`.

    Raises:
        click.UsageError: none was given, or several.
        ClusterError, SnapshotFileError, ConfigError, OSError: it cannot be had.
    """
    at_ms = moment_ms("--at", at) if at else None
    if path is not None and url is None:
        return read_with_settings(path, at_ms)
    url = url if path is not None else named_url(url)
    if url is None or path is not None or at_ms is not None:
        raise click.UsageError("give SNAPSHOT, or --url for the state of now")
    return replace(of_document(asyncio.run(snapshot_of(asking_client, url)), Path(url)), settings=OF_LEADER)


def _bundles_named(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the bundles that are named, or that have the topics named, of those that a snapshot knows; each once."""
    found: dict[str, None] = {}
    for name in names:
        try:
            subject = Subject.of(name)
        except InvalidNameError as error:
            raise click.UsageError(f"--place {name}: {error}") from error
        if subject.span is None:
            raise click.UsageError(f"--place {name}: give a bundle or a topic")
        bundle = subject.name
        if subject.kind == "topic":
            bundle = next((each for each in known if subject.span.is_covered_by(each)), "")
            if not bundle:
                raise click.UsageError(f"--place {name}: no bundle that has this topic is reported; name the bundle")
        found[bundle] = None
    return [*found]
