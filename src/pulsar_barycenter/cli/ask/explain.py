"""`barycenter explain`: prints why a bundle is on its broker, and why a broker sheds bundles or keeps them."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from pulsar_barycenter.cli.ask.decision_tables import PLAIN_WIDTH, print_state, print_tables, window_of
from pulsar_barycenter.cli.asking.client import asked_url, asking_client
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.moments import moment_ms
from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.rounds.decided import BundleState, Decided, state_of
from pulsar_barycenter.load.rounds.snapshot_rounds import placement_lines
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.observer.topic_names import NoSuchTopicError
from pulsar_barycenter.questions.explanation import Source, UnknownNameError, decided_now
from pulsar_barycenter.questions.past_decisions import known_then, of_cluster, of_files
from pulsar_barycenter.questions.past_state import Subject, not_known, state_at
from pulsar_barycenter.questions.past_state import in_words as told_then
from pulsar_barycenter.snapshots.decided_by import UNUSABLE, configured, manager_of
from pulsar_barycenter.snapshots.settings_in_force import read_with_settings, settings_in_words
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFile, SnapshotFileError
from pulsar_barycenter.snapshots.table_folder import tables_below
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.tables import print_text, printable


@click.command(name="explain")
@click.argument("name", default="", metavar="[TOPIC|BUNDLE|BROKER]")
@click.option(
    "--at", default="", help="Explain the state at this time: 15m (ago), 2h, 2026-01-31T12:00. Needs the argument."
)
@click.option("--bundle", default="", metavar="TENANT/NAMESPACE/RANGE", help="A bundle, as the argument may be.")
@click.option("--broker", default="", metavar="HOST:PORT", help="A broker, as the argument may be.")
@click.option("--namespace", default="", metavar="TENANT/NAMESPACE", help="Decisions about the bundles of a namespace.")
@click.option(
    "--url", help="A running cluster: the web address of any broker.  [BARYCENTER_URL; http://127.0.0.1:8080]"
)
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="The decision logs of a data folder; with --at also one log, or the pipeline's tables.",
)
@click.option("--snapshot", "file", type=click.Path(path_type=Path), help="A saved snapshot; - is standard input.")
@click.option("--since", default="", help="Only decisions since this time: 15m (ago), 2h, 2026-01-31T12:00.")
@click.option(
    "--limit", default=20, show_default=True, type=click.IntRange(1), help="Print this number of the last decisions."
)
@with_client_conf
@with_format("table", "json", json="one object on each line")
def command(
    name: str,
    at: str,
    bundle: str,
    broker: str,
    namespace: str,
    url: str | None,
    data: Path | None,
    file: Path | None,
    since: str,
    limit: int,
    form: str,
) -> None:
    """Explain a topic, a bundle, a broker or a namespace: past decisions about it, and what the leader would do now.

    Give a topic by any name that clients use (orders, tenant/namespace/orders, or the full name). A topic is on the
    broker of its bundle. A partitioned topic means all its partitions.

    A running cluster yields the decisions that were made, and the verdict on each broker now: why it sheds, or why it
    keeps all its bundles. A data folder yields only decisions; a saved snapshot yields the verdicts and the decisions
    that would follow.

    With --at, the command explains where a topic or bundle was, or what a broker served, at that time: which decision
    put it there, earlier moves, refusals since, and the result of the round at that time. The source is a running
    cluster's logs (also those of former leaders), a data folder, a folder of logs, one log, or the pipeline's tables.
    If the tables have the load of that time, the verdicts and the decisions that would have followed are added.

    Exit code: 0; 1 if there is nothing to print or no broker answers; 2 for wrong usage.
    """
    if at:
        if any((bundle, broker, namespace, since)) or not name:
            raise click.UsageError("give TOPIC, BUNDLE or BROKER with --at TIME, and leave out the other filters")
        if file is not None or (url is not None and data is not None):
            raise click.UsageError("give --url or --data with --at: a snapshot has the state at one time only")
        _explain_then(name, moment_ms("--at", at), url, data, form)
        return
    if data is not None and not data.is_dir():
        raise click.UsageError(f"--data {data}: give a folder; a single log can only be read with --at TIME")
    if name and any((bundle, broker, namespace)):
        raise click.UsageError("give TOPIC, BUNDLE or BROKER, or one of --bundle, --broker and --namespace")
    since_ms = moment_ms("--since", since)
    if sum(source is not None for source in (url, data, file)) > 1:
        raise click.UsageError("give one of --url, --data and --snapshot")
    subject = _subject(name) if name else None
    try:
        source = Source(asking_client, asked_url(url) if data is None and file is None else "", data, file, since_ms)
        if subject is not None and subject.kind == "topic":
            questions = source.of_topic(TopicName.parse(subject.name))
        elif subject is not None:
            questions = [("", {"bundle": "", "broker": "", "namespace": "", subject.kind: subject.name})]
        else:
            questions = [("", _asked(bundle, broker, namespace))]
        for heading, asked in questions:
            if heading:
                click.echo(printable(heading), err=form == "json")
            _explain_now(source, asked, limit, form)
    except (*UNUSABLE, ClusterError, UnknownNameError, NoSuchTopicError) as error:
        fail(in_words(error))


def _subject(name: str) -> Subject:
    try:
        return Subject.of(name)
    except InvalidNameError as error:
        hint = f"; decisions of a namespace: --namespace {name}" if _is_namespace(name) else ""
        raise click.UsageError(f"{error}{hint}") from error


def _is_namespace(name: str) -> bool:
    try:
        NamespaceName.parse(name)
    except InvalidNameError:
        return False
    return True


def _explain_now(source: Source, asked: dict[str, str], limit: int, form: str) -> None:
    """Print past decisions about `asked`, and what a round would decide about it now. `asked` maps "bundle",
    "namespace" and "broker" to a name or "". End the program with exit code 1 if there is nothing to print.
    """
    answer = source.about(asked)
    found = answer.found
    for problem in answer.missing:
        click.echo(f"barycenter: {problem}", err=True)
    states = state_of(found.snapshot, asked["bundle"]) if found is not None and asked["bundle"] else []
    lines, shedding = decided_now(found, asked) if found is not None else ([], [])
    if found is not None and answer.is_unowned:
        lines = list(placement_lines(found.snapshot, configured(found), [asked["bundle"]], 0, manager_of(found, None)))
        owner = f"it gets an owner when a client looks up a topic of it; {_would_go(lines[0])}"
        click.echo(printable(f"no broker serves {asked['bundle']}: {owner}"), err=form == "json")
    records = answer.records[-limit:]
    if form == "json":
        for line in (*records, *states, *lines):
            click.echo(msgspec.json.encode(line).decode())
    else:
        settings = "" if found is None else settings_in_words(found, configured(found).barycenter_pulsar_compatibility)
        window = "" if found is None else window_of(found.snapshot)
        bundles = () if found is None else found.snapshot.bundles.names
        _print(records, states, lines, shedding, settings, window, bundles)
    if not records and not states and not lines:
        fail(
            f"nothing is known of {next(filter(None, asked.values()))}: brokers return only their last decisions; "
            "to read all decisions, give the data folder with --data"
        )


def _would_go(placed: Decided) -> str:
    if not placed.destination:
        return "now no broker would get it"
    if placed.reason.code is Code.DRAWN:
        return f"now the leader would draw a broker at random, such as {placed.destination}"
    return f"now the leader would choose {placed.destination}"


def _explain_then(name: str, at_ms: int, url: str | None, data: Path | None, form: str) -> None:
    """Print the explanation for a time in the past; end the program with exit code 1 if nothing is known of that
    time.
    """
    subject = _subject(name)
    ask = of_cluster(asking_client, asked_url(url)) if data is None else of_files(data)
    lines: list[Decided] = []
    settings = ""
    shedding: list[str] = []
    try:
        records, page = known_then(subject, at_ms, ask)
        found = None if data is None else _snapshot_then(data, at_ms)
        if found is not None:
            bundle = next((name for name in found.snapshot.bundles.names if _is_of(subject, name)), "")
            broker = subject.name if subject.kind == "broker" else ""
            if bundle or broker in found.snapshot.brokers.index:
                lines, shedding = decided_now(found, {"bundle": bundle, "broker": broker, "namespace": ""})
            settings = settings_in_words(found, configured(found).barycenter_pulsar_compatibility)
    except (*UNUSABLE, ClusterError) as error:
        fail(in_words(error))
    for broker in page.silent:
        click.echo(
            f"barycenter: {broker} does not answer: decisions that only this broker logged are missing here", err=True
        )
    answer = state_at(subject, at_ms, records)
    if not lines and answer.last is None and not answer.recent and not answer.refused:
        fail(not_known(subject, at_ms, page))
    if form == "json":
        for line in (answer, *lines):
            click.echo(msgspec.json.encode(line).decode())
        return
    for text in told_then(answer):
        print_text(text, plain_width=PLAIN_WIDTH)
    if found is not None and lines:
        click.echo(f"\nwhat the leader would have decided with the load at the time given with --at, by {settings}")
        names = found.snapshot.bundles.names
        print_tables(lines, names, explain=True, shedding=shedding, window=window_of(found.snapshot))


def _is_of(subject: Subject, bundle: str) -> bool:
    return subject.span is not None and subject.span.is_covered_by(bundle)


def _snapshot_then(data: Path, at_ms: int) -> SnapshotFile | None:
    """Return the snapshot of the load at a past time; None if the pipeline's tables do not have that load."""
    if not data.is_dir() or tables_below(data) is None:
        return None
    try:
        return read_with_settings(data, at_ms)
    except SnapshotFileError as error:
        click.echo(f"barycenter: the load at the time given with --at is not known: {error}", err=True)
        return None


def _asked(bundle: str, broker: str, namespace: str) -> dict[str, str]:
    if sum(map(bool, (bundle, broker, namespace))) != 1:
        raise click.UsageError("give TOPIC, BUNDLE or BROKER, or one of --bundle, --broker and --namespace")
    try:
        bundle = str(Bundle.parse(bundle)) if bundle else ""
    except InvalidNameError as error:
        raise click.UsageError(f"{error}; a bundle is TENANT/NAMESPACE/0x…_0x…") from error
    try:
        namespace = str(NamespaceName.parse(namespace)) if namespace else ""
    except InvalidNameError as error:
        raise click.UsageError(str(error)) from error
    return {"bundle": bundle, "broker": broker, "namespace": namespace}


def _print(
    records: list[DecisionRecord],
    states: list[BundleState],
    lines: list[Decided],
    shedding: list[str],
    settings: str,
    window: str,
    bundles: Collection[str],
) -> None:
    for record in records:
        at = datetime.fromtimestamp(record.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        where = " → ".join(broker for broker in (record.source, record.destination) if broker)
        by = f"by {record.decided_by}" if record.decided_by else ""
        click.echo(printable("  ".join(part for part in (at, record.outcome, record.bundle, where, by) if part)))
        print_text(f"      {record.sentence}", plain_width=PLAIN_WIDTH)
        if record.request:
            click.echo(printable(f"      {record.request}"))
    if states or lines:
        click.echo(f"\nnow, by {settings}")
    for state in states:
        print_state(state, window)
    if lines:
        print_tables(lines, bundles, explain=True, shedding=shedding, window=window)
