"""Makes the answers that the pages ask for, in the form in which a broker gives them. Pure: the time is an argument.

A page asks for what only a broker knows, too: topics, previews of actions, changes of settings. These are refused with
a sentence, and the pages do without.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pulsar_barycenter.config.broker_conf import default_config, keys, runtime_values, shown
from pulsar_barycenter.dashboard.bundle_list import BundleList, listed_bundles
from pulsar_barycenter.dashboard.explained import (
    ClusterBalance,
    SnapshotDecisions,
    cluster_balance,
    decisions_upon,
    explained,
)
from pulsar_barycenter.dashboard.overview import Overview, Shares, WatchedFrom, complaints_of
from pulsar_barycenter.dashboard.timeline import MOST_DECISIONS, BriefDecision
from pulsar_barycenter.load.managers import StrategyError
from pulsar_barycenter.load.policies import PolicyError
from pulsar_barycenter.load.reports.load_over_time import (
    DEFAULT_SPAN_MS,
    LATEST_TIME_MS,
    LONGEST_STEP_MS,
    LoadOverTime,
    LoadQuestionError,
    load_question,
)
from pulsar_barycenter.load.snapshot.document import owned_bundles
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.watch.sources.source import Source
from pulsar_barycenter.watch.watched_cluster import MINUTE_MS, WatchedCluster

MAX_LISTED: Final = 1_000
"""The maximum number of bundles in an answer."""
LONGEST_VALUE: Final = 4_096
"""The longest value of a parameter, in characters."""
LIVE_MS: Final = 10 * MINUTE_MS
"""The age of the last look up to which the cluster is shown as of now; else as of that look."""
_PAGE: Final = 200


class AnswerError(Exception):
    """A request of the dashboard cannot be answered; `status` is the HTTP status of the response, the text says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(slots=True)
class _Decided:
    at_ms: int
    decisions: SnapshotDecisions
    balance: ClusterBalance | None = None


class Answers:
    """Answers the requests of the dashboard about a watched cluster. `source` is where the cluster's load is
    read from.
    """

    def __init__(self, cluster: WatchedCluster, source: Source) -> None:
        self._cluster = cluster
        self._source = source
        self._shares = Shares()
        self._decided: _Decided | None = None

    def shown_ms(self, now_ms: int) -> int:
        """Return the time (epoch ms) that the pages show as the present time: `now_ms`; or the time of the last look at
        the cluster, if that look is more than `LIVE_MS` old.
        """
        at_ms = self._cluster.at_ms
        return at_ms if at_ms and now_ms - at_ms > LIVE_MS else now_ms

    def overview(self, now_ms: int) -> Overview:
        cluster, at_ms = self._cluster, self.shown_ms(now_ms)
        shares = self._shares.of(cluster.document, cluster.live)
        complaints = (*complaints_of(shares, None, at_ms, self._holds_ms()), *self._source.problems())
        return Overview(
            cluster=cluster.beside.cluster or "unnamed cluster",
            leader=cluster.beside.leader,
            epoch=0,
            manager=cluster.manager,
            strategy=cluster.strategy,
            decisions=cluster.number,
            drained=cluster.config.barycenter_drained_brokers,
            brokers=shares,
            complaints=complaints,
            watched=WatchedFrom(
                source=self._source.name,
                as_of=cluster.at_ms,
                is_recording=at_ms != now_ms,
                settings_recorded=cluster.beside.settings is not None,
            ),
        )

    def load_history(self, query: Mapping[str, str], now_ms: int) -> LoadOverTime:
        now_ms = self.shown_ms(now_ms)
        broker, bundle = query.get("broker", ""), query.get("bundle", "")
        if broker and bundle:
            raise AnswerError(400, "Both parameters broker and bundle are given: send only one of them")
        until_ms = _number(query, "until", now_ms, LATEST_TIME_MS)
        since_ms = _number(query, "since", max(0, until_ms - DEFAULT_SPAN_MS), LATEST_TIME_MS)
        try:
            question = load_question(
                since_ms,
                until_ms,
                _number(query, "step", 0, LONGEST_STEP_MS),
                brokers=max(1, len(self._cluster.live)),
                broker=broker,
                bundle=str(_bundle(bundle)) if bundle else "",
            )
        except LoadQuestionError as error:
            raise AnswerError(400, str(error)) from error
        return self._cluster.loads.answer(question, holds_ms=self._holds_ms())

    def timeline(self, query: Mapping[str, str]) -> list[BriefDecision]:
        limit = _number(query, "limit", MOST_DECISIONS // 2, MOST_DECISIONS)
        since_ms = _number(query, "since", 0, LATEST_TIME_MS)
        found = [one for one in self._cluster.decisions if one.at >= since_ms and _concerns(one, query)]
        return found[-limit:] if limit else []

    def decision_log(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of decisions, oldest first: the last decisions before the cursor in `query` (its parameter
        `before`, `<at>:<number>:<by>`); without a cursor, the last decisions of all. The field `next` is the cursor for
        the page of earlier decisions, "" if there are no earlier ones.
        """
        number = query.get("before", "").split(":")[1:2]
        before = int(number[0]) if number and number[0].isdecimal() else self._cluster.number + 1
        limit = _number(query, "limit", _PAGE, MOST_DECISIONS)
        found = [one for one in self._cluster.decisions if one.number < before and _concerns(one, query)]
        page = found[-limit:] if limit else []
        goes_on = len(found) > len(page) and page
        following = f"{page[0].at}:{page[0].number}:{page[0].by}" if goes_on else ""
        return {"decisions": page, "next": following, "knownSince": 0, "knownUntil": 0, "silent": []}

    def bundles(self, query: Mapping[str, str]) -> BundleList:
        limit = _number(query, "limit", MAX_LISTED // 2, MAX_LISTED)
        return listed_bundles(self._cluster.document, query.get("broker", ""), query.get("namespace", ""), limit)

    def balance(self) -> ClusterBalance:
        decided = self._decide()
        if decided.balance is None:
            decided.balance = cluster_balance(decided.decisions, self._cluster.config)
        return decided.balance

    def explanation(self, query: Mapping[str, str]) -> dict[str, Any]:
        named = [(kind, query[kind]) for kind in ("topic", "bundle", "namespace", "broker") if query.get(kind)]
        if len(named) != 1:
            raise AnswerError(400, "Send exactly one of the parameters topic, bundle, namespace, broker")
        [(kind, name)] = named
        asked, about = self._about(kind, name)
        decided, cluster = self._decide(), self._cluster
        found = explained(
            decided.decisions,
            cluster.config,
            cluster.manager,
            owner=str(about.get("owner", "")),
            destination=query.get("destination", ""),
            **asked,
        )
        return {kind: name, **about, **msgspec.to_builtins(found)}

    def settings(self) -> list[dict[str, Any]]:
        """Return the keys of broker.conf that were recorded, or whose value differs from the default. The value of each
        key is the one with which rounds are recomputed.
        """
        recorded, known = self._cluster.beside.settings or {}, keys()
        defaults = runtime_values(default_config(self._cluster.config.barycenter_pulsar_compatibility))
        return [
            {
                "key": name,
                "value": shown(name, value),
                "default": shown(name, defaults[name]),
                "source": "recorded" if name in recorded else "default",
                "override": None,
                "changed": None,
                "isDynamic": False,
                "unit": known[name].unit,
                "allowed": known[name].allowed(),
                "effect": known[name].effect,
            }
            for name, value in sorted(runtime_values(self._cluster.config).items())
            if name in recorded or value != defaults[name]
        ]

    # ---- parts ----

    def _holds_ms(self) -> int:
        minutes = min(60.0, self._cluster.config.load_balancer_report_update_max_interval_minutes)
        return round((minutes + 1) * MINUTE_MS)

    def _decide(self) -> _Decided:
        cluster = self._cluster
        if self._decided is None or self._decided.at_ms != cluster.at_ms:
            try:
                decisions = decisions_upon(cluster.document, cluster.config, cluster.manager)
            except (PolicyError, StrategyError) as error:
                raise AnswerError(412, str(error)) from error
            self._decided = _Decided(cluster.at_ms, decisions)
        return self._decided

    def _about(self, kind: str, name: str) -> tuple[dict[str, str], dict[str, Any]]:
        """Return two things about the topic, bundle, namespace or broker `name` (`kind` says which of these it is): the
        arguments that select its decisions (for example its bundle), and the facts about it that the response contains.

        Raises:
            AnswerError: no broker reports a bundle of this topic, or the broker is not active.
        """
        owners = {bundle: broker for broker, bundle, _ in owned_bundles(self._cluster.document)}
        match kind:
            case "topic":
                topic = _topic(name)
                found = next((one for one in owners if _has(one, topic)), None)
                if found is None:
                    raise AnswerError(404, f"No broker reports a bundle that has {topic}: no load of it was recorded")
                about = {"topic": str(topic), "hash": f"0x{topic.hash32:08x}", "bundle": found, "owner": owners[found]}
                return {"bundle": found}, {**about, "exists": None, "partitionCount": 0, "partitions": []}
            case "bundle":
                found = str(_bundle(name))
                return {"bundle": found}, {"bundle": found, "owner": owners.get(found, "")}
            case "namespace":
                namespace = _namespace(name)
                bundles = sorted(bundle for bundle in owners if bundle.rpartition("/")[0] == namespace)
                return {"namespace": namespace}, {"bundles": bundles[:MAX_LISTED], "bundleCount": len(bundles)}
            case _:
                if name not in self._cluster.live:
                    raise AnswerError(404, f"Broker is not active: {name[:100]}")
                return {"broker": name}, {}


def _has(bundle: str, topic: TopicName) -> bool:
    return bundle.startswith(f"{topic.namespace}/") and Bundle.parse(bundle).contains(topic)


def _concerns(one: BriefDecision, query: Mapping[str, str]) -> bool:
    bundle, namespace, broker = (query.get(name, "") for name in ("bundle", "namespace", "broker"))
    if bundle and one.bundle != bundle:
        return False
    if namespace and one.bundle.rpartition("/")[0] != namespace:
        return False
    return not broker or broker in (one.source, one.destination) or one.kind == "shed"


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 18 and int(text) <= most):
        raise AnswerError(400, f"The parameter {name} must be a whole number from 0 to {most}, not {text[:100]!r}")
    return int(text)


def _topic(name: str) -> TopicName:
    try:
        return TopicName.parse(name)
    except InvalidNameError as error:
        raise AnswerError(412, str(error)) from error


def _bundle(name: str) -> Bundle:
    try:
        return Bundle.parse(name)
    except InvalidNameError as error:
        raise AnswerError(412, str(error)) from error


def _namespace(name: str) -> str:
    try:
        return str(NamespaceName.parse(name))
    except InvalidNameError as error:
        raise AnswerError(412, str(error)) from error
