"""Queries every broker of a running cluster by its admin REST, Barycenter or Apache Pulsar.

Brokers are queried in parallel, with at most `_AT_ONCE` requests at the same time in total. All requests are GETs that
change nothing. Topics are not looked up, as this would assign their bundles to brokers; the exception, with TLS, is a
topic of a broker's own bundle, whose look-up returns the broker's address. A broker that does not answer the first
request gets no other.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from pulsar_barycenter.admin.client import AdminClient, Answer, reason_of
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.config.sources import NotedChange
from pulsar_barycenter.doctor.finding import Unseen
from pulsar_barycenter.doctor.picture import OWN_KEY, BrokerView, NamespaceView, Picture, is_users
from pulsar_barycenter.doctor.reading.clock_offset import clock_offset
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, decode_snapshot
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidBundlesError, InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.addresses import address_of
from pulsar_barycenter.observer.answers import without_report
from pulsar_barycenter.observer.collector import understood

MAX_BROKERS: Final = 10_000
MAX_NAMESPACES: Final = 10_000
MAX_POLICY_REQUESTS: Final = 50_000
"""The maximum number of requests for policies of namespaces, over all brokers together."""
MAX_LISTED_NAMESPACES: Final = 1_000
"""The maximum number of namespaces whose topics are listed."""
MAX_SECONDS_PER_BROKER: Final = 60.0
"""The time after which a broker gets no other request."""
_AT_ONCE: Final = 32
_MAX_VERSION_LENGTH: Final = 100
_NO_LEADER: Final = 503
_GONE: Final = 404
_CANNOT_READ: Final = (412, 500)
"""The status codes of a broker for a namespace whose boundaries are not valid."""
_PIPELINE: Final = re.compile(
    rb"^barycenter_pipeline_(lag_seconds|in_use|published|silent_seconds)(?:\{[^}\n]*\})? (\S+)$", re.MULTILINE
)

_Text = Annotated[str, msgspec.Meta(max_length=4_096)]
_Names = Annotated[list[_Text], msgspec.Meta(max_length=MAX_BROKERS)]
_Texts = Annotated[dict[_Text, str], msgspec.Meta(max_length=10_000)]
_Boundaries = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=64)], ...], msgspec.Meta(max_length=1 << 20)]

T = TypeVar("T")


class _Bundles(msgspec.Struct):
    boundaries: _Boundaries | None = None


class _Leader(msgspec.Struct, rename="camel"):
    broker_id: _Text = ""
    service_url: _Text = ""


class _Held(msgspec.Struct):
    is_active: bool = True


class ClusterUnreadableError(Exception):
    """No broker at the given addresses can be queried; the text says why."""


@dataclass(slots=True)
class _Asked:
    """A broker that is being queried: its address, its answers so far, and the requests that it did not answer."""

    view: BrokerView
    url: str
    gate: asyncio.Semaphore
    client: AdminClient
    snapshot: SnapshotDocument | None = None
    pipeline_lag_s: float | None = None
    pipeline_silent_s: float | None = None
    silent_on: dict[str, str] = field(default_factory=dict)

    async def get(self, what: str, path: str, kind: type[T]) -> T | None:
        """Send a GET request for `path` and return the answer decoded as `kind`. Return None if there is no answer, or
        if it cannot be decoded: `silent_on[what]` then says why.
        """
        answer = await self.ask(what, path)
        if answer is None:
            return None
        try:
            return decode_json(answer.body, kind)
        except msgspec.DecodeError as error:
            self.silent_on[what] = f"the answer has an unexpected form: {error}"
            return None

    async def ask(self, what: str, path: str, *also: int) -> Answer | None:
        """Send a GET request for `path` and return the answer if its status is 200 or in `also`. Otherwise return None:
        `silent_on[what]` then says why.
        """
        async with self.gate:
            try:
                answer = await self.client.ask(self.url, path)
            except AdminRequestError as error:
                self.silent_on[what] = without_report(error)
                return None
        if answer.status == 200 or answer.status in also:
            return answer
        self.silent_on[what] = f"{answer.status}: {reason_of(answer.body)[:300]}"
        return None


async def read_cluster(urls: Sequence[str], client: AdminClient, *, now_ms: Callable[[], int]) -> Picture:
    """Return the answers of all brokers; the first of `urls` that answers provides the list of brokers.

    Raises:
        ClusterUnreadableError: no broker at these addresses answers.
    """
    told_by, ids = await _brokers(urls, client)
    gate = asyncio.Semaphore(_AT_ONCE)
    asked = [_Asked(BrokerView(broker=broker), "", gate, client) for broker in ids]
    await asyncio.gather(*(_first(broker, told_by, now_ms) for broker in asked))
    answering = [broker for broker in asked if broker.view.answers]
    unseen: list[Unseen] = []
    namespaces = await _namespaces(answering, unseen)
    share = max(1, MAX_POLICY_REQUESTS // max(1, len(answering)))
    names = [namespace.name for namespace in (namespaces or ())][:share]
    if namespaces is not None and len(names) < len(namespaces):
        unseen.append(Unseen("caches", f"only the first {count_of(len(names), 'namespace')} were compared"))
    await asyncio.gather(*(_all_of(broker, names) for broker in answering))
    namespaces = await _with_topics(answering, namespaces, unseen)
    leader = _leader(answering, unseen)
    unseen += _missing(answering)
    return Picture(
        now_ms=now_ms(),
        brokers=tuple(broker.view for broker in asked),
        namespaces=namespaces,
        snapshot=None if leader is None else leader.snapshot,
        pipeline_lag_s=None if leader is None else leader.pipeline_lag_s,
        pipeline_silent_s=None if leader is None else leader.pipeline_silent_s,
        unseen=tuple(unseen),
    )


async def _brokers(urls: Sequence[str], client: AdminClient) -> tuple[str, list[str]]:
    failure = ""
    for url in urls:
        try:
            names = msgspec.convert(await client.call("GET", url, "/admin/v2/brokers"), _Names)
        except AdminRequestError as error:
            failure = failure or without_report(error)
        except msgspec.ValidationError:
            failure = failure or f"{url} answers, but is not a broker"
        else:
            return url, sorted(set(names))
    raise ClusterUnreadableError(failure)


async def _first(broker: _Asked, told_by: str, now_ms: Callable[[], int]) -> None:
    """Query a broker for its list of registered brokers. The answer also shows that the broker answers, and how far its
    clock differs. The result, or why there is none, is recorded in `broker`. `told_by` is the address whose list of
    brokers named this broker.
    """
    async with broker.gate:
        broker.url = await address_of(broker.client, broker.view.broker, told_by)
        sent_ms = now_ms()
        try:
            answer = await broker.client.ask(broker.url, "/admin/v2/brokers")
            if answer.status != 200:
                raise AdminRequestError("GET", broker.url, answer.status, reason_of(answer.body))
            names = decode_json(answer.body, _Names)
        except AdminRequestError as error:
            broker.view = replace(broker.view, failure=without_report(error))
        except msgspec.DecodeError as error:
            broker.view = replace(broker.view, failure=f"its answer is not one of a broker: {error}")
        else:
            offset = clock_offset(answer.headers.get("date", ""), sent_ms, now_ms())
            broker.view = replace(broker.view, registered=frozenset(names), clock_ms=offset)
            if offset is None:
                broker.silent_on["the clock"] = "its answers have no date"


async def _namespaces(answering: Sequence[_Asked], unseen: list[Unseen]) -> tuple[NamespaceView, ...] | None:
    """Return all namespaces with their boundaries, from the first broker that can list them; None if none can. If there
    are more than MAX_NAMESPACES, the others are left out, and this is added to `unseen`.
    """
    for broker in answering:
        tenants = await broker.get("tenants", "/admin/v2/tenants", _Names)
        if tenants is None:
            continue
        names: list[str] = []
        for tenant in tenants:
            of_tenant = await broker.get(f"tenant {tenant}", f"/admin/v2/namespaces/{quote(tenant, safe='')}", _Names)
            names += of_tenant or ()
            if len(names) > MAX_NAMESPACES:
                unseen.append(Unseen("namespaces", f"there are more than {MAX_NAMESPACES:,}"))
                break
        names = sorted(names)[:MAX_NAMESPACES]
        found = await asyncio.gather(*(_boundaries(broker, name) for name in names))
        return tuple(namespace for namespace in found if namespace is not None)
    return None


async def _boundaries(broker: _Asked, name: str) -> NamespaceView | None:
    """Return the boundaries of a namespace or why they cannot be read; None if it is deleted or there is no answer."""
    path = f"/admin/v2/namespaces/{quote(name)}/bundles"
    answer = await broker.ask("the bundles of namespaces", path, _GONE, *_CANNOT_READ)
    if answer is None or answer.status == _GONE:
        return None
    if answer.status != 200:
        return NamespaceView(name, failure=f"{answer.status}: {reason_of(answer.body)[:300]}")
    try:
        return NamespaceView(name, decode_json(answer.body, _Bundles).boundaries or ())
    except msgspec.DecodeError as error:
        return NamespaceView(name, failure=str(error))


async def _with_topics(
    answering: Sequence[_Asked], namespaces: tuple[NamespaceView, ...] | None, unseen: list[Unseen]
) -> tuple[NamespaceView, ...] | None:
    """Return all namespaces. For those that have a bundle without an owner, at most MAX_LISTED_NAMESPACES of them, also
    query how many topics each bundle has.
    """
    if namespaces is None or not answering:
        return namespaces
    served = {bundle for broker in answering for bundle in broker.view.owned or ()}
    wanted = [found.name for found in namespaces if is_users(found.name) and not _bundles_of(found) <= served]
    if len(wanted) > MAX_LISTED_NAMESPACES:
        unseen.append(Unseen("topics", f"only topics of the first {MAX_LISTED_NAMESPACES:,} namespaces were listed"))
    queried = [found for found in namespaces if found.name in set(wanted[:MAX_LISTED_NAMESPACES])]
    answers = await asyncio.gather(*(_topics(answering[0], found) for found in queried))
    listed = {answer.name: answer for answer in answers}
    return tuple(listed.get(found.name, found) for found in namespaces)


async def _topics(broker: _Asked, namespace: NamespaceView) -> NamespaceView:
    """Return the view `namespace` with the number of persistent topics of each bundle added; unchanged if the broker
    does not answer.
    """
    names = await broker.get("topics", f"/admin/v2/persistent/{quote(namespace.name)}", list[_Text])
    bundles = _parsed(namespace)
    if names is None or bundles is None:
        return namespace
    counts: Counter[str] = Counter()
    for name in names:
        with suppress(InvalidNameError, ValueError):
            counts[str(bundles.find(TopicName.parse(name)))] += 1
    return replace(namespace, topics=counts)


def _bundles_of(namespace: NamespaceView) -> set[str]:
    bundles = _parsed(namespace)
    return set() if bundles is None else set(map(str, bundles.bundles))


def _parsed(namespace: NamespaceView) -> NamespaceBundles | None:
    try:
        return NamespaceBundles.from_boundaries(NamespaceName.parse(namespace.name), namespace.boundaries)
    except (InvalidNameError, InvalidBundlesError):
        return None


async def _all_of(broker: _Asked, namespaces: Sequence[str]) -> None:
    """Query a broker that answers for its settings, its leader, and its cached data of `namespaces`, for at most
    MAX_SECONDS_PER_BROKER in total.
    """
    try:
        async with asyncio.timeout(MAX_SECONDS_PER_BROKER), asyncio.TaskGroup() as group:
            for query in (_settings(broker), _leading(broker), _caches(broker, namespaces)):
                group.create_task(query)
    except TimeoutError:
        broker.silent_on["the rest"] = f"no answers within {MAX_SECONDS_PER_BROKER:.0f} s"


async def _settings(broker: _Asked) -> None:
    version = await broker.ask("version", "/admin/v2/brokers/version")
    if version is not None:
        text = version.body.decode(errors="replace").strip('" \n')
        broker.view = replace(broker.view, version=text[:_MAX_VERSION_LENGTH])
    root = "/admin/v2/brokers/configuration"
    settings = await broker.get("settings", f"{root}/runtime", _Texts)
    broker.view = replace(broker.view, settings=settings)
    if settings is not None and OWN_KEY not in settings:
        await _report(broker)
    overrides = await broker.get("dynamic configuration", f"{root}/values", _Texts)
    keys = await broker.get("dynamic keys", root, _Names)
    broker.view = replace(broker.view, overrides=overrides, dynamic_keys=None if keys is None else frozenset(keys))
    if settings is not None and OWN_KEY in settings:
        await _changes(broker)
    cluster = (settings or {}).get("clusterName", "")
    if not cluster:
        broker.silent_on["owned bundles"] = "the request needs clusterName, which it did not return"
    else:
        path = f"/admin/v2/brokers/{quote(cluster, safe='')}/{quote(broker.view.broker, safe=':')}/ownedNamespaces"
        owned = await broker.get("owned bundles", path, dict[str, _Held])
        if owned is not None:
            broker.view = replace(broker.view, owned={name: held.is_active for name, held in owned.items()})


async def _changes(broker: _Asked) -> None:
    """Query a broker for the records of who changed settings, which brokers of older releases do not have."""
    what = "who changed settings"
    answer = await broker.ask(what, "/barycenter/v1/setting-changes", _GONE)
    if answer is not None and answer.status == 200:
        try:
            changes = decode_json(answer.body, dict[str, NotedChange])
            broker.view = replace(broker.view, setting_changes=changes)
        except msgspec.DecodeError as error:
            broker.silent_on[what] = f"the answer has an unexpected form: {error}"


async def _report(broker: _Asked) -> None:
    """Query a broker of Apache Pulsar for its load report, which brokers with the extensible load manager do not
    have.
    """
    answer = await broker.ask("load report", "/admin/v2/broker-stats/load-report", 500)
    if answer is not None and answer.status == 200:
        try:
            report = understood(broker.view.broker, decode_json(answer.body, object))
            broker.view = replace(broker.view, report=report)
        except msgspec.DecodeError as error:
            broker.silent_on["load report"] = f"the answer has an unexpected form: {error}"


async def _leading(broker: _Asked) -> None:
    """Query a broker for the leader that it names, and for the leader's load data, which only the leader returns."""
    answer = await broker.ask("leader", "/admin/v2/brokers/leaderBroker", 404)
    if answer is not None and answer.status == 200:
        try:
            leader = decode_json(answer.body, _Leader)
            name = leader.broker_id or leader.service_url.rpartition("/")[2]
            broker.view = replace(broker.view, leader=name)
        except msgspec.DecodeError as error:
            broker.silent_on["leader"] = f"the answer has an unexpected form: {error}"
    elif answer is not None:
        broker.view = replace(broker.view, leader="")
    what = "whether it leads, and the leader's load data,"
    answer = await broker.ask(what, "/barycenter/v1/snapshot", 307, 404, 412, _NO_LEADER)
    if answer is None:
        return
    if answer.status == 404:
        broker.silent_on[what] = "404: Apache Pulsar's brokers do not return it"
        return
    broker.view = replace(broker.view, leads=answer.status in (200, 412))
    if answer.status == 200:
        try:
            broker.snapshot = decode_snapshot(answer.body)
        except msgspec.DecodeError as error:
            broker.silent_on[what] = f"the answer has an unexpected form: {error}"
        await _pipeline(broker)


async def _pipeline(broker: _Asked) -> None:
    """Query the leader's metrics: how long the pipeline has not looked for reports and, if decisions do not use its
    windows, how late it is.

    A leader that does not use a pipeline returns neither. If the pipeline has published nothing yet, it is not late.
    """
    metrics = await broker.ask("metrics", "/metrics")
    values = dict(_PIPELINE.findall(metrics.body)) if metrics is not None else {}
    is_late = values.get(b"published") not in (b"0", b"0.0") and values.get(b"in_use", b"1") not in (b"1", b"1.0")
    try:
        if b"silent_seconds" in values:
            broker.pipeline_silent_s = float(values[b"silent_seconds"])
        if is_late and b"lag_seconds" in values:
            broker.pipeline_lag_s = float(values[b"lag_seconds"])
    except ValueError:
        broker.silent_on["metrics"] = "the lag of the pipeline in them is not a number"


async def _caches(broker: _Asked, namespaces: Sequence[str]) -> None:
    """Query the policies and bundles of namespaces in the broker's cache; stop when it does not answer."""
    boundaries: dict[str, tuple[str, ...]] = {}
    policies: dict[str, dict[str, object]] = {}
    for name in namespaces:
        answer = await broker.ask("policies", f"/admin/v2/namespaces/{quote(name)}", _GONE, *_CANNOT_READ)
        if answer is None:
            break
        if answer.status in _CANNOT_READ:
            broker.silent_on["policies"] = f"policies of {name}: {answer.status}: {reason_of(answer.body)[:300]}"
        elif answer.status == 200:
            try:
                fields: dict[str, Any] = decode_json(answer.body, dict[str, Any])
                bundles = msgspec.convert(fields.pop("bundles", None) or {}, _Bundles)
            except msgspec.DecodeError as error:
                broker.silent_on["policies"] = f"policies of {name} have an unexpected form: {error}"
                continue
            boundaries[name] = bundles.boundaries or ()
            policies[name] = fields
    broker.view = replace(broker.view, boundaries=boundaries, policies=policies)


def _leader(answering: Sequence[_Asked], unseen: list[Unseen]) -> _Asked | None:
    """Return the first broker that returned the leader's load data, which only a leader does; None if none did. If this
    is because no leader answers, that is added to `unseen`.
    """
    for broker in answering:
        if broker.snapshot is not None:
            return broker
    is_ours = any(OWN_KEY in (broker.view.settings or {}) for broker in answering)
    if is_ours and not any(broker.view.leads for broker in answering):
        unseen.append(Unseen("the leader's load data", "no broker that answers is the leader"))
    return None


def _missing(answering: Sequence[_Asked]) -> list[Unseen]:
    """Return which parts brokers did not return, and why; brokers with the same reason are combined."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for broker in answering:
        for what, why in broker.silent_on.items():
            reasons.setdefault((what, why.replace(broker.url, "")), []).append(broker.view.broker)
    missing = []
    for (what, why), brokers in sorted(reasons.items()):
        more = f" and {len(brokers) - 1:,} more" if len(brokers) > 1 else ""
        missing.append(Unseen(f"{what} of {brokers[0]}{more}", why))
    return missing
