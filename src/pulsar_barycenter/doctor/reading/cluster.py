"""What every broker of a running cluster says, by its admin REST; Barycenter's or Apache Pulsar's.

Brokers are asked side by side, at most `_AT_ONCE` requests at a time over all of them. Only GETs are sent that change
nothing: no look-up of a topic, which would give its bundle an owner, but with TLS that of a broker's own, which tells
its address. A broker that does not answer the first request
is asked nothing else.
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

MOST_BROKERS: Final = 10_000
MOST_NAMESPACES: Final = 10_000
MOST_COMPARED: Final = 50_000
"""So many times the policies of a namespace are asked of a broker, over all brokers."""
MOST_LISTED: Final = 1_000
"""The topics of so many namespaces are listed."""
MOST_SECONDS: Final = 60.0
"""So long one broker is asked, whatever its answers are."""
_AT_ONCE: Final = 32
_LONGEST_VERSION: Final = 100
_NO_LEADER: Final = 503
_GONE: Final = 404
_CANNOT_READ: Final = (412, 500)
"""What a broker answers of a namespace whose boundaries are none."""
_PIPELINE: Final = re.compile(
    rb"^barycenter_pipeline_(lag_seconds|in_use|published|silent_seconds)(?:\{[^}\n]*\})? (\S+)$", re.MULTILINE
)

_Text = Annotated[str, msgspec.Meta(max_length=4_096)]
_Names = Annotated[list[_Text], msgspec.Meta(max_length=MOST_BROKERS)]
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
    """No broker at the addresses that were given can be asked; the text says why."""


@dataclass(slots=True)
class _Asked:
    """One broker while it is asked: its address, what it said so far, and what it did not say."""

    view: BrokerView
    url: str
    gate: asyncio.Semaphore
    client: AdminClient
    snapshot: SnapshotDocument | None = None
    pipeline_lag_s: float | None = None
    pipeline_silent_s: float | None = None
    silent_on: dict[str, str] = field(default_factory=dict)

    async def get(self, what: str, path: str, kind: type[T]) -> T | None:
        """Return a typed answer, None if it cannot be had: `silent_on` then says why."""
        answer = await self.ask(what, path)
        if answer is None:
            return None
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except msgspec.DecodeError as error:
            self.silent_on[what] = f"the answer is not understood: {error}"
            return None

    async def ask(self, what: str, path: str, *also: int) -> Answer | None:
        """Return an answer of 200, or of a status in `also`."""
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
    """Return what the brokers say; the first of `urls` that answers tells which there are.

    Raises:
        ClusterUnreadableError: none of them does.
    """
    told_by, ids = await _brokers(urls, client)
    gate = asyncio.Semaphore(_AT_ONCE)
    asked = [_Asked(BrokerView(broker=broker), "", gate, client) for broker in ids]
    await asyncio.gather(*(_first(broker, told_by, now_ms) for broker in asked))
    answering = [broker for broker in asked if broker.view.answers]
    unseen: list[Unseen] = []
    namespaces = await _namespaces(answering, unseen)
    share = max(1, MOST_COMPARED // max(1, len(answering)))
    names = [each.name for each in (namespaces or ())][:share]
    if namespaces is not None and len(names) < len(namespaces):
        unseen.append(Unseen("caches", f"those of the first {count_of(len(names), 'namespace')} were compared alone"))
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
            failure = failure or f"{url} answers, but not as a broker does"
        else:
            return url, sorted(set(names))
    raise ClusterUnreadableError(failure)


async def _first(broker: _Asked, told_by: str, now_ms: Callable[[], int]) -> None:
    """Ask whom a broker takes to be there, and by that whether it answers and what its clock says."""
    async with broker.gate:
        broker.url = await address_of(broker.client, broker.view.broker, told_by)
        sent_ms = now_ms()
        try:
            answer = await broker.client.ask(broker.url, "/admin/v2/brokers")
            if answer.status != 200:
                raise AdminRequestError("GET", broker.url, answer.status, reason_of(answer.body))
            names = msgspec.json.decode(answer.body, type=_Names)
        except AdminRequestError as error:
            broker.view = replace(broker.view, failure=without_report(error))
        except msgspec.DecodeError as error:
            broker.view = replace(broker.view, failure=f"it does not answer as a broker does: {error}")
        else:
            offset = clock_offset(answer.headers.get("date", ""), sent_ms, now_ms())
            broker.view = replace(broker.view, registered=frozenset(names), clock_ms=offset)
            if offset is None:
                broker.silent_on["the clock"] = "its answers have no date"


async def _namespaces(answering: Sequence[_Asked], unseen: list[Unseen]) -> tuple[NamespaceView, ...] | None:
    """Return all namespaces with their boundaries as the first broker that can tell reads them now."""
    for broker in answering:
        tenants = await broker.get("tenants", "/admin/v2/tenants", _Names)
        if tenants is None:
            continue
        names: list[str] = []
        for tenant in tenants:
            of_tenant = await broker.get(f"tenant {tenant}", f"/admin/v2/namespaces/{quote(tenant, safe='')}", _Names)
            names += of_tenant or ()
            if len(names) > MOST_NAMESPACES:
                unseen.append(Unseen("namespaces", f"there are more than {MOST_NAMESPACES:,}"))
                break
        names = sorted(names)[:MOST_NAMESPACES]
        found = await asyncio.gather(*(_boundaries(broker, name) for name in names))
        return tuple(each for each in found if each is not None)
    return None


async def _boundaries(broker: _Asked, name: str) -> NamespaceView | None:
    """Return the boundaries of a namespace or why the broker cannot read them; None if it is gone, or did not tell."""
    path = f"/admin/v2/namespaces/{quote(name)}/bundles"
    answer = await broker.ask("the bundles of namespaces", path, _GONE, *_CANNOT_READ)
    if answer is None or answer.status == _GONE:
        return None
    if answer.status != 200:
        return NamespaceView(name, failure=f"{answer.status}: {reason_of(answer.body)[:300]}")
    try:
        return NamespaceView(name, msgspec.json.decode(answer.body, type=_Bundles).boundaries or ())
    except msgspec.DecodeError as error:
        return NamespaceView(name, failure=str(error))


async def _with_topics(
    answering: Sequence[_Asked], namespaces: tuple[NamespaceView, ...] | None, unseen: list[Unseen]
) -> tuple[NamespaceView, ...] | None:
    """Return the namespaces with the topics of their bundles, of those that have a bundle nobody serves."""
    if namespaces is None or not answering:
        return namespaces
    served = {bundle for broker in answering for bundle in broker.view.owned or ()}
    wanted = [each.name for each in namespaces if is_users(each.name) and not _bundles_of(each) <= served]
    if len(wanted) > MOST_LISTED:
        unseen.append(Unseen("topics", f"those of the first {MOST_LISTED:,} namespaces were listed alone"))
    asked = [each for each in namespaces if each.name in set(wanted[:MOST_LISTED])]
    listed = {each.name: each for each in await asyncio.gather(*(_topics(answering[0], each) for each in asked))}
    return tuple(listed.get(each.name, each) for each in namespaces)


async def _topics(broker: _Asked, namespace: NamespaceView) -> NamespaceView:
    """Return a namespace with how many persistent topics each of its bundles has; as it is if that is not told."""
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
    """Ask a broker that answers all else that it can tell, for at most MOST_SECONDS."""
    try:
        async with asyncio.timeout(MOST_SECONDS), asyncio.TaskGroup() as group:
            for each in (_settings(broker), _leading(broker), _caches(broker, namespaces)):
                group.create_task(each)
    except TimeoutError:
        broker.silent_on["the rest"] = f"it was asked for {MOST_SECONDS:.0f} s"


async def _settings(broker: _Asked) -> None:
    version = await broker.ask("version", "/admin/v2/brokers/version")
    if version is not None:
        text = version.body.decode(errors="replace").strip('" \n')
        broker.view = replace(broker.view, version=text[:_LONGEST_VERSION])
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
        broker.silent_on["owned bundles"] = "they are asked for by clusterName, which it does not tell"
    else:
        path = f"/admin/v2/brokers/{quote(cluster, safe='')}/{quote(broker.view.broker, safe=':')}/ownedNamespaces"
        owned = await broker.get("owned bundles", path, dict[str, _Held])
        if owned is not None:
            broker.view = replace(broker.view, owned={name: held.is_active for name, held in owned.items()})


async def _changes(broker: _Asked) -> None:
    """Ask who changed settings, which brokers of an older release do not know."""
    what = "who changed settings"
    answer = await broker.ask(what, "/barycenter/v1/setting-changes", _GONE)
    if answer is not None and answer.status == 200:
        try:
            changes = msgspec.json.decode(answer.body, type=dict[str, NotedChange])
            broker.view = replace(broker.view, setting_changes=changes)
        except msgspec.DecodeError as error:
            broker.silent_on[what] = f"the answer is not understood: {error}"


async def _report(broker: _Asked) -> None:
    """Ask a broker of Apache Pulsar for its load report, which the extensible load manager has not."""
    answer = await broker.ask("load report", "/admin/v2/broker-stats/load-report", 500)
    if answer is not None and answer.status == 200:
        try:
            report = understood(broker.view.broker, msgspec.json.decode(answer.body))
            broker.view = replace(broker.view, report=report)
        except msgspec.DecodeError as error:
            broker.silent_on["load report"] = f"the answer is not understood: {error}"


async def _leading(broker: _Asked) -> None:
    """Ask whom a broker takes to lead; and itself for what the leader decides upon, from which others point away."""
    answer = await broker.ask("leader", "/admin/v2/brokers/leaderBroker", 404)
    if answer is not None and answer.status == 200:
        try:
            leader = msgspec.json.decode(answer.body, type=_Leader)
            name = leader.broker_id or leader.service_url.rpartition("/")[2]
            broker.view = replace(broker.view, leader=name)
        except msgspec.DecodeError as error:
            broker.silent_on["leader"] = f"the answer is not understood: {error}"
    elif answer is not None:
        broker.view = replace(broker.view, leader="")
    what = "whether it leads, and what the leader decides upon,"
    answer = await broker.ask(what, "/barycenter/v1/snapshot", 307, 404, 412, _NO_LEADER)
    if answer is None:
        return
    if answer.status == 404:
        broker.silent_on[what] = "404: Apache Pulsar's brokers do not tell it"
        return
    broker.view = replace(broker.view, leads=answer.status in (200, 412))
    if answer.status == 200:
        try:
            broker.snapshot = decode_snapshot(answer.body)
        except msgspec.DecodeError as error:
            broker.silent_on[what] = f"the answer is not understood: {error}"
        await _pipeline(broker)


async def _pipeline(broker: _Asked) -> None:
    """Ask how long the pipeline has not looked for reports, and how late it is, where it is not in use.

    A leader that is not to go by a pipeline tells neither; where nothing was ever published there is no lag.
    """
    figures = await broker.ask("figures", "/metrics")
    told = dict(_PIPELINE.findall(figures.body)) if figures is not None else {}
    is_late = told.get(b"published") not in (b"0", b"0.0") and told.get(b"in_use", b"1") not in (b"1", b"1.0")
    try:
        if b"silent_seconds" in told:
            broker.pipeline_silent_s = float(told[b"silent_seconds"])
        if is_late and b"lag_seconds" in told:
            broker.pipeline_lag_s = float(told[b"lag_seconds"])
    except ValueError:
        broker.silent_on["figures"] = "they do not tell how late the pipeline is"


async def _caches(broker: _Asked, namespaces: Sequence[str]) -> None:
    """Ask the policies of namespaces with their bundles as the broker has both at hand; stop where it falls silent."""
    boundaries: dict[str, tuple[str, ...]] = {}
    policies: dict[str, dict[str, object]] = {}
    for name in namespaces:
        answer = await broker.ask("policies", f"/admin/v2/namespaces/{quote(name)}", _GONE, *_CANNOT_READ)
        if answer is None:
            break
        if answer.status in _CANNOT_READ:
            broker.silent_on["policies"] = f"those of {name}: {answer.status}: {reason_of(answer.body)[:300]}"
        elif answer.status == 200:
            try:
                fields: dict[str, Any] = msgspec.json.decode(answer.body, type=dict[str, Any])
                bundles = msgspec.convert(fields.pop("bundles", None) or {}, _Bundles)
            except msgspec.DecodeError as error:
                broker.silent_on["policies"] = f"those of {name} are not understood: {error}"
                continue
            boundaries[name] = bundles.boundaries or ()
            policies[name] = fields
    broker.view = replace(broker.view, boundaries=boundaries, policies=policies)


def _leader(answering: Sequence[_Asked], unseen: list[Unseen]) -> _Asked | None:
    """Return the first broker that told what it decides upon, as only a leader does."""
    for broker in answering:
        if broker.snapshot is not None:
            return broker
    is_ours = any(OWN_KEY in (broker.view.settings or {}) for broker in answering)
    if is_ours and not any(broker.view.leads for broker in answering):
        unseen.append(Unseen("what the leader decides upon", "no broker that answers leads"))
    return None


def _missing(answering: Sequence[_Asked]) -> list[Unseen]:
    """Return what brokers did not say, once for all that did not for the same reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for broker in answering:
        for what, why in broker.silent_on.items():
            reasons.setdefault((what, why.replace(broker.url, "")), []).append(broker.view.broker)
    told = []
    for (what, why), brokers in sorted(reasons.items()):
        more = f" and {len(brokers) - 1:,} more" if len(brokers) > 1 else ""
        told.append(Unseen(f"{what} of {brokers[0]}{more}", why))
    return told
