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
from pulsar_barycenter.load.strategy_plugins import raised_by
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
@click.option(
    "--at", default="", help="The state at this time, from the pipeline's tables: 15m (ago), 2h, 2026-01-31T12:00."
)
@click.option("--strategy", help="A shedding, placement or split strategy.  [default: the configured one]")
@click.option("--placement", help="The placement strategy for shed bundles.  [default: the configured one]")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Override a key of broker.conf; may be repeated."
)
@click.option("--config", "conf", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A broker.conf.")
@click.option(
    "--place",
    "bundles",
    multiple=True,
    metavar="TOPIC|BUNDLE",
    help="Place this bundle, or a topic's; may be repeated.",
)
@click.option("--split", is_flag=True, help="Show which bundles are too large and would be split.")
@click.option("--cycles", default=1, show_default=True, type=click.IntRange(1, 1000), help="Rounds, one after another.")
@click.option(
    "--history",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The shedder's memory, a file of --save-history.  [default: the memory in the snapshot]",
)
@click.option(
    "--save-history", type=click.Path(dir_okay=False, path_type=Path), help="Save the shedder's memory afterwards."
)
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of random choices.")
@click.option("--explain", is_flag=True, help="Print complete reasons.")
@with_client_conf
@with_format("table", "json", json="one object on each line")
@click.option("--exit-code", is_flag=True, help="Exit with 3 if there is something to do.")
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
    """Show what a strategy would do with a snapshot, and why.

    SNAPSHOT is a file of `barycenter snapshot` (or - for standard input), a load report of `pulsar-admin broker-stats
    load-report`, a folder of load reports, or a data folder with the pipeline's tables. The command runs one round as
    the leader does: it sheds bundles, then places them. No bundle is moved.

    The settings come from the snapshot or from the brokers of the data folder, else they are the defaults; --config and
    --set override them. The output names their origin.

    Exit code: 0; 1 if the snapshot or the configuration cannot be used; 2 for wrong usage.
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
            raise click.UsageError(
                f"{short_name(strategy)} is a placement strategy: name the bundles to assign with --place BUNDLE"
            )
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
    except Exception as error:
        plugin = raised_by(error)
        if plugin is None:
            raise
        reason = f"{type(error).__name__}: {error}"
        fail(f"the strategy {plugin.name} of the package {plugin.package} failed: {reason}")
        return
    for warning in found.warnings:
        click.echo(f"barycenter: warning: {warning}", err=True)
    for hint in advice(config):
        if (
            hint.severity is not Severity.REFUSED
        ):  # a setting that a broker refuses has failed above, if it is used here
            click.echo(f"barycenter: {hint.severity}: {hint}", err=True)
    settings = settings_in_words(found, config.barycenter_pulsar_compatibility, conf, changes)
    if form == "json":
        click.echo(f"barycenter: by {settings}", err=True)
        print_json(line for lines in rounds for line in lines)
    else:
        click.echo(headline(found, f"{by}; {settings}"))
        for number, lines in enumerate(rounds, 1):
            if len(rounds) > 1:
                click.echo(f"\ncycle {number}")
            print_tables(lines, found.snapshot.bundles.names, explain=explain, window=window_of(found.snapshot))
        if not any(rounds):
            click.echo("\nnothing to do")
    if exit_code and any(line.kind in ("unload", "assign", "split") for lines in rounds for line in lines):
        sys.exit(SOMETHING_TO_DO)


def snapshot_given(path: Path | None, url: str | None, at: str) -> SnapshotFile:
    """Return the snapshot of `path` (a file or folder, or a data folder as it was at the time `at`), or the present one
    of the cluster at `url`.

    Raises:
        click.UsageError: neither a path nor a cluster was given, or both; or `at` was given with a cluster.
        ClusterError, SnapshotFileError, ConfigError, OSError: the snapshot cannot be read.
    """
    at_ms = moment_ms("--at", at) if at else None
    if path is not None and url is None:
        return read_with_settings(path, at_ms)
    url = url if path is not None else named_url(url)
    if url is None or path is not None or at_ms is not None:
        raise click.UsageError("give SNAPSHOT, or --url for the present state of a cluster")
    return replace(of_document(asyncio.run(snapshot_of(asking_client, url)), Path(url)), settings=OF_LEADER)


def _bundles_named(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the bundles that `names` name, without duplicates: a bundle itself, or the bundle that contains a named
    topic. `known` are the bundles of the snapshot.

    Raises:
        click.UsageError: a name is not valid, or no known bundle contains the topic.
    """
    found: dict[str, None] = {}
    for name in names:
        try:
            subject = Subject.of(name)
        except InvalidNameError as error:
            raise click.UsageError(f"--place {name}: {error}") from error
        if subject.span is None:
            raise click.UsageError(f"--place {name}: this is neither a bundle nor a topic; give a bundle or a topic")
        bundle = subject.name
        if subject.kind == "topic":
            bundle = next((reported for reported in known if subject.span.is_covered_by(reported)), "")
            if not bundle:
                raise click.UsageError(
                    f"--place {name}: the snapshot has no bundle with this topic; give a bundle instead of the topic"
                )
        found[bundle] = None
    return [*found]
