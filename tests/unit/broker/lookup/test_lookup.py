"""Lookups at several brokers: one owner, the same from all."""

import asyncio

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotAcquiredError,
    BundleUnloadingError,
    ListenerNotFoundError,
    LookupNotReadyError,
    NamespaceNotFoundError,
    Owner,
    Redirect,
    TooManyLookupsError,
)
from pulsar_barycenter.broker.errors import TopicNotFoundError
from pulsar_barycenter.broker.load_manager.noop_load_manager import NoopLoadManager
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from support.control_cluster import NAMESPACE, ControlCluster, HashLoadManager, on_virtual_time, topic

CLIENT_TIMEOUT_S = 30.0
"""After what a client gives up a request, by its default."""


async def three(cluster: ControlCluster, bundles: int = 8) -> None:
    await cluster.create_namespace(bundles)
    for port in (8081, 8082, 8083):
        await cluster.add(port)


def test_all_brokers_name_the_same_owner_and_the_owner_serves():
    async def scenario(cluster):
        await three(cluster)
        brokers = list(cluster.brokers.values())
        for number in range(60):
            name = topic(f"t{number}")
            owners = [await cluster.follow(name, broker) for broker in brokers]
            assert len({owner.broker_id for owner in owners}) == 1
            serving = cluster.brokers[owners[0].broker_id].plane.ownership
            assert serving.served(name) is not None
            assert {owner.epoch for owner in owners} == {serving.served(name).epoch}
        assert all(broker.owned for broker in brokers)
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_64_first_lookups_at_once_give_one_owner():
    async def scenario(cluster):
        await three(cluster, bundles=1)
        brokers = list(cluster.brokers.values())
        owners = await asyncio.gather(*(cluster.follow(topic(f"t{n}"), brokers[n % 3]) for n in range(64)))
        assert len({(owner.broker_id, owner.epoch) for owner in owners}) == 1
        assert sum(len(broker.owned) for broker in brokers) == 1

    on_virtual_time(scenario)


def test_a_follower_redirects_to_the_leader_and_the_leader_to_the_owner_to_be():
    async def scenario(cluster):
        await three(cluster, bundles=16)
        leader, follower = cluster.brokers["127.0.0.1:8081"], cluster.brokers["127.0.0.1:8082"]
        asked = {leader.broker_id, follower.broker_id}
        assert leader.plane.leadership.is_leader()
        bundles = await leader.run(leader.plane.bundles.get(NAMESPACE))
        mine = [HashLoadManager.choose(bundle, leader.plane.registration.brokers) for bundle in bundles.bundles]
        foreign = {b for b, broker_id in zip(bundles.bundles, mine, strict=True) if broker_id not in asked}
        name = next(name for name in (topic(f"t{n}") for n in range(100)) if bundles.find(name) in foreign)
        first = await follower.lookup(name)
        assert isinstance(first, Redirect)
        assert (first.broker_id, first.authoritative) == (leader.broker_id, False)
        second = await leader.lookup(name)
        assert isinstance(second, Redirect)
        assert (second.broker_id, second.authoritative) == ("127.0.0.1:8083", True)
        owner = cluster.brokers[second.broker_id]
        assert not owner.owned
        answer = await owner.lookup(name, authoritative=True)
        assert isinstance(answer, Owner)
        assert answer.is_local
        assert await follower.lookup(name) == await leader.lookup(name)

    on_virtual_time(scenario)


def test_a_known_owner_is_answered_without_waiting():
    async def scenario(cluster):
        await three(cluster)
        name = topic("t")
        first, second, _ = cluster.brokers.values()
        assert first.plane.lookup.lookup_cached(name) is None
        owner = await cluster.follow(name, first)
        for broker in (first, second):
            await broker.lookup(name)
            assert broker.plane.lookup.lookup_cached(name).broker_id == owner.broker_id

    on_virtual_time(scenario)


def test_what_is_known_of_another_owner_is_forgotten_without_notification():
    """Broker 2 gets no notification; after REMOTE_OWNER_LIFE_S it reads the store again."""

    async def scenario(cluster):
        await three(cluster)
        name = topic("t")
        first, second, _ = cluster.brokers.values()
        await cluster.follow(name, second)
        cluster.backend.route_notifications(second.store, lambda notification: None)
        owner = cluster.brokers[(await cluster.follow(name, second)).broker_id]
        bundle = await owner.run(owner.plane.lookup.bundle_of(name))
        other = first if owner is not first else second
        first.plane.namespaces.set_destination(bundle, other.broker_id)
        await owner.run(owner.plane.namespaces.unload_bundle(bundle))
        await cluster.follow(name, first)
        await asyncio.sleep(4)
        assert (await cluster.follow(name, second)).broker_id == other.broker_id

    on_virtual_time(scenario)


def test_heartbeat_namespaces_are_owned_by_their_broker_before_it_is_registered():
    async def scenario(cluster):
        await three(cluster)
        for broker in cluster.brokers.values():
            name = TopicName.parse(f"persistent://pulsar/{broker.broker_id}/healthcheck")
            for asked in cluster.brokers.values():
                assert (await cluster.follow(name, asked)).broker_id == broker.broker_id

    on_virtual_time(scenario)


def test_without_a_registered_leader_the_asked_broker_decides():
    async def scenario(cluster):
        await three(cluster)
        leader, follower, _ = cluster.brokers.values()
        await leader.run(leader.plane.registration.unregister())
        await cluster.until(lambda: leader.broker_id not in follower.plane.registration.brokers, "leader unregistered")
        answers = [await follower.lookup(topic(f"t{n}")) for n in range(20)]
        assert all(isinstance(answer, Owner) or answer.authoritative for answer in answers)
        assert {answer.broker_id for answer in answers} <= set(cluster.brokers) - {leader.broker_id}

    on_virtual_time(scenario)


def test_the_lookup_limit_holds_and_changes_at_run_time():
    async def scenario(cluster):
        await three(cluster, bundles=1)
        broker = next(iter(cluster.brokers.values()))
        owner = cluster.brokers[(await cluster.follow(topic("t"), broker)).broker_id]
        gate = asyncio.Event()
        owner.topics.closing = lambda bundle: gate.wait()
        bundle = owner.owned[0]
        unload = asyncio.ensure_future(owner.run(owner.plane.namespaces.unload_bundle(bundle)))
        await cluster.until(lambda: not owner.owned, "unload under way")
        await owner.run(owner.plane.dynamic_configuration.set("maxConcurrentLookupRequest", "2"))
        held = [asyncio.ensure_future(owner.lookup(topic("t"))) for _ in range(2)]
        await cluster.until(lambda: owner.plane.lookup.in_flight == 2, "two lookups held")
        with pytest.raises(TooManyLookupsError):
            await owner.lookup(topic("t"))
        gate.set()
        await asyncio.gather(unload, *held)
        assert owner.plane.lookup.in_flight == 0

    on_virtual_time(scenario)


def test_lookups_are_counted_by_what_came_of_them():
    async def scenario(cluster):
        await three(cluster, bundles=1)
        _, follower, _ = cluster.brokers.values()
        owner = cluster.brokers[(await cluster.follow(topic("t"), follower)).broker_id]
        counts = owner.plane.lookup.counts
        before = (counts.answers, counts.failures)
        assert owner.plane.lookup.lookup_cached(topic("t")).is_local
        assert owner.plane.lookup.known_owner(topic("t")).is_local
        await owner.lookup(topic("t"))
        with pytest.raises(ListenerNotFoundError):
            owner.plane.lookup.lookup_cached(topic("t"), "nowhere")
        with pytest.raises(NamespaceNotFoundError):
            await owner.lookup(TopicName.parse("persistent://no/such/t"))
        assert (counts.answers - before[0], counts.failures - before[1]) == (2, 2)
        assert follower.plane.lookup.counts.redirects == 1, "it sent the client to the leader"

    on_virtual_time(scenario)


def test_a_lookup_is_held_during_an_unload_and_answered_after_it():
    async def scenario(cluster):
        await three(cluster, bundles=1)
        first, second, third = cluster.brokers.values()
        owner = cluster.brokers[(await cluster.follow(topic("t"), first)).broker_id]
        owner.topics.closing = lambda bundle: asyncio.sleep(2)
        began = cluster.loop.time()
        unload = asyncio.ensure_future(owner.run(owner.plane.namespaces.unload_bundle(owner.owned[0])))
        await cluster.until(lambda: not owner.owned, "unload under way")
        await asyncio.sleep(0.1)
        held = await asyncio.gather(*(cluster.follow(topic("t"), broker) for broker in (first, second, third)))
        assert cluster.loop.time() - began >= 2
        assert len({answer.epoch for answer in held}) == 1
        assert await unload == 1
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_bundle_that_stays_in_transit_is_an_error_the_client_retries():
    async def scenario(cluster):
        await three(cluster, bundles=1)
        first = next(iter(cluster.brokers.values()))
        owner = cluster.brokers[(await cluster.follow(topic("t"), first)).broker_id]
        owner.topics.closing = lambda bundle: asyncio.sleep(30)
        unload = asyncio.ensure_future(owner.run(owner.plane.namespaces.unload_bundle(owner.owned[0])))
        await cluster.until(lambda: not owner.owned, "unload under way")
        began = cluster.loop.time()
        with pytest.raises(BundleUnloadingError):
            await owner.lookup(topic("t"))
        assert cluster.loop.time() - began < CLIENT_TIMEOUT_S / 2, "it may be redirected, and held there, too"
        await unload

    on_virtual_time(scenario)


def test_a_bundle_whose_boundaries_were_forgotten_meanwhile_is_not_said_to_be_none():
    """A store that misses notifications has its caches forget again and again, and look-ups wait all the same."""

    async def scenario(cluster):
        await three(cluster, bundles=1)
        first = next(iter(cluster.brokers.values()))
        owner = cluster.brokers[(await cluster.follow(topic("t"), first)).broker_id]
        owner.topics.closing = lambda bundle: asyncio.sleep(30)
        unload = asyncio.ensure_future(owner.run(owner.plane.namespaces.unload_bundle(owner.owned[0])))
        await cluster.until(lambda: not owner.owned, "unload under way")

        async def forget():
            while True:
                owner.plane.bundles.invalidate(NAMESPACE)
                await asyncio.sleep(0.01)

        forgetting = asyncio.ensure_future(forget())
        with pytest.raises(BundleUnloadingError):
            await owner.lookup(topic("t"))
        forgetting.cancel()
        await unload

    on_virtual_time(scenario)


def test_a_namespace_that_does_not_exist_is_said_so_and_owns_nothing():
    async def scenario(cluster):
        await three(cluster)
        first = next(iter(cluster.brokers.values()))
        missing = TopicName.parse("persistent://public/missing/t")
        with pytest.raises(NamespaceNotFoundError):
            await first.lookup(missing)
        await cluster.create_namespace(4, NamespaceName.parse("public/missing"))
        await cluster.follow(missing, first)
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_namespace_made_after_it_was_missed_is_found_without_notification():
    async def scenario(cluster):
        await three(cluster)
        _, second, _ = cluster.brokers.values()
        cluster.backend.route_notifications(second.store, lambda notification: None)
        name = TopicName.parse("persistent://public/missing/t")
        with pytest.raises(NamespaceNotFoundError):
            await second.lookup(name)
        made = await cluster.create_namespace(4, name.namespace)
        assert await second.run(second.plane.lookup.bundle_of(name)) == made.find(name)
        await cluster.follow(name, second)
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_asked_not_to_create_a_broker_says_which_topics_do_not_exist():
    async def scenario(cluster):
        await three(cluster)
        broker = next(iter(cluster.brokers.values()))
        known, unknown = topic("known"), topic("unknown")
        cluster.directory.topics.append(str(known))
        partitions = broker.plane.lookup.partitions
        assert await broker.run(partitions(known, auto_create=False)) == 0
        assert await broker.run(partitions(unknown, auto_create=True)) == 0
        with pytest.raises(TopicNotFoundError):
            await broker.run(partitions(unknown, auto_create=False))
        volatile = TopicName.parse(f"non-persistent://{NAMESPACE}/unknown")
        assert await broker.run(partitions(volatile, auto_create=False)) == 0

    on_virtual_time(scenario)


def test_a_namespace_that_does_not_exist_is_not_remembered():
    async def scenario(cluster):
        broker = await cluster.add(8081)
        name = TopicName.parse("non-persistent://public/missing/t")
        with pytest.raises(NamespaceNotFoundError):
            await broker.lookup(name)
        assert broker.plane.bundles.cached(name.namespace) is None
        assert not broker.plane.bundles.has_non_persistent_topic(Bundle.full(name.namespace))

    on_virtual_time(scenario)


def test_the_bundles_of_a_namespace_made_after_it_was_missed_are_found_without_notification():
    """For admin requests: by range, and as a list."""

    async def scenario(cluster):
        await three(cluster)
        _, second, _ = cluster.brokers.values()
        cluster.backend.route_notifications(second.store, lambda notification: None)
        missing = NamespaceName.parse("public/missing")
        with pytest.raises(NamespaceNotFoundError):
            await second.run(second.plane.lookup.lookup_bundle(Bundle.full(missing)))
        made = await cluster.create_namespace(4, missing)
        assert await second.run(second.plane.lookup.lookup_bundle(made.bundles[0], read_only=True)) is None

    on_virtual_time(scenario)


def test_a_broker_that_has_not_joined_answers_not_ready():
    async def scenario(cluster):
        await cluster.create_namespace(1)
        broker = await cluster.add(8081)
        other = type(broker)(cluster, 8082, HashLoadManager)
        with pytest.raises(LookupNotReadyError):
            await other.lookup(topic("t"))

    on_virtual_time(scenario)


def test_without_any_candidate_a_lookup_fails_after_the_hold():
    class NobodyLoadManager(HashLoadManager):
        async def select_broker(self, bundle):
            return None

    async def scenario(cluster):
        await cluster.create_namespace(1)
        broker = await cluster.add(8081, NobodyLoadManager)
        with pytest.raises(BundleNotAcquiredError):
            await broker.lookup(topic("t"))

    on_virtual_time(scenario)


def test_a_read_only_lookup_assigns_nothing():
    async def scenario(cluster):
        made = await cluster.create_namespace(2)
        broker = await cluster.add(8081)
        lookup = broker.plane.lookup
        assert await broker.run(lookup.lookup_bundle(made.bundles[0], read_only=True)) is None
        assert not broker.owned
        await broker.run(lookup.lookup_bundle(made.bundles[0]))
        assert (await broker.run(lookup.lookup_bundle(made.bundles[0], read_only=True))).is_local

    on_virtual_time(scenario)


def test_the_noop_manager_takes_what_it_is_asked_for():
    async def scenario(cluster):
        await cluster.create_namespace(4)
        first = await cluster.add(8081, NoopLoadManager)
        second = await cluster.add(8082, NoopLoadManager)
        assert (await second.lookup(topic("a"))).is_local
        assert (await first.lookup(topic("a"))).broker_id == second.broker_id
        assert Bundle.full(NAMESPACE) not in second.owned

    on_virtual_time(scenario)
