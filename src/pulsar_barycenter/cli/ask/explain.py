"""`barycenter explain`: why a bundle is where it is, and why a broker sheds or does not."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from pulsar_barycenter.cli.ask.decision_tables import print_state, print_tables, sources_of, window_of
from pulsar_barycenter.cli.ask.past.decisions import known_then, of_cluster, of_files
from pulsar_barycenter.cli.ask.past.state import Subject, known_range, state_at
from pulsar_barycenter.cli.ask.past.state import in_words as told_then
from pulsar_barycenter.cli.ask.running_cluster import ClusterError, decisions_of, nobody_serves, snapshot_of
from pulsar_barycenter.cli.ask.settings_in_force import OF_LEADER, read_with_settings, told
from pulsar_barycenter.cli.ask.topic_names import NoSuchTopicError, bundles_of_topic
from pulsar_barycenter.cli.asking.client import asked_url
from pulsar_barycenter.cli.asking.options import with_client_conf
from pulsar_barycenter.cli.failure import fail, in_words
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.moments import moment_ms
from pulsar_barycenter.cli.suggestions import did_you_mean
from pulsar_barycenter.cli.terminal import printable
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.rounds.decided import BundleState, Decided, concerning, state_of
from pulsar_barycenter.load.rounds.snapshot_rounds import placement_lines, shedding_rounds, split_rounds
from pulsar_barycenter.logs.decision_log import DecisionRecord, read_decisions
from pulsar_barycenter.logs.decision_pages import Span
from pulsar_barycenter.naming.bundle import Bundle, may_leave_its_broker
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.snapshots.decided_by import UNUSABLE, configured, manager_of
from pulsar_barycenter.snapshots.pipeline_tables import tables_below
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFile, SnapshotFileError, of_document


@click.command(name="explain")
@click.argument("name", default="", metavar="[TOPIC|BUNDLE|BROKER]")
@click.option("--at", default="", help="Why it was where it was then: 15m, 2h, 2026-01-31T12:00; with the argument.")
@click.option("--bundle", default="", metavar="TENANT/NAMESPACE/RANGE", help="The same as a bundle as the argument.")
@click.option("--broker", default="", metavar="HOST:PORT", help="The same as a broker as the argument.")
@click.option("--namespace", default="", metavar="TENANT/NAMESPACE", help="Decisions about its bundles.")
@click.option(
    "--url", help="Ask a running cluster: web address of any broker.  [BARYCENTER_URL; http://127.0.0.1:8080]"
)
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    help="Read the decision logs of a data folder instead; with --at a log, or the pipeline's tables, too.",
)
@click.option(
    "--snapshot", "file", type=click.Path(path_type=Path), help="Explain a saved snapshot instead; - is standard input."
)
@click.option("--since", default="", help="Only decisions since then: 15m, 2h, 2026-01-31T12:00.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="Most decisions, the last ones.")
@with_client_conf
@with_format("table", "json", json="one object a line")
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
    """Say why: the decisions about a topic, a bundle, a broker or a namespace, and what the leader would do now.

    A topic is named as clients name it (orders, tenant/namespace/orders, or in full); it is where its bundle is. A
    partitioned topic stands for all its partitions.

    From a running cluster come the decisions that were made, and the verdict on the brokers as of now: why each sheds,
    or why it keeps all it has. A data folder has the decisions alone, a saved snapshot the verdict and what would be
    done.

    With --at, where a topic, a bundle or a broker was at that time: what put it there, what moved it before, what was
    refused since, and what the round of then decided; from a running cluster's logs (also of leaders that are gone), a
    data folder, a folder of logs or one log, or the pipeline's tables. Tables that have the loads of then add the
    verdicts, and what the round would have done.

    Ends with 0, with 1 if there is nothing to be told or nobody answers, with 2 for wrong usage.
    """
    if at:
        if any((bundle, broker, namespace, since)) or not name:
            raise click.UsageError(
                "--at TIME goes with TOPIC, BUNDLE or BROKER as the argument, and with no other filter"
            )
        if file is not None or (url is not None and data is not None):
            raise click.UsageError("with --at give --url or --data: a snapshot is of one time only")
        _explain_then(name, moment_ms("--at", at), url, data, form)
        return
    if data is not None and not data.is_dir():
        raise click.UsageError(f"--data {data}: give a folder; one log is read with --at")
    if name and any((bundle, broker, namespace)):
        raise click.UsageError("give TOPIC, BUNDLE or BROKER, or one of --bundle, --broker and --namespace")
    since_ms = moment_ms("--since", since)
    if sum(each is not None for each in (url, data, file)) > 1:
        raise click.UsageError("give one of --url, --data and --snapshot")
    subject = _subject(name) if name else None
    try:
        source = _Source(asked_url(url) if data is None and file is None else "", data, file, since_ms)
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


class _Source:
    """Where the answer is from: a running cluster, decision logs, or a saved snapshot. A snapshot is read once."""

    def __init__(self, url: str, data: Path | None, file: Path | None, since_ms: int) -> None:
        self._url, self._data, self._since_ms = url, data, since_ms
        self._snapshot = None if file is None else read_with_settings(file)
        self._logged = None if data is None else read_decisions(data)

    def of_topic(self, topic: TopicName) -> list[tuple[str, dict[str, str]]]:
        """Return what to ask of a topic, each with a line that says which bundle it is about.

        Raises:
            ClusterError, NoSuchTopicError, UnknownNameError: its bundle is not known there.
        """
        found: list[tuple[str, str]] = []
        if self._url:
            found = [(str(each), each.bundle) for each in asyncio.run(bundles_of_topic(self._url, topic))]
        else:
            span = Span.of_topic(topic)
            known = [each.bundle for each in self._logged or ()]
            known += [] if self._snapshot is None else self._snapshot.snapshot.bundles.names
            # the last is the smallest after splits, as decisions are oldest first
            covering = [each for each in dict.fromkeys(known) if span.is_covered_by(each)]
            found = [(f"topic {topic} is in {covering[-1]}", covering[-1])] if covering else []
        if not found:
            raise UnknownNameError(f"nothing is known of topic {topic}: no bundle that has it is named there")
        return [(heading, {"bundle": bundle, "broker": "", "namespace": ""}) for heading, bundle in found]

    def about(self, asked: dict[str, str]) -> tuple[list[DecisionRecord], SnapshotFile | None, bool]:
        """Return the decisions about what is asked for, oldest first, what the leader decides upon if it is known, and
        whether it is a bundle that no broker of the running cluster serves.

        Raises:
            ClusterError, UnknownNameError: nobody answers, or knows the name.
        """
        if self._logged is not None:
            _check_known(asked, self._logged, None)
            return [each for each in self._logged if each.at >= self._since_ms and each.concerns(**asked)], None, False
        records: list[DecisionRecord] = []
        if self._url:
            records, found = _of_cluster(self._url, asked, self._since_ms)
            self._snapshot = found or self._snapshot
            bundle = asked["bundle"]
            is_silent = bool(bundle) and found is not None and not state_of(found.snapshot, bundle)
            if is_silent and asyncio.run(nobody_serves(self._url, bundle)):
                return records, found, True
        _check_known(asked, records, self._snapshot)
        return records, self._snapshot, False


def _explain_now(source: _Source, asked: dict[str, str], limit: int, form: str) -> None:
    """Print the decisions about what is asked for, and what would be decided now; end with 1 if that is nothing."""
    records, found, is_unowned = source.about(asked)
    states = state_of(found.snapshot, asked["bundle"]) if found is not None and asked["bundle"] else []
    lines, shedding = _now(found, asked) if found is not None else ([], [])
    if found is not None and is_unowned:
        lines = list(placement_lines(found.snapshot, configured(found), [asked["bundle"]], 0, manager_of(found, None)))
        owner = f"it gets an owner when a client looks up a topic of it; {_would_go(lines[0])}"
        click.echo(printable(f"nobody serves {asked['bundle']}: {owner}"), err=form == "json")
    records = records[-limit:]
    if form == "json":
        for each in (*records, *states, *lines):
            click.echo(msgspec.json.encode(each).decode())
    else:
        settings = "" if found is None else told(found, configured(found).barycenter_pulsar_compatibility)
        window = "" if found is None else window_of(found.snapshot)
        _print(records, states, lines, shedding, settings, window)
    if not records and not states and not lines:
        fail(
            f"nothing is known of {next(filter(None, asked.values()))}; decisions are kept while brokers run, and in "
            "<data>/decisions"
        )


def _would_go(placed: Decided) -> str:
    if not placed.destination:
        return "now no broker would get it"
    if placed.reason.code is Code.DRAWN:
        return f"now the leader would draw a broker at random, such as {placed.destination}"
    return f"now the leader would choose {placed.destination}"


def _explain_then(name: str, at_ms: int, url: str | None, data: Path | None, form: str) -> None:
    """Print what is known of a time, and end with 1 if that is nothing."""
    subject = _subject(name)
    ask = of_cluster(asked_url(url)) if data is None else of_files(data)
    lines: list[Decided] = []
    settings = ""
    shedding: list[str] = []
    try:
        records, page = known_then(subject, at_ms, ask)
        found = None if data is None else _snapshot_then(data, at_ms)
        if found is not None:
            bundle = next((each for each in found.snapshot.bundles.names if _is_of(subject, each)), "")
            broker = subject.name if subject.kind == "broker" else ""
            if bundle or broker in found.snapshot.brokers.index:
                lines, shedding = _now(found, {"bundle": bundle, "broker": broker, "namespace": ""})
            settings = told(found, configured(found).barycenter_pulsar_compatibility)
    except (*UNUSABLE, ClusterError) as error:
        fail(in_words(error))
    for broker in page.silent:
        click.echo(f"barycenter: {broker} does not answer: what it alone logged is missing", err=True)
    answer = state_at(subject, at_ms, records)
    if not lines and answer.last is None and not answer.recent and not answer.refused:
        fail(f"nothing is known of {subject.kind} {subject.name} at that time; {known_range(page)}")
    if form == "json":
        for each in (answer, *lines):
            click.echo(msgspec.json.encode(each).decode())
        return
    for line in told_then(answer):
        click.echo(printable(line))
    if found is not None and lines:
        click.echo(f"\nupon the loads of then, by {settings}")
        print_tables(lines, explain=True, shedding=shedding, window=window_of(found.snapshot))


def _is_of(subject: Subject, bundle: str) -> bool:
    return subject.span is not None and subject.span.is_covered_by(bundle)


def _snapshot_then(data: Path, at_ms: int) -> SnapshotFile | None:
    """Return the loads of a time if the pipeline's tables have them."""
    if not data.is_dir() or tables_below(data) is None:
        return None
    try:
        return read_with_settings(data, at_ms)
    except SnapshotFileError as error:
        click.echo(f"barycenter: no loads of then: {error}", err=True)
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


class UnknownNameError(ValueError):
    """Nobody knows the broker, bundle or namespace that was asked for; the text names those nearest to it."""


def _check_known(asked: dict[str, str], records: list[DecisionRecord], found: SnapshotFile | None) -> None:
    """Return if the decisions or the snapshot name what is asked for.

    Raises:
        UnknownNameError: they do not.
    """
    kind, name = next((kind, name) for kind, name in asked.items() if name)
    known: set[str] = set()
    if kind == "broker":
        known = {broker for each in records for broker in (each.by, each.source, each.destination) if broker}
        known.update(found.snapshot.brokers.names if found is not None else ())
    else:
        known = {each.bundle for each in records if each.bundle}
        known.update(found.snapshot.bundles.names if found is not None else ())
        if kind == "bundle":  # those of a broker's own, as of its heartbeat, are nobody's typing error
            known = {bundle for bundle in known if bundle == name or may_leave_its_broker(bundle)}
        if kind == "namespace":
            known = {bundle.rpartition("/")[0] for bundle in known}
    if name in known:
        return
    # those of its namespace are nearest to a bundle, and few
    namespace = name.rpartition("/")[0]
    near = {each for each in known if each.rpartition("/")[0] == namespace} if kind == "bundle" else known
    raise UnknownNameError(
        f"nothing is known of {kind} {name}: no broker reports it, and no decision names it"
        f"{did_you_mean(name, sorted(near or known))}"
    )


def _of_cluster(url: str, asked: dict[str, str], since_ms: int) -> tuple[list[DecisionRecord], SnapshotFile | None]:
    query = {name: value for name, value in asked.items() if value}
    records, troubles = asyncio.run(decisions_of(url, {**query, "since": str(since_ms)}))
    for trouble in troubles:
        click.echo(f"barycenter: {trouble}", err=True)
    try:
        document = asyncio.run(snapshot_of(url))
    except ClusterError as error:
        click.echo(f"barycenter: {error}", err=True)
        return records, None
    return records, replace(of_document(document, Path("the leader's snapshot")), settings=OF_LEADER)


def _now(found: SnapshotFile, asked: dict[str, str]) -> tuple[list[Decided], list[str]]:
    """Return what the leader would do now that concerns what is asked for, and which brokers would shed."""
    config = configured(found)
    manager = manager_of(found, None)
    rounds, _ = shedding_rounds(found.snapshot, config, found.memory, 1, 0, manager)
    lines = [*rounds[0], *split_rounds(found.snapshot, config, 1, manager)[0]]
    return concerning(lines, found.snapshot, **asked), sources_of(rounds[0])


def _print(
    records: list[DecisionRecord],
    states: list[BundleState],
    lines: list[Decided],
    shedding: list[str],
    settings: str,
    window: str,
) -> None:
    for record in records:
        at = datetime.fromtimestamp(record.at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        where = " → ".join(each for each in (record.source, record.destination) if each)
        what = f"{record.kind} {record.refused}".strip()
        by = f"by {record.decided_by}" if record.decided_by else ""
        click.echo(printable("  ".join(each for each in (at, what, record.bundle, where, by) if each)))
        click.echo(printable(f"      {record.sentence}"))
        if record.request:
            click.echo(printable(f"      {record.request}"))
    if states or lines:
        click.echo(f"\nnow, by {settings}")
    for state in states:
        print_state(state, window)
    if lines:
        print_tables(lines, explain=True, shedding=shedding, window=window)
