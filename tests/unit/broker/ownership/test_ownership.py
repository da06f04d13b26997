"""Ownership as a lock that can be lost: terms, epochs, unloads, splits, session loss, crashes."""

import asyncio
from itertools import chain

import msgspec
import pytest

from barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError, BundleNotFoundError, Owner
from barycenter.broker.lookup.namespace_service import BrokerNotActiveError, BundleNotEmptyError
from barycenter.broker.ownership.contract import InTransit
from barycenter.broker.ownership.locks import EPOCH_COUNTER
from barycenter.broker.ownership.record import OwnershipRecord, lock_path
from barycenter.broker.ownership.serving import NotServedError
from barycenter.load.splitting.request import TopicLoad
from barycenter.metadata.coordination.counter import next_counter_value
from barycenter.metadata.errors import LockBusyError, StoreUnavailableError
from barycenter.metadata.store import SessionEvent
from barycenter.naming.bundle import Bundle
from barycenter.naming.errors import InvalidSplitError
from barycenter.naming.namespace import NamespaceName, heartbeat_namespaces
from support.control_cluster import NAMESPACE, SESSION_S, ControlBroker, ControlCluster, on_virtual_time, topic

BOOTSTRAP = NamespaceName.parse("public/bootstrap")


def own_bundles(broker: ControlBroker) -> list[Bundle]:
    """Its heartbeat namespaces, then its bootstrap namespace."""
    heartbeats = heartbeat_namespaces(broker.config.current.cluster_name, broker.broker_id)
    return [Bundle.full(namespace) for namespace in (*heartbeats, BOOTSTRAP)]


async def three(cluster: ControlCluster, bundles: int = 1) -> list[ControlBroker]:
    await cluster.create_namespace(bundles)
    return [await cluster.add(port) for port in (8081, 8082, 8083)]


async def owner_of(cluster: ControlCluster, name: str = "t") -> ControlBroker:
    return cluster.brokers[(await cluster.follow(topic(name), next(iter(cluster.brokers.values())))).broker_id]


async def record_of(cluster: ControlCluster, bundle: Bundle) -> OwnershipRecord | None:
    stored = await cluster.admin.get(lock_path(bundle))
    return None if stored is None else msgspec.json.decode(stored.value, type=OwnershipRecord)


def unload(broker: ControlBroker, bundle: Bundle) -> "asyncio.Future[int | None]":
    return asyncio.ensure_future(broker.run(broker.plane.namespaces.unload_bundle(bundle)))


def split(broker: ControlBroker, bundle: Bundle, **options):
    algorithm = options.pop("algorithm", "range_equally_divide")
    work = broker.plane.namespaces.split_bundle(bundle, algorithm=algorithm, **options)
    return asyncio.ensure_future(broker.run(work))


# ---- terms and epochs ----


def test_the_lock_record_has_pulsars_fields_and_the_epoch_of_the_term():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        stored = await cluster.admin.get(f"/namespace/public/default/{bundle.range}")
        fields = msgspec.json.decode(stored.value)
        assert stored.stat.ephemeral
        assert fields["nativeUrl"] == owner.urls.broker_url
        assert fields["httpUrl"] == owner.urls.web_url
        assert fields["brokerId"] == owner.broker_id
        assert fields["disabled"] is False
        assert fields["epoch"] == owner.plane.ownership.owned(bundle).epoch

    on_virtual_time(scenario)


def test_each_term_has_a_higher_epoch_whichever_broker_tried_first():
    """Brokers draw numbers in between; the number that counts is drawn while the lock is held."""

    async def scenario(cluster):
        brokers = await three(cluster)
        [bundle] = (await brokers[0].run(brokers[0].plane.bundles.get(NAMESPACE))).bundles
        epochs = []
        for number in range(9):
            await next_counter_value(cluster.admin, EPOCH_COUNTER)
            racing = [brokers[number % 3], brokers[(number + 1) % 3]]
            acquiring = (broker.run(broker.plane.ownership.acquire(bundle, reason="test")) for broker in racing)
            answers = await asyncio.gather(*acquiring, return_exceptions=True)
            [winner] = [each for each, answer in zip(racing, answers, strict=True) if isinstance(answer, Owner)]
            assert sum(isinstance(answer, LockBusyError) for answer in answers) == 1
            epochs.append(winner.plane.ownership.owned(bundle).epoch)
            await unload(winner, bundle)
        assert epochs == sorted(set(epochs))

    on_virtual_time(scenario)


def test_acquiring_again_what_is_served_is_the_same_term():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        again = await owner.run(owner.plane.ownership.acquire(bundle, reason="test"))
        assert again.epoch == term.epoch
        assert owner.plane.ownership.owned(bundle) is term

    on_virtual_time(scenario)


def test_a_range_that_is_no_bundle_cannot_be_acquired_and_its_lock_is_not_left():
    async def scenario(cluster):
        first, _, _ = await three(cluster, bundles=4)
        wrong = Bundle.full(NAMESPACE)
        with pytest.raises(BundleNotFoundError):
            await first.run(first.plane.ownership.acquire(wrong, reason="test"))
        missing = Bundle.full(NamespaceName.parse("public/missing"))
        with pytest.raises(BundleNotFoundError):
            await first.run(first.plane.ownership.acquire(missing, reason="test"))
        await asyncio.sleep(0.1)
        assert await record_of(cluster, wrong) is None
        assert await record_of(cluster, missing) is None

    on_virtual_time(scenario)


def test_topics_are_served_only_in_a_term():
    async def scenario(cluster):
        brokers = await three(cluster)
        owner = await owner_of(cluster)
        other = next(broker for broker in brokers if broker is not owner)
        term = await owner.run(owner.plane.ownership.require_served(topic("t")))
        assert term.active
        assert term.may_acknowledge
        with pytest.raises(NotServedError):
            await other.run(other.plane.ownership.require_served(topic("t")))

    on_virtual_time(scenario)


# ---- unload ----


def test_an_unload_closes_topics_before_it_gives_the_lock_up_and_others_see_it_leaving():
    async def scenario(cluster):
        brokers = await three(cluster)
        owner = await owner_of(cluster)
        other = next(broker for broker in brokers if broker is not owner)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        gate = asyncio.Event()
        owner.topics.closing = lambda closing: gate.wait()
        unloading = unload(owner, bundle)
        await cluster.until(lambda: not term.active, "leaving")
        await asyncio.sleep(0.2)
        assert (await record_of(cluster, bundle)).disabled
        assert isinstance(await other.run(other.plane.ownership.owner_of(bundle)), InTransit)
        assert term.may_acknowledge  # what was written is still told
        assert owner.plane.ownership.served(topic("t")) is None
        gate.set()
        assert await unloading == 1
        assert not term.may_acknowledge
        assert owner.topics.closed == [(bundle, "admin request")]
        assert await record_of(cluster, bundle) is None

    on_virtual_time(scenario)


def test_an_unload_that_takes_too_long_revokes_the_term_and_goes_on():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        owner.topics.closing = lambda closing: asyncio.sleep(3600)
        await owner.run(owner.plane.dynamic_configuration.set("namespaceBundleUnloadingTimeoutMs", "2000"))
        began = cluster.loop.time()
        await unload(owner, bundle)
        assert 2 <= cluster.loop.time() - began < 3
        assert not term.may_acknowledge
        assert await record_of(cluster, bundle) is None

    on_virtual_time(scenario)


def test_two_unloads_at_once_are_one_and_the_second_leaves_the_next_term_alone():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        owner.topics.closing = lambda closing: asyncio.sleep(1)
        first, second = unload(owner, bundle), unload(owner, bundle)
        again = asyncio.ensure_future(owner.run(owner.plane.ownership.acquire(bundle, reason="test")))
        assert await asyncio.gather(first, second) == [1, None]
        assert (await again).is_local
        assert owner.owned == [bundle]

    on_virtual_time(scenario)


def test_an_unload_is_carried_out_although_its_caller_went_away():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        owner.topics.closing = lambda closing: asyncio.sleep(1)
        caller = unload(owner, bundle)
        await asyncio.sleep(0.1)
        caller.cancel()
        await asyncio.sleep(2)
        assert await record_of(cluster, bundle) is None

    on_virtual_time(scenario)


def test_a_late_loss_of_an_old_term_does_not_touch_the_new_one():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        old = owner.plane.ownership.owned(bundle)
        await unload(owner, bundle)
        await owner.run(owner.plane.ownership.acquire(bundle, reason="test"))
        owner.node.call(owner.plane.ownership.lost, old, "late")
        await asyncio.sleep(1)
        new = owner.plane.ownership.owned(bundle)
        assert new.active
        assert new.epoch > old.epoch

    on_virtual_time(scenario)


def test_a_fenced_ledger_ends_the_term_and_frees_the_bundle():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        owner.node.call(owner.plane.ownership.lost, term, "ledger fenced")
        assert not term.active
        assert not term.may_acknowledge
        await asyncio.sleep(0.5)
        assert [closed for closed, _ in owner.topics.closed] == [bundle]
        assert (await owner_of(cluster)).owned == [bundle]

    on_virtual_time(scenario)


def test_an_unload_to_a_destination_goes_there_and_only_there():
    async def scenario(cluster):
        brokers = await three(cluster, bundles=4)
        leader = brokers[0]
        await asyncio.gather(*(cluster.follow(topic(f"t{n}"), leader) for n in range(40)))
        for bundle in (await leader.run(leader.plane.bundles.get(NAMESPACE))).bundles:
            for wanted in brokers:
                [current] = [broker for broker in brokers if bundle in broker.owned]
                leader.plane.namespaces.set_destination(bundle, wanted.broker_id)
                await unload(current, bundle)
                name = next(name for name in map(topic, map(str, range(100))) if bundle.contains(name))
                answers = await asyncio.gather(*(cluster.follow(name, broker) for broker in brokers * 3))
                assert {answer.broker_id for answer in answers} == {wanted.broker_id}
        with pytest.raises(BrokerNotActiveError, match=r"127\.0\.0\.1:9"):
            leader.plane.namespaces.set_destination(bundle, "127.0.0.1:9")

    on_virtual_time(scenario)


def test_lookups_go_on_while_a_bundle_is_unloaded_again_and_again():
    """No lookup fails, and after each answer the broker it names serves the bundle or has just left it."""

    async def scenario(cluster):
        brokers = await three(cluster, bundles=2)
        answered = 0
        done = False

        async def ask(broker):
            nonlocal answered
            while not done:
                assert isinstance(await cluster.follow(topic("t"), broker), Owner)
                cluster.check_one_server()
                answered += 1
                await asyncio.sleep(0.01)

        asking = [asyncio.ensure_future(ask(broker)) for broker in brokers]
        for _ in range(20):
            owner = await owner_of(cluster)
            owner.topics.closing = lambda closing: asyncio.sleep(0.05)
            await asyncio.gather(*(unload(owner, bundle) for bundle in owner.owned))
            await asyncio.sleep(0.05)
        done = True
        await asyncio.gather(*asking)
        assert answered > 100

    on_virtual_time(scenario)


# ---- split ----


def test_a_split_keeps_topics_open_and_gives_its_children_higher_epochs():
    async def scenario(cluster):
        brokers = await three(cluster)
        owner = await owner_of(cluster)
        [parent] = owner.owned
        term = owner.plane.ownership.owned(parent)
        children = await split(owner, parent)
        assert [str(child.range) for child in children] == ["0x00000000_0x7fffffff", "0x7fffffff_0xffffffff"]
        assert owner.owned == children
        assert owner.topics.closed == []
        assert owner.topics.bundles_refreshed == 1
        assert all(owner.plane.ownership.owned(child).epoch > term.epoch for child in children)
        assert not term.active
        assert await cluster.boundaries() == ["0x00000000", "0x7fffffff", "0xffffffff"]
        policies = msgspec.json.decode((await cluster.admin.get(f"/admin/policies/{NAMESPACE}")).value)
        assert policies["bundles"] == {"boundaries": await cluster.boundaries(), "numBundles": 2}
        assert await record_of(cluster, parent) is None
        for broker in brokers:
            assert (await cluster.follow(topic("t"), broker)).broker_id == owner.broker_id

    on_virtual_time(scenario)


def test_splits_of_one_namespace_by_several_brokers_at_once_give_one_list_of_boundaries():
    async def scenario(cluster):
        brokers = await three(cluster, bundles=6)
        await asyncio.gather(*(cluster.follow(topic(f"t{n}"), brokers[0]) for n in range(60)))
        owned = {broker: broker.owned for broker in brokers}
        assert sum(map(len, owned.values())) == 6
        children = await asyncio.gather(*(split(broker, bundle) for broker in brokers for bundle in owned[broker]))
        boundaries = [int(text, 16) for text in await cluster.boundaries()]
        assert len(boundaries) == 13
        ranges = sorted((child.range.lower, child.range.upper) for pair in children for child in pair)
        assert [lower for lower, _ in ranges] + [0xFFFFFFFF] == boundaries
        assert [upper for _, upper in ranges] == boundaries[1:]
        assert sorted(bundle for broker in brokers for bundle in broker.owned) == sorted(chain.from_iterable(children))
        policies = msgspec.json.decode((await cluster.admin.get(f"/admin/policies/{NAMESPACE}")).value)
        assert policies["bundles"]["boundaries"] == await cluster.boundaries()
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_lookups_and_unloads_during_splits_never_meet_two_servers():
    async def scenario(cluster):
        brokers = await three(cluster)
        for _ in range(5):
            await cluster.follow(topic("t0"), brokers[0])
            owned = [(broker, bundle) for broker in brokers for bundle in broker.owned]
            work = [
                each(broker, bundle)
                for number, (broker, bundle) in enumerate(owned)
                for each in ((unload, split) if number % 2 else (split,))
            ]
            lookups = [cluster.follow(topic(f"t{n}"), broker) for n in range(20) for broker in brokers]
            await asyncio.gather(*lookups)
            await asyncio.gather(*work, return_exceptions=True)
            cluster.check_one_server()
        assert len(await cluster.boundaries()) > 4

    on_virtual_time(scenario)


def test_a_split_can_unload_its_children_and_cut_between_topics():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [parent] = owner.owned
        cluster.directory.topics = [str(topic(f"t{n}")) for n in range(11)]
        hashes = sorted(topic(f"t{n}").hash32 for n in range(11))
        children = await split(owner, parent, algorithm="topic_count_equally_divide", unload=True)
        assert hashes[4] <= children[1].range.lower <= hashes[5]
        await cluster.until(lambda: len(owner.topics.closed) == 2, "children unloaded")
        assert [bundle for bundle, _ in owner.topics.closed] == children

    on_virtual_time(scenario)


def test_a_split_by_traffic_cuts_between_topics_as_often_as_their_rates_say():
    """Limit 30 000: of 20 000, 9 000, 25 000, 1 000 and 40 000 msg/s the second and third, and the last two, part."""

    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [parent] = owner.owned
        hashes = sorted(topic(f"t{n}").hash32 for n in range(5))
        rates = (20_000, 9_000, 25_000, 1_000, 40_000)
        owner.topics.loads = [TopicLoad(*pair, 0) for pair in zip(hashes, rates, strict=True)]
        children = await split(owner, parent, algorithm="flow_or_qps_equally_divide")
        assert len(children) == 3
        assert owner.owned == children
        assert hashes[1] < children[1].range.lower <= hashes[2]
        assert hashes[3] < children[2].range.lower <= hashes[4]
        assert len(await cluster.boundaries()) == 4
        assert owner.config.apply({"loadBalancerNamespaceBundleMaxMsgRate": "1"})
        assert len(await split(owner, children[0], algorithm="flow_or_qps_equally_divide")) == 2, "the limit is lower"
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_split_without_boundary_changes_nothing_and_impossible_ones_are_refused():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [parent] = owner.owned
        assert await split(owner, parent, algorithm="topic_count_equally_divide") == []
        assert owner.owned == [parent]
        with pytest.raises(BundleNotFoundError):
            await split(owner, Bundle.parse(f"{NAMESPACE}/0x00000000_0x10000000"))
        heartbeat = Bundle.full(NamespaceName.parse(f"pulsar/{owner.broker_id}"))
        with pytest.raises(InvalidSplitError):
            await split(owner, heartbeat)
        other = next(broker for broker in cluster.brokers.values() if broker is not owner)
        with pytest.raises(BundleNotAcquiredError):
            await split(other, parent)
        assert await cluster.boundaries() == ["0x00000000", "0xffffffff"]

    on_virtual_time(scenario)


def test_a_split_whose_write_is_not_answered_is_cleared_up():
    """The boundaries are written but the answer is lost: the attempt is repeated, found done, and the split stands."""

    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [parent] = owner.owned
        put, lost = owner.store.put, []

        async def losing(path, value, **options):
            stat = await put(path, value, **options)
            if path.startswith("/admin/local-policies/") and not lost:
                lost.append(path)
                raise StoreUnavailableError(path, "no answer")
            return stat

        owner.store.put = losing
        children = await split(owner, parent)
        assert lost
        assert owner.owned == children
        assert len(await cluster.boundaries()) == 3

    on_virtual_time(scenario)


def test_the_children_of_a_parent_that_is_lost_while_its_split_is_written_find_owners():
    """The boundaries stand, but nobody may serve in the lost term: the children are given up, not held for ever."""

    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [parent] = owner.owned
        put = owner.store.put

        async def fenced_meanwhile(path, value, **options):
            stat = await put(path, value, **options)
            if path.startswith("/admin/local-policies/"):
                owner.store.put = put
                owner.plane.ownership.lost(owner.plane.ownership.owned(parent), "a ledger was fenced")
            return stat

        owner.store.put = fenced_meanwhile
        children = await split(owner, parent)
        assert len(await cluster.boundaries()) == 3
        assert owner.owned == []
        for child in children:
            assert await record_of(cluster, child) is None
        assert (await cluster.follow(topic("t"), owner)).epoch is not None
        cluster.check_one_server()

    on_virtual_time(scenario)


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
    """No session ends and no connection breaks: nothing but the failed recovery itself says that it is due."""

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


# ---- the namespace goes, the broker goes ----


def test_terms_of_a_namespace_that_was_deleted_end():
    async def scenario(cluster):
        await three(cluster, bundles=2)
        owner = await owner_of(cluster)
        bundle = owner.owned[0]
        term = owner.plane.ownership.owned(bundle)
        await cluster.admin.delete(f"/admin/policies/{NAMESPACE}")
        await cluster.admin.delete(f"/admin/local-policies/{NAMESPACE}")
        await cluster.until(lambda: not term.active, "term ended")
        await cluster.until(lambda: bundle in [closed for closed, _ in owner.topics.closed], "topics closed")
        assert await record_of(cluster, bundle) is None

    on_virtual_time(scenario)


def test_a_bundle_with_topics_is_deleted_only_by_force():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        cluster.directory.topics = [str(topic("t"))]
        with pytest.raises(BundleNotEmptyError):
            await owner.run(owner.plane.namespaces.delete_bundle(bundle, force=False))
        await owner.run(owner.plane.namespaces.delete_bundle(bundle, force=True))
        assert owner.owned == []
        assert await record_of(cluster, bundle) is None

    on_virtual_time(scenario)


def test_a_leaving_broker_hands_over_one_bundle_after_the_other_and_another_leads():
    async def scenario(cluster):
        brokers = await three(cluster, bundles=8)
        await asyncio.gather(*(cluster.follow(topic(f"t{n}"), brokers[0]) for n in range(50)))
        leader = brokers[0]
        owned = leader.owned
        assert owned
        leader.topics.closing = lambda closing: asyncio.sleep(0.1)
        leaving = asyncio.ensure_future(leader.run(leader.plane.leave(reason="broker stops")))
        await asyncio.sleep(0.05)
        names = [topic(f"t{n}") for n in range(50)]
        answers = await asyncio.gather(*(cluster.follow(name, brokers[1]) for name in names))
        await leaving
        closed = [bundle for bundle, _ in leader.topics.closed]
        assert [bundle for bundle in closed if bundle in owned] == owned
        await cluster.until(lambda: any(broker.plane.leadership.is_leader() for broker in brokers[1:]), "another leads")
        assert not leader.plane.leadership.is_leader()
        answers = await asyncio.gather(*(cluster.follow(name, leader) for name in names))
        assert leader.broker_id not in {answer.broker_id for answer in answers}
        await leader.run(leader.plane.close())
        await leader.run(leader.plane.close())
        cluster.check_one_server()

    on_virtual_time(scenario)


@pytest.mark.parametrize("is_overdue", [True, False], ids=["the session was overdue", "the clock was wrong"])
def test_a_term_that_withheld_a_receipt_never_gives_another(is_overdue):
    """The store answers after all, or somebody puts the clock right, before the broker looked: the term is over all the
    same, or its clients would get the receipts that follow and not the one that was withheld."""

    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        pauses = owner.plane.ownership._pauses
        doubtful = "_is_overdue" if is_overdue else "_now_ms"
        honest = getattr(pauses, doubtful)
        setattr(pauses, doubtful, (lambda: True) if is_overdue else (lambda: honest() + 3_600_000))
        assert not term.may_acknowledge
        setattr(pauses, doubtful, honest)
        assert not term.may_acknowledge
        await cluster.until(lambda: owner.owned == [bundle], "served anew", within_s=SESSION_S / 10)
        assert not term.may_acknowledge
        new = owner.plane.ownership.owned(bundle)
        assert new.may_acknowledge
        assert new.epoch > term.epoch

    on_virtual_time(scenario)
