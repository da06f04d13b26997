"""Collects what explains a bundle or a broker: past decisions about it, and the decisions that would be made now."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pulsar_barycenter.admin.client import NewClient
from pulsar_barycenter.cluster_logs.decision_log import DecisionRecord, read_decisions
from pulsar_barycenter.cluster_logs.decision_pages import Span
from pulsar_barycenter.load.rounds.decided import Decided, concerning, sources_of, state_of
from pulsar_barycenter.load.rounds.snapshot_rounds import shedding_rounds, split_rounds
from pulsar_barycenter.naming.bundle import may_leave_its_broker
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.running_cluster import ClusterError, decisions_of, snapshot_of
from pulsar_barycenter.observer.topic_names import bundles_of_topic
from pulsar_barycenter.operations.admin_cluster import nobody_serves
from pulsar_barycenter.snapshots.decided_by import configured, manager_of
from pulsar_barycenter.snapshots.settings_in_force import OF_LEADER, read_with_settings
from pulsar_barycenter.snapshots.snapshot_file import SnapshotFile, of_document
from pulsar_barycenter.terminal.suggestions import did_you_mean


class UnknownNameError(ValueError):
    """No source has the requested broker, bundle or namespace; the text suggests similar names."""


@dataclass(frozen=True, slots=True)
class About:
    """The data from which an explanation about a bundle, a broker or a namespace is made.

    `records` are the decisions, oldest first; `found` is the leader's snapshot, None if it is not known. `is_unowned`
    is True if the data is about a bundle that exists, and that no broker of the running cluster serves. `missing` has
    texts about the brokers that did not answer.
    """

    records: list[DecisionRecord]
    found: SnapshotFile | None = None
    is_unowned: bool = False
    missing: Sequence[str] = ()


class Source:
    """The source of explanations: a running cluster (`url`), decision logs (`data`), or a snapshot in a file (`file`).
    Logs and the file are read once, when this object is created.

    `url` is the web address of any broker, blank for logs and files. Decisions before `since_ms` (epoch ms) are left
    out.
    """

    def __init__(self, new_client: NewClient, url: str, data: Path | None, file: Path | None, since_ms: int) -> None:
        self._new_client, self._url, self._since_ms = new_client, url, since_ms
        self._snapshot = None if file is None else read_with_settings(file)
        self._logged = None if data is None else read_decisions(data)

    def of_topic(self, topic: TopicName) -> list[tuple[str, dict[str, str]]]:
        """Return what to ask in order to explain a topic: for each bundle of the topic (a partitioned topic has
        several) a heading that names the bundle, and the argument for `about`.

        Raises:
            ClusterError, NoSuchTopicError, UnknownNameError: the bundle of the topic is not known.
        """
        found: list[tuple[str, str]] = []
        if self._url:
            found = [
                (str(bundle), bundle.bundle)
                for bundle in asyncio.run(bundles_of_topic(self._new_client, self._url, topic))
            ]
        else:
            span = Span.of_topic(topic)
            known = [record.bundle for record in self._logged or ()]
            known += [] if self._snapshot is None else self._snapshot.snapshot.bundles.names
            # decisions are oldest first, so the last bundle is the smallest after splits
            covering = [bundle for bundle in dict.fromkeys(known) if span.is_covered_by(bundle)]
            found = [(f"topic {topic} is in {covering[-1]}", covering[-1])] if covering else []
        if not found:
            raise UnknownNameError(f"nothing is known of topic {topic}: no decision names a bundle that contains it")
        return [(heading, {"bundle": bundle, "broker": "", "namespace": ""}) for heading, bundle in found]

    def about(self, asked: dict[str, str]) -> "About":
        """Return the data about a bundle, a broker or a namespace. `asked` has the keys "bundle", "broker" and
        "namespace"; the value of one is the requested name, the other two values are blank.

        Raises:
            ClusterError, UnknownNameError: no broker answers, or no source has the name.
        """
        if self._logged is not None:
            _check_known(asked, self._logged, None)
            return About(
                [record for record in self._logged if record.at >= self._since_ms and record.concerns(**asked)]
            )
        if not self._url:
            _check_known(asked, [], self._snapshot)
            return About([], self._snapshot)
        query = {name: value for name, value in asked.items() if value}
        records, missing = asyncio.run(
            decisions_of(self._new_client, self._url, {**query, "since": str(self._since_ms)})
        )
        try:
            document = asyncio.run(snapshot_of(self._new_client, self._url))
        except ClusterError as error:
            missing.append(str(error))
        else:
            self._snapshot = replace(of_document(document, Path("the leader's snapshot")), settings=OF_LEADER)
            bundle = asked["bundle"]
            is_silent = bool(bundle) and not state_of(self._snapshot.snapshot, bundle)
            if is_silent and asyncio.run(nobody_serves(self._new_client, self._url, bundle)):
                return About(records, self._snapshot, is_unowned=True, missing=missing)
        _check_known(asked, records, self._snapshot)
        return About(records, self._snapshot, missing=missing)


def _check_known(asked: dict[str, str], records: list[DecisionRecord], found: SnapshotFile | None) -> None:
    """Check that the decisions `records` or the snapshot `found` have the name in `asked`.

    Raises:
        UnknownNameError: neither has the name.
    """
    kind, name = next((kind, name) for kind, name in asked.items() if name)
    known: set[str] = set()
    if kind == "broker":
        known = {broker for record in records for broker in (record.by, record.source, record.destination) if broker}
        known.update(found.snapshot.brokers.names if found is not None else ())
    else:
        known = {record.bundle for record in records if record.bundle}
        known.update(found.snapshot.bundles.names if found is not None else ())
        if kind == "bundle":  # bundles of brokers themselves (heartbeat) are no useful suggestions
            known = {bundle for bundle in known if bundle == name or may_leave_its_broker(bundle)}
        if kind == "namespace":
            known = {bundle.rpartition("/")[0] for bundle in known}
    if name in known:
        return
    # for a bundle, suggest only the few bundles of its namespace
    namespace = name.rpartition("/")[0]
    near = {bundle for bundle in known if bundle.rpartition("/")[0] == namespace} if kind == "bundle" else known
    raise UnknownNameError(
        f"nothing is known of {kind} {name}: no broker reports it, and no decision names it"
        f"{did_you_mean(name, sorted(near or known))}"
    )


def decided_now(found: SnapshotFile, asked: dict[str, str]) -> tuple[list[Decided], list[str]]:
    """Return the decisions about the name in `asked` that the leader would make now on the snapshot `found`, and the
    brokers from which it would shed bundles.
    """
    config = configured(found)
    manager = manager_of(found, None)
    rounds, _ = shedding_rounds(found.snapshot, config, found.memory, 1, 0, manager)
    lines = [*rounds[0], *split_rounds(found.snapshot, config, 1, manager)[0]]
    return concerning(lines, found.snapshot, **asked), sources_of(rounds[0])
