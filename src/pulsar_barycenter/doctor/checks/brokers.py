"""Checks of brokers: registration, the leader, clocks, drained brokers."""

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
                f"it is registered and does not answer: {broker.failure}",
                "check whether its process runs, and read its log. If it hangs, end it (kill -9 PID): its bundles get "
                "other owners when its session expires (metadataStoreSessionTimeoutMillis). Then start it again",
            )


def registration(picture: Picture) -> Iterator[ClusterFinding]:
    """Brokers differ in their lists of registered brokers.

    Yields a finding for each broker whose list differs from the metadata store's (if that was not read: from the most
    common list), and for each broker that answers and is not in the expected list.
    """
    if picture.store is not None:
        expected, by = picture.registered, "the metadata store"
    else:
        lists = [broker.registered for broker in picture.answering if broker.registered is not None]
        if not lists:
            return
        expected, by = Counter(lists).most_common(1)[0][0], "most brokers"
    for broker in picture.answering:
        if broker.registered is not None and broker.registered != expected:
            yield found(
                Severity.ERROR,
                broker.broker,
                f"its list of registered brokers differs from that of {by}: additional: "
                f"{_named(broker.registered - expected, 'none')}; missing: "
                f"{_named(expected - broker.registered, 'none')}",
                "it misses notifications: look for metadata-store errors in its log, then restart it",
            )
        if broker.broker not in expected:
            yield found(
                Severity.ERROR,
                broker.broker,
                f"it answers, but is not registered according to {by}, so it gets no bundles",
                "if it is not just starting or stopping, restart it; its log says registration_lost and why",
            )


def leadership(picture: Picture) -> Iterator[ClusterFinding]:
    """There is no leader or more than one, or a broker names the wrong one.

    Yields a finding for each contradiction between the brokers, and between the brokers and the metadata store.
    """
    leading = sorted(broker.broker for broker in picture.answering if broker.leads)
    if len(leading) > 1:
        yield found(
            Severity.CRITICAL,
            ", ".join(leading),
            "each of them acts as the leader, so each moves bundles",
            "restart all of them except the one that most brokers name as leaderBroker",
        )
    named = Counter(broker.leader for broker in picture.answering if broker.leader)
    for broker in picture.answering:
        if broker.leader == broker.broker and broker.leads is False:
            yield found(
                Severity.ERROR,
                broker.broker,
                "it is named as the leader and does not act as one, so no broker sheds, splits or assigns bundles",
                "restart it; another broker is then elected",
            )
        if broker.leads and broker.leader != broker.broker:
            yield found(
                Severity.ERROR,
                broker.broker,
                f"it acts as the leader and names {broker.leader or 'no broker'} as the leader",
                "restart it; another broker is then elected",
            )
    if len(named) > 1:
        words = "; ".join(f"{count} of the brokers: {leader}" for leader, count in sorted(named.items()))
        yield found(
            Severity.ERROR,
            ", ".join(sorted(named)),
            f"brokers name different leaders: {words}",
            "restart the brokers of the minority: they miss notifications of the metadata store",
        )
    yield from _leader_there(picture, set(named))


def _leader_there(picture: Picture, named: set[str]) -> Iterator[ClusterFinding]:
    written = {leader for leader in picture.store.leaders.values() if leader} if picture.store is not None else set()
    if picture.answering and not named and all(not broker.leads for broker in picture.answering):
        yield found(
            Severity.ERROR,
            "leader",
            "no broker knows a leader, so no broker sheds, splits or assigns bundles",
            "wait for a session time-out; if there is still no leader, look for metadata-store errors in the logs",
        )
    for broker in picture.brokers or ():
        if broker.failure and broker.broker in named:
            yield found(
                Severity.ERROR,
                broker.broker,
                "it is named as the leader and does not answer, so no broker sheds, splits or assigns bundles",
                "see silent-broker; another broker is elected when its session expires",
            )
    for leader in sorted((named | written) - picture.registered):
        yield found(
            Severity.ERROR,
            leader,
            "it is named as the leader and is not registered",
            "wait for a session time-out; if that does not help, restart it, or one of the brokers that name it",
        )
    for path, leader in sorted((picture.store.leaders if picture.store is not None else {}).items()):
        if named and leader and path == _path_in_use(picture) and leader not in named:
            yield found(
                Severity.ERROR,
                path,
                f"the metadata store names {leader} as the leader, brokers name {', '.join(sorted(named))}",
                "restart the brokers that name another leader than the store",
            )


def _path_in_use(picture: Picture) -> str:
    """Return the path of the election that the answering brokers use; "" while they run different load managers."""
    kinds = {broker.owns_by_records for broker in picture.answering}
    if len(kinds) != 1:
        return ""
    return CHANNEL_LEADER if kinds == {True} else LEADER


def clocks(picture: Picture) -> Iterator[ClusterFinding]:
    """The clocks of the brokers differ by more than the error of the measurement.

    Yields a finding for each broker whose clock is ahead of the slowest one by SKEW_WARNING_MS or more.
    """
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
                f"its clock is at least {skew_ms / 1000:,.0f} s ahead of the clock of {slowest}; ages of load reports, "
                "cool-downs and retention are wrong by this time",
                "have both machines set their clocks by NTP: timedatectl set-ntp true, or chronyc makestep",
            )


def drained(picture: Picture) -> Iterator[ClusterFinding]:
    """Brokers that are kept empty: the principal that drained each, the time, and the command that ends it.

    Yields a finding for each drained broker.
    """
    change = picture.drained_by
    owned = {broker.broker: broker.owned for broker in picture.answering}
    for broker in picture.drained:
        if broker not in picture.registered:
            yield found(
                Severity.INFO,
                broker,
                f"{DRAINED_KEY} names it, and it is not registered{_since(change, broker)}",
                f"if it will not return: barycenter undrain {broker} --yes",
            )
            continue
        held = owned.get(broker)
        count = None if held is None else sum(map(may_leave_its_broker, held))
        serves = "" if count is None else f"; it serves {count or 'none'}" + (" yet" if count else "")
        yield found(
            Severity.INFO,
            broker,
            f"it is drained: it gets no bundles while another broker may serve them{serves}{_since(change, broker)}",
            f"barycenter undrain {broker} --bring-back --yes ends the drain and moves its bundles back",
        )


def _since(change: NotedChange | None, broker: str) -> str:
    """Return a text that says who drained a broker, when and why; "" if this was not recorded."""
    drain = None if change is None else drained_by(change, broker)
    if drain is None:
        return ""
    at = datetime.fromtimestamp(drain.at / 1000, UTC)
    return f". Drained by {drain.by} at {at:%Y-%m-%d %H:%M:%S} UTC" + (f": {drain.why}" if drain.why else "")


def _named(brokers: frozenset[str], nobody: str) -> str:
    return ", ".join(sorted(brokers)) or nobody
