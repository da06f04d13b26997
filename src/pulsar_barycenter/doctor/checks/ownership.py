"""Checks of ownership: compares what brokers say they serve with the locks and records of owners."""

from collections import Counter
from collections.abc import Iterator

from pulsar_barycenter.doctor.finding import ClusterFinding, Severity, found
from pulsar_barycenter.doctor.picture import Picture, is_users, namespace_of
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState
from pulsar_barycenter.naming.counted import count_of


def owned_twice(picture: Picture) -> Iterator[ClusterFinding]:
    """Two brokers serve one bundle."""
    for bundle, holders in sorted(picture.holders.items()):
        if len(holders) > 1:
            where = picture.written_owners.get(bundle)
            right = f"; its {where[1]} names {where[0]}" if where is not None else ""
            yield found(
                Severity.CRITICAL,
                bundle,
                f"{' and '.join(holders)} say that they serve it{right}. Ledgers are fenced, so one of the two cannot "
                "write",
                "restart the broker that is not named" if where is not None else f"restart {holders[-1]}",
            )


def unowned(picture: Picture) -> Iterator[ClusterFinding]:
    """A bundle with topics has no owner; this is normal until a topic is used. Bundles without topics do not count.

    Yields one finding for all such bundles of a namespace.
    """
    if picture.brokers is None and not picture.registered:
        return  # a stopped cluster has no owners
    unheard = [broker.broker for broker in picture.brokers or () if broker.owned is None]
    owned = {*picture.holders, *picture.written_owners}
    for broker in picture.answering:
        owned.update(broker.owned or ())
    topics = {namespace.name: namespace.topics for namespace in picture.namespaces or ()}
    for namespace, bundles in sorted(picture.bundles.items()):
        free = sorted((bundles - owned) & (topics.get(namespace) or {}).keys())
        if free and is_users(namespace):
            unsure = f"; {', '.join(unheard)} did not answer and may own some" if unheard else ""
            shown = free[0] if len(free) == 1 else f"{free[0].rpartition('/')[2]} and {len(free) - 1:,} more"
            have_topics = "has topics" if len(free) == 1 else "have topics"
            yield found(
                Severity.INFO,
                namespace,
                f"{len(free):,} of {count_of(len(bundles), 'bundle')} {have_topics} and no owner{unsure}: {shown}",
                "nothing to do: a bundle gets an owner when a client looks up one of its topics",
            )


def owner_gone(picture: Picture) -> Iterator[ClusterFinding]:
    """The recorded owner is not a registered broker.

    Yields a finding for each bundle whose lock or record names such an owner.
    """
    for bundle, (owner, where) in sorted(picture.written_owners.items()):
        if owner in picture.registered:
            continue
        if where == "lock":
            mend = (
                "a lock ends with the session of its broker; if no broker of that id runs and the lock "
                "stays, delete the "
                f"key /namespace/{bundle} with the tools of the metadata store. Clients cannot reach these topics"
            )
        else:
            mend = (
                "the leader assigns such a bundle to another broker some time after its owner left "
                "(loadBalancerServiceUnitStateMonitorIntervalInSeconds); if it stays, restart the leader"
            )
        yield found(Severity.ERROR, bundle, f"its {where} names {owner or 'no broker'}, which is not registered", mend)


def owner_differs(picture: Picture) -> Iterator[ClusterFinding]:
    """The recorded owner and the broker that serves the bundle differ.

    Yields a finding for each bundle that another broker than the recorded owner serves, that the recorded owner says it
    does not own, or that a broker serves without a lock.
    """
    heard = {broker.broker: broker for broker in picture.answering if broker.owned is not None}
    for bundle, (owner, where) in sorted(picture.written_owners.items()):
        holders = picture.holders.get(bundle, ())
        others = [holder for holder in holders if holder != owner]
        if others:
            yield found(
                Severity.ERROR,
                bundle,
                f"{', '.join(others)} serves it, and its {where} names {owner}",
                f"restart {others[0]}: it serves a bundle that it does not own",
            )
        elif owner in heard and bundle not in (heard[owner].owned or {}) and not _in_motion(picture, bundle):
            yield found(
                Severity.ERROR,
                bundle,
                f"its {where} names {owner}, and this broker denies that it owns the bundle: no broker serves it",
                f"restart {owner}: this releases all bundles that are recorded under its name",
            )
    if picture.store is not None:
        yield from _unwritten(picture)


def _unwritten(picture: Picture) -> Iterator[ClusterFinding]:
    """Yield a finding for each bundle that a broker serves without a lock in the store. Brokers with the extensible
    load manager, which have records instead of locks, are not checked.
    """
    assert picture.store is not None
    for bundle, holders in sorted(picture.holders.items()):
        if bundle in picture.written_owners:
            continue
        for broker in picture.answering:
            if broker.broker in holders and not broker.owns_by_records:
                yield found(
                    Severity.CRITICAL,
                    bundle,
                    f"{broker.broker} serves it without a lock, so another broker may acquire it too",
                    f"restart {broker.broker}",
                )


def _in_motion(picture: Picture, bundle: str) -> bool:
    """Return whether the bundle is changing its owner, by its record or its lock."""
    store = picture.store
    if store is None:
        return False
    record, lock = store.records.get(bundle), store.locks.get(bundle)
    return (record is not None and record.state.is_in_flight) or (lock is not None and lock.disabled)


def unknown_bundles(picture: Picture) -> Iterator[ClusterFinding]:
    """A broker owns a bundle that its namespace does not have.

    Yields a finding for each such broker and bundle.
    """
    claims = Counter((broker.broker, bundle) for broker in picture.answering for bundle in broker.owned or ())
    for broker, bundle in sorted(claims):
        namespace = namespace_of(bundle)
        if not is_users(namespace):
            continue
        known = picture.bundles.get(namespace)
        if known is not None and bundle not in known:
            yield found(
                Severity.ERROR,
                bundle,
                f"{broker} owns it, and {namespace} has no such bundle: it was split, and the broker uses the "
                "former boundaries",
                f"restart {broker}; until then clients of some topics may be redirected in circles",
            )


def stuck_records(picture: Picture) -> Iterator[ClusterFinding]:
    """A record of the ownership channel waits for a broker that is not registered.

    Yields a finding for each such record.
    """
    for bundle, record in sorted((picture.store.records if picture.store is not None else {}).items()):
        waits_for = record.source_broker if record.state is ServiceUnitState.RELEASING else record.owner
        if record.state.is_in_flight and waits_for and waits_for not in picture.registered:
            age_s = max(0, picture.now_ms - record.timestamp) / 1000
            yield found(
                Severity.WARNING,
                bundle,
                f"its record is {record.state} for {age_s:,.0f} s and waits for {waits_for}, which is not registered",
                "the leader repairs it (loadBalancerInFlightServiceUnitStateWaitingTimeInMillis); if it stays, restart "
                "the leader",
            )
