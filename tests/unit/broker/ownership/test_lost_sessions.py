"""Ownership when a session is lost, a broker is paused, or the store does not answer."""

import asyncio

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError, Owner
from pulsar_barycenter.broker.ownership.record import OwnershipRecord, lock_path
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.store import SessionEvent
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName, heartbeat_namespaces
from support.control_cluster import NAMESPACE, SESSION_S, ControlBroker, on_virtual_time, topic
from support.owned_bundles import owner_of, record_of, three

BOOTSTRAP = NamespaceName.parse("public/bootstrap")


def own_bundles(broker: ControlBroker) -> list[Bundle]:
    """Its heartbeat namespaces, then its bootstrap namespace."""
    heartbeats = heartbeat_namespaces(broker.config.current.cluster_name, broker.broker_id)
    return [Bundle.full(namespace) for namespace in (*heartbeats, BOOTSTRAP)]


# ---- loss ----


def test_a_crashed_owners_bundles_are_served_by_others_within_the_session_and_two_seconds():
    async def scenario(cluster):
        brokers = await three(cluster, bundles=8)
        names = [topic(f"t{n}") for n in range(50)]
        await asyncio.gather(*(cluster.follow(name, brokers[0]) for name in names))
        epochs = {bundle: broker.plane.ownership.owned(bundle).epoch for broker in brokers for bundle in broker.owned}
        victim = next(broker for broker in brokers[1:] if broker.owned)
        lost = set(victim.owned)
        killed_at = cluster.loop.time()
        victim.crash()
        del cluster.brokers[victim.broker_id]
        alive = [broker for broker in brokers if broker is not victim]

        async def served_again(name):
            while True:
                try:
                    owner = await cluster.follow(name, alive[0])
                except (KeyError, BundleNotAcquiredError):  # still sent to the dead one
                    await asyncio.sleep(0.1)
                    continue
                if owner.broker_id != victim.broker_id:
                    return
                await asyncio.sleep(0.1)

        await asyncio.gather(*(served_again(name) for name in names))
        assert cluster.loop.time() - killed_at <= SESSION_S + 2
        for bundle in lost:
            [now] = [broker for broker in alive if bundle in broker.owned]
            assert now.plane.ownership.owned(bundle).epoch > epochs[bundle]
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_partitioned_owner_stops_acknowledging_before_anybody_else_can_own_its_bundle():
    async def scenario(cluster):
        brokers = await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        others = [broker for broker in brokers if broker is not owner]
        cluster.backend.partition(owner.store)
        while term.may_acknowledge:
            assert not cluster.servers(bundle)[1:]
            await asyncio.sleep(0.05)
        assert not others[0].owned
        assert not others[1].owned
        await asyncio.sleep(SESSION_S)
        answer = await cluster.follow(topic("t"), others[0])
        assert answer.broker_id != owner.broker_id
        assert answer.epoch > term.epoch
        cluster.backend.heal(owner.store)
        await cluster.until(lambda: bool(owner.topics.closed), "topics closed")
        await cluster.until(lambda: owner.plane.registration.is_registered, "registered again")
        assert not owner.owned
        assert (await cluster.follow(topic("t"), owner)).epoch == answer.epoch

    on_virtual_time(scenario)


def test_a_session_lost_while_nobody_took_the_bundle_ends_in_a_new_term_of_the_same_broker():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        cluster.backend.expire_session(owner.store)
        await cluster.until(lambda: not term.may_acknowledge, "session loss noticed")
        await cluster.until(lambda: owner.owned == [bundle], "regained")
        assert bundle in [closed for closed, _ in owner.topics.closed]
        new = owner.plane.ownership.owned(bundle)
        assert new is not term
        assert new.epoch > term.epoch
        assert (await record_of(cluster, bundle)).epoch == new.epoch

    on_virtual_time(scenario)


def test_a_lost_session_leaves_no_record_of_the_old_term_in_the_new_session():
    """Lookups elsewhere would go to a broker that does not serve."""

    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        old = owner.plane.ownership.owned(bundle).epoch
        written = []
        put = owner.store.put

        async def noting(path, value, **options):
            if path == lock_path(bundle):
                written.append(msgspec.json.decode(value, type=OwnershipRecord))
            return await put(path, value, **options)

        owner.store.put = noting
        owner.topics.closing = lambda closing: asyncio.sleep(1)
        cluster.backend.expire_session(owner.store)
        await cluster.until(lambda: not owner.owned, "session loss noticed")
        await cluster.until(lambda: owner.owned == [bundle], "regained")
        assert written
        assert not [record for record in written if record.epoch == old]

    on_virtual_time(scenario)


def test_a_session_lost_during_an_acquisition_leaves_no_record_that_says_served():
    async def scenario(cluster):
        first, _, _ = await three(cluster)
        [bundle] = (await first.run(first.plane.bundles.get(NAMESPACE))).bundles
        put, enabled, held_up = first.store.put, [], asyncio.Event()

        async def holding_up(path, value, **options):
            if path == lock_path(bundle) and not msgspec.json.decode(value, type=OwnershipRecord).disabled:
                enabled.append(path)
                if len(enabled) == 1:
                    cluster.backend.expire_session(first.store)
                    await held_up.wait()
            return await put(path, value, **options)

        first.store.put = holding_up
        first.store.add_session_listener(
            lambda event: held_up.set() if event is SessionEvent.SESSION_REESTABLISHED else None
        )
        with pytest.raises(BundleNotAcquiredError):
            await first.run(first.plane.ownership.acquire(bundle, reason="test"))
        assert len(enabled) == 1
        await asyncio.sleep(1)
        assert await record_of(cluster, bundle) is None

    on_virtual_time(scenario)


def test_a_process_that_stood_still_acknowledges_nothing_when_it_wakes():
    async def scenario(cluster):
        brokers = await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        others = [broker for broker in brokers if broker is not owner]
        owner.node.pause()
        await asyncio.sleep(2 * SESSION_S)
        answer = await cluster.follow(topic("t"), others[0])
        assert answer.broker_id != owner.broker_id
        assert not term.may_acknowledge  # before a single callback of the process ran
        owner.node.resume()
        await cluster.until(lambda: bool(owner.topics.closed), "topics closed")
        assert not owner.owned
        assert (await cluster.follow(topic("t"), owner)).epoch == answer.epoch
        await cluster.until(lambda: owner.plane.registration.is_registered, "registered again")

    on_virtual_time(scenario)


@pytest.mark.parametrize("stop_s", [0.6 * SESSION_S, 0.9 * SESSION_S, 1.1 * SESSION_S, 2 * SESSION_S])
def test_a_broker_that_stood_still_owns_its_own_namespaces_again_without_being_asked(stop_s):
    """Whether its session outlived the stop, ended in it, or ends before the broker has recovered."""

    async def scenario(cluster):
        await cluster.create_namespace(1, BOOTSTRAP)
        broker = cluster.make(8081)
        broker.config.current = msgspec.structs.replace(broker.config.current, bootstrap_namespaces=(str(BOOTSTRAP),))
        await broker.start()
        await cluster.add(8082)
        own = own_bundles(broker)
        terms = [broker.plane.ownership.owned(bundle) for bundle in own]
        assert all(terms)
        broker.node.pause()
        await asyncio.sleep(stop_s)
        broker.node.resume()
        await cluster.until(lambda: not any(term.may_acknowledge for term in terms), "stop noticed")
        await cluster.until(lambda: all(map(broker.plane.ownership.owned, own)), "owned again", within_s=SESSION_S + 5)

    on_virtual_time(scenario)


def test_a_broker_whose_session_ended_unnoticed_during_a_stop_owns_its_own_namespaces_again():
    """Recovery is over, in vain, when the new session begins."""

    async def scenario(cluster):
        await cluster.create_namespace(1, BOOTSTRAP)
        broker = cluster.make(8081)
        broker.config.current = msgspec.structs.replace(broker.config.current, bootstrap_namespaces=(str(BOOTSTRAP),))
        await broker.start()
        own = own_bundles(broker)
        broker.node.pause()
        await asyncio.sleep(0.8 * SESSION_S)
        cluster.backend.partition(broker.store)
        broker.node.resume()
        await cluster.until(
            lambda: not broker.plane.ownership.held_bundles(), "recovery gave up", within_s=3 * SESSION_S
        )
        cluster.backend.heal(broker.store)
        await cluster.until(lambda: all(map(broker.plane.ownership.owned, own)), "owned again", within_s=SESSION_S)

    on_virtual_time(scenario)


def test_a_broker_whose_recovery_was_not_answered_owns_its_own_namespaces_again():
    """No session ends and no connection breaks: only the failed recovery itself shows that it is due."""

    async def scenario(cluster):
        await cluster.create_namespace(1, BOOTSTRAP)
        broker = cluster.make(8081)
        broker.config.current = msgspec.structs.replace(broker.config.current, bootstrap_namespaces=(str(BOOTSTRAP),))
        await broker.start()
        own, put, unanswered = own_bundles(broker), broker.store.put, []

        async def losing(path, value, **options):
            if path.startswith("/namespace/") and len(unanswered) < 10:
                unanswered.append(path)
                raise StoreUnavailableError(path, "no answer")
            return await put(path, value, **options)

        broker.node.pause()
        await asyncio.sleep(0.6 * SESSION_S)
        broker.store.put = losing
        broker.node.resume()
        await cluster.until(lambda: len(unanswered) == 10, "recovery failed")
        await cluster.until(lambda: all(map(broker.plane.ownership.owned, own)), "owned again", within_s=15)

    on_virtual_time(scenario)


def test_an_own_namespace_that_is_lost_alone_is_taken_again():
    async def scenario(cluster):
        broker = await cluster.add(8081)
        bundle, *_ = own_bundles(broker)
        term = broker.plane.ownership.owned(bundle)
        broker.plane.ownership.lost(term, "test")
        assert not broker.plane.ownership.owned(bundle)
        await cluster.until(lambda: broker.plane.ownership.owned(bundle), "owned again", within_s=5)

    on_virtual_time(scenario)


def test_a_session_that_is_lost_while_a_broker_starts_does_not_end_it():
    async def scenario(cluster):
        broker = cluster.make(8081)
        bundle, *_ = own_bundles(broker)
        put, lost = broker.store.put, []

        async def losing(path, value, **options):
            if path == lock_path(bundle) and not lost:
                lost.append(path)
                cluster.backend.expire_session(broker.store)
                await asyncio.sleep(1)
            return await put(path, value, **options)

        broker.store.put = losing
        await broker.start()
        assert lost
        assert broker.plane.ownership.owned(bundle)

    on_virtual_time(scenario)


def test_a_bootstrap_namespace_that_another_broker_took_stays_there():
    async def scenario(cluster):
        await cluster.create_namespace(1, BOOTSTRAP)
        broker = cluster.make(8081)
        broker.config.current = msgspec.structs.replace(broker.config.current, bootstrap_namespaces=(str(BOOTSTRAP),))
        await broker.start()
        other = await cluster.add(8082)
        bundle = Bundle.full(BOOTSTRAP)
        cluster.backend.partition(broker.store)
        await asyncio.sleep(SESSION_S + 1)
        await other.run(other.plane.ownership.acquire(bundle, reason="test"))
        cluster.backend.heal(broker.store)
        heartbeats = own_bundles(broker)[:-1]
        await cluster.until(lambda: all(map(broker.plane.ownership.owned, heartbeats)), "owned again")
        await asyncio.sleep(5)
        assert cluster.servers(bundle) == [other.broker_id]

    on_virtual_time(scenario)


def test_an_acquisition_of_unknown_outcome_leaves_no_orphaned_lock():
    async def scenario(cluster):
        first, second, _ = await three(cluster)
        put, lost = first.store.put, []

        async def losing(path, value, **options):
            stat = await put(path, value, **options)
            if path.startswith("/namespace/") and not lost:
                lost.append(path)
                raise StoreUnavailableError(path, "no answer")
            return stat

        [bundle] = (await first.run(first.plane.bundles.get(NAMESPACE))).bundles
        first.store.put = losing
        with pytest.raises(StoreUnavailableError):
            await first.run(first.plane.ownership.acquire(bundle, reason="test"))
        assert lost
        assert isinstance(await cluster.follow(topic("t"), second), Owner)
        cluster.check_one_server()

    on_virtual_time(scenario)


@pytest.mark.parametrize("hears", ["of it", "that it was disconnected"])
def test_a_lock_that_comes_to_be_when_nobody_waits_for_it_any_more_is_let_go(hears):
    """As where the leader writes for all, and has more to write than it can within the time of a request."""

    async def scenario(cluster):
        first, second, _ = await three(cluster)
        put, late = first.store.put, []

        async def unanswered(path, value, **options):
            if not path.startswith("/namespace/") or late:
                return await put(path, value, **options)
            late.append((path, value, options))
            raise StoreUnavailableError(path, "no answer")

        [bundle] = (await first.run(first.plane.bundles.get(NAMESPACE))).bundles
        first.store.put = unanswered
        with pytest.raises(StoreUnavailableError):
            await first.run(first.plane.ownership.acquire(bundle, reason="test"))
        await asyncio.sleep(5)
        [(path, value, options)] = late
        if hears == "of it":
            await first.run(put(path, value, **options))
        else:
            cluster.backend.route_notifications(first.store, lambda change: None)
            await first.run(put(path, value, **options))
            cluster.backend.partition(first.store)
            await asyncio.sleep(SESSION_S / 2)
            cluster.backend.route_notifications(first.store, None)
            cluster.backend.heal(first.store)
        await asyncio.sleep(SESSION_S / 2)
        assert isinstance(await cluster.follow(topic("t"), second), Owner)
        cluster.check_one_server()

    on_virtual_time(scenario)


@pytest.mark.parametrize("unanswered", [-1, 0], ids=["the lock", "that it serves"])
def test_a_record_that_changes_while_it_is_let_go_is_looked_at_again(unanswered):
    """The record whose release failed now says that the broker serves, which it does not."""

    async def scenario(cluster):
        first, second, _ = await three(cluster)
        put, delete, late = first.store.put, first.store.delete, []

        async def lost(path, value, **options):
            if not path.startswith("/namespace/") or options.get("expected_version") != unanswered or late:
                return await put(path, value, **options)
            late.append((path, value))
            if unanswered == -1:
                await put(path, value, **options)
            raise StoreUnavailableError(path, "no answer")

        async def meanwhile(path, **options):
            if late and path == late[0][0]:
                first.store.delete = delete
                await put(*late[0], expected_version=0, ephemeral=True, if_own=True)
            await delete(path, **options)

        [bundle] = (await first.run(first.plane.bundles.get(NAMESPACE))).bundles
        first.store.put, first.store.delete = lost, meanwhile
        with pytest.raises(StoreUnavailableError):
            await first.run(first.plane.ownership.acquire(bundle, reason="test"))
        await asyncio.sleep(5)
        assert first.store.delete == delete
        assert await record_of(cluster, bundle) is None
        assert isinstance(await cluster.follow(topic("t"), second), Owner)

    on_virtual_time(scenario)


def test_a_record_that_a_former_session_left_is_scrubbed_once_however_often_it_is_found():
    async def scenario(cluster):
        first, *_ = await three(cluster)
        [bundle] = (await first.run(first.plane.bundles.get(NAMESPACE))).bundles
        left = OwnershipRecord(first.broker_id, incarnation=first.plane.incarnation)
        await cluster.admin.put(lock_path(bundle), msgspec.json.encode(left), ephemeral=True)
        for _ in range(20):
            await first.run(first.plane.ownership.owner_of(bundle))
            await asyncio.sleep(0.3)
        scrubbing = [task for task in asyncio.all_tasks() if task.get_name() == f"scrub {bundle}"]
        assert len(scrubbing) == 1
        await cluster.admin.delete(lock_path(bundle))
        await cluster.until(scrubbing[0].done, "scrubbed")
        assert isinstance(await cluster.follow(topic("t"), first), Owner)

    on_virtual_time(scenario)
