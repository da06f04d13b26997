"""Who is there, who leads, and whether their clocks agree."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from pulsar_barycenter.config.sources import NotedChange
from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, found
from pulsar_barycenter.doctor.picture import CHANNEL_LEADER, LEADER, Picture
from pulsar_barycenter.load.drain_notes import drained_by
from pulsar_barycenter.load.policies import DRAINED_KEY
from pulsar_barycenter.naming.bundle import may_leave_its_broker

SKEW_WARNING_MS: Final = 2_000
SKEW_ERROR_MS: Final = 30_000


def silent_brokers(picture: Picture) -> Iterator[ClusterFinding]:
    """A registered broker does not answer."""
    for broker in picture.brokers or ():
        if broker.failure:
            yield found(
                Severity.ERROR,
                broker.broker,
                f"it is registered and tells nothing: {broker.failure}",
                "look whether its process lives and what its log says. If it hangs, end it (kill -9 PID): its bundles "
                "go to others when its session ends (metadataStoreSessionTimeoutMillis). Then start it again",
            )


def registration(picture: Picture) -> Iterator[ClusterFinding]:
    """Brokers differ in whom they take to be there."""
    if picture.store is not None:
        expected, by = picture.registered, "the metadata store"
    else:
        told = [broker.registered for broker in picture.answering if broker.registered is not None]
        if not told:
            return
        expected, by = Counter(told).most_common(1)[0][0], "most brokers"
    for broker in picture.answering:
        if broker.registered is not None and broker.registered != expected:
            yield found(
                Severity.ERROR,
                broker.broker,
                f"it takes {_named(broker.registered - expected, 'nobody')} to be registered whom {by} does not name, "
                f"and misses {_named(expected - broker.registered, 'nobody')}",
                "it does not hear of changes: look for metadata-store errors in its log, then restart it",
            )
        if broker.broker not in expected:
            yield found(
                Severity.ERROR,
                broker.broker,
                f"it answers and is not registered by {by}, so it is given no bundles",
                "if it is not just starting or stopping, restart it; its log says registration_lost and why",
            )


def leadership(picture: Picture) -> Iterator[ClusterFinding]:
    """Nobody leads, more than one does, or a broker is mistaken about it."""
    leading = sorted(broker.broker for broker in picture.answering if broker.leads)
    if len(leading) > 1:
        yield found(
            Severity.CRITICAL,
            ", ".join(leading),
            "each believes that it leads, so each moves bundles",
            "restart all of them but the one that leaderBroker of most brokers names",
        )
    named = Counter(broker.leader for broker in picture.answering if broker.leader)
    for broker in picture.answering:
        if broker.leader == broker.broker and broker.leads is False:
            yield found(
                Severity.ERROR,
                broker.broker,
                "it is named as the leader and believes that it follows, so nobody sheds, splits or places bundles",
                "restart it; another broker is elected meanwhile",
            )
        if broker.leads and broker.leader != broker.broker:
            yield found(
                Severity.ERROR,
                broker.broker,
                f"it leads and names {broker.leader or 'nobody'} as the leader",
                "restart it; another broker is elected meanwhile",
            )
    if len(named) > 1:
        words = "; ".join(f"{leader} say {count} of the brokers" for leader, count in sorted(named.items()))
        yield found(
            Severity.ERROR,
            ", ".join(sorted(named)),
            f"brokers name different leaders: {words}",
            "restart those of the minority; they do not hear of changes in the metadata store",
        )
    yield from _leader_there(picture, set(named))


def _leader_there(picture: Picture, named: set[str]) -> Iterator[ClusterFinding]:
    written = {leader for leader in picture.store.leaders.values() if leader} if picture.store is not None else set()
    if picture.answering and not named and all(not broker.leads for broker in picture.answering):
        yield found(
            Severity.ERROR,
            "leader",
            "no broker knows a leader, so nobody sheds, splits or places bundles",
            "wait for a session time-out; if it stays so, look for metadata-store errors in the brokers' logs",
        )
    for broker in picture.brokers or ():
        if broker.failure and broker.broker in named:
            yield found(
                Severity.ERROR,
                broker.broker,
                "it is named as the leader and does not answer, so nobody sheds, splits or places bundles",
                "see silent-broker; another broker is elected when its session ends",
            )
    for leader in sorted((named | written) - picture.registered):
        yield found(
            Severity.ERROR,
            leader,
            "it is named as the leader and is not registered",
            "wait for a session time-out; if it stays so, restart it, or one of the brokers that name it",
        )
    for path, leader in sorted((picture.store.leaders if picture.store is not None else {}).items()):
        if named and leader and path == _path_in_use(picture) and leader not in named:
            yield found(
                Severity.ERROR,
                path,
                f"the metadata store names {leader} as the leader, brokers name {', '.join(sorted(named))}",
                "restart the brokers that name another than the store does",
            )


def _path_in_use(picture: Picture) -> str:
    """Return where the brokers that answer elect their leader; "" while they run different load managers."""
    kinds = {broker.owns_by_records for broker in picture.answering}
    if len(kinds) != 1:
        return ""
    return CHANNEL_LEADER if kinds == {True} else LEADER


def clocks(picture: Picture) -> Iterator[ClusterFinding]:
    """Clocks differ by more than is due to how they were read."""
    read = [(broker.clock_ms, broker.broker) for broker in picture.answering if broker.clock_ms is not None]
    if len(read) < 2:
        return
    (_, behind), slowest = min((span, name) for span, name in read)
    for (ahead, _), broker in sorted(read):
        skew_ms = ahead - behind
        if skew_ms >= SKEW_WARNING_MS:
            yield found(
                Severity.ERROR if skew_ms >= SKEW_ERROR_MS else Severity.WARNING,
                broker,
                f"its clock is at least {skew_ms / 1000:,.0f} s ahead of that of {slowest}; ages of load reports, "
                "cool-downs and retention are wrong by as much",
                "have both machines set their clocks by NTP: timedatectl set-ntp true, or chronyc makestep",
            )


def drained(picture: Picture) -> Iterator[ClusterFinding]:
    """Brokers that are kept empty: the principal that drained each, the time, and the command that ends it."""
    change = picture.drained_by
    owned = {broker.broker: broker.owned for broker in picture.answering}
    for broker in picture.drained:
        if broker not in picture.registered:
            yield found(
                Severity.INFO,
                broker,
                f"{DRAINED_KEY} names it, and it is not registered{_since(change, broker)}",
                f"if it does not come back: barycenter undrain {broker} --yes",
            )
            continue
        held = owned.get(broker)
        count = None if held is None else sum(map(may_leave_its_broker, held))
        serves = "" if count is None else f"; it serves {count or 'none'}" + (" yet" if count else "")
        yield found(
            Severity.INFO,
            broker,
            f"it is drained: it gets no bundles while another broker may serve them{serves}{_since(change, broker)}",
            f"barycenter undrain {broker} --bring-back --yes ends it and brings back what was moved away",
        )


def _since(change: NotedChange | None, broker: str) -> str:
    """Say who drained a broker, when and why, if that was noted."""
    drain = None if change is None else drained_by(change, broker)
    if drain is None:
        return ""
    at = datetime.fromtimestamp(drain.at / 1000, UTC)
    return f". Drained by {drain.by} at {at:%Y-%m-%d %H:%M:%S} UTC" + (f": {drain.why}" if drain.why else "")


def _named(brokers: frozenset[str], nobody: str) -> str:
    return ", ".join(sorted(brokers)) or nobody
