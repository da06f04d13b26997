"""Bundles that are split while topics are served, looked up and lost."""

import asyncio
from contextlib import suppress
from itertools import chain

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotAcquiredError,
    BundleNotFoundError,
    LookupFailedError,
)
from pulsar_barycenter.broker.lookup.namespace_service import BundleNotEmptyError
from pulsar_barycenter.broker.namespaces.boundaries import replace_boundaries
from pulsar_barycenter.load.splitting.request import TopicLoad
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidSplitError
from pulsar_barycenter.naming.namespace import NamespaceName
from support.control_cluster import NAMESPACE, SESSION_S, on_virtual_time, topic
from support.owned_bundles import owner_of, record_of, split, three, unload


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
    """The boundaries are written but the answer is lost: the attempt is repeated, found done, and the split is in
    force."""

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
    """The boundaries are in force, but the lost term may not serve: the children are released, not held for ever,
    and open topics of the parent are closed."""

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
        assert [bundle for bundle, _ in owner.topics.closed] == [parent]
        for child in children:
            assert await record_of(cluster, child) is None
        assert (await cluster.follow(topic("t"), owner)).epoch is not None
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_split_that_is_tried_again_after_the_session_was_lost_writes_nothing():
    """Another broker has found the parent whole by then, and serves it."""

    async def scenario(cluster):
        first, second, _ = await three(cluster)
        owner = await owner_of(cluster)
        other = second if owner is first else first
        [parent] = owner.owned
        before, put = await cluster.boundaries(), owner.store.put

        async def unanswered(path, value, **options):
            if not path.startswith("/admin/local-policies/"):
                return await put(path, value, **options)
            owner.store.put = put
            cluster.backend.expire_session(owner.store)
            await cluster.until(lambda: not owner.plane.ownership.is_owned(parent), "the session is lost")
            while not other.owned:
                await asyncio.sleep(0.1)
                with suppress(LookupFailedError):
                    await other.run(other.plane.ownership.acquire(parent, reason="test"))
            await asyncio.sleep(SESSION_S)
            raise StoreUnavailableError(path, "no answer")

        owner.store.put = unanswered
        with pytest.raises(BundleNotAcquiredError):
            await split(owner, parent)
        assert await cluster.boundaries() == before
        assert other.owned == [parent]
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_boundaries_that_change_while_a_bundle_is_being_acquired_leave_it_unserved():
    async def scenario(cluster):
        first, *_ = await three(cluster)
        bundles = await first.run(first.plane.bundles.get(NAMESPACE))
        [parent] = bundles.bundles
        put = first.store.put

        async def split_meanwhile(path, value, **options):
            if path.startswith("/counters/ownership-epoch"):
                first.store.put = put
                await replace_boundaries(cluster.admin, bundles, bundles.split(parent, [0x80000000])[0])
                await asyncio.sleep(1)
            return await put(path, value, **options)

        first.store.put = split_meanwhile
        with pytest.raises(BundleNotFoundError):
            await first.run(first.plane.ownership.acquire(parent, reason="test"))
        await asyncio.sleep(1)
        assert first.owned == []
        assert await record_of(cluster, parent) is None

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
