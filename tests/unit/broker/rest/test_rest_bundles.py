"""The owner unloads and splits its bundles, whichever broker receives the request."""

import asyncio

import msgspec
import pytest

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.http_peers import HttpPeers
from pulsar_barycenter.broker.load_manager.noop_load_manager import NoopLoadManager
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.metadata.coordination.epochs import MAX_EPOCH
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from support.rest_cluster import RestCluster, rest_cluster

NAMESPACES = "/admin/v2/namespaces"
TOPIC = "persistent/public/ns/t"


async def bundle_of(cluster: RestCluster, topic: str = TOPIC) -> Bundle:
    answer = await cluster.expect(200, "GET", f"/lookup/v2/topic/{topic}/bundle")
    return Bundle.parse(f"public/ns/{answer.body.decode()}")


def others(cluster: RestCluster, owner: Broker) -> list[Broker]:
    return [broker for broker in cluster.brokers if broker is not owner]


async def test_a_bundle_is_unloaded_by_its_owner_and_by_nobody_if_unowned() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace()
        bundle = await bundle_of(cluster)
        await cluster.expect(204, "PUT", f"{NAMESPACES}/{bundle}/unload", follow=False)
        owner = await cluster.owner(TOPIC)
        assert owner.ownership.is_owned(bundle)
        other = others(cluster, owner)[0]
        answer = await cluster.expect(307, "PUT", f"{NAMESPACES}/{bundle}/unload", at=other, follow=False, x="a b")
        leads = "true" if other.leadership.is_leader() else "false"
        assert answer.location == f"{owner.urls.web_url}{NAMESPACES}/{bundle}/unload?x=a+b&authoritative={leads}"
        await cluster.expect(204, "PUT", f"{NAMESPACES}/{bundle}/unload", at=other)
        assert not owner.ownership.is_owned(bundle)


async def test_an_unloaded_bundle_goes_to_the_broker_that_was_named() -> None:
    """The request passes the leader, which remembers the destination, and then the owner."""
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace()
        bundle = await bundle_of(cluster)
        for _ in range(3):
            owner = await cluster.owner(TOPIC)
            target = others(cluster, owner)[0]
            for asked in cluster.brokers:
                destination = f"http://{target.broker_id}" if asked is owner else target.broker_id
                await cluster.expect(
                    204, "PUT", f"{NAMESPACES}/{bundle}/unload", at=asked, destinationBroker=destination
                )
                assert await cluster.owner(TOPIC, at=asked) is target


async def test_an_unload_that_makes_no_sense_is_refused() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        bundle = await bundle_of(cluster)
        answer = await cluster.expect(412, "PUT", f"{NAMESPACES}/{bundle}/unload", destinationBroker="nobody:1")
        assert "inactive destination broker" in answer.reason
        for range_text in ("0x00000000_0x00000001", "0x00000000_0xffffffff", "nonsense"):
            await cluster.expect(412, "PUT", f"{NAMESPACES}/public/ns/{range_text}/unload")
            await cluster.expect(412, "PUT", f"{NAMESPACES}/public/ns/{range_text}/split")
        await cluster.expect(404, "PUT", f"{NAMESPACES}/public/missing/0x00000000_0xffffffff/unload")
        await cluster.expect(404, "PUT", f"{NAMESPACES}/public/missing/unload")


async def test_a_whole_namespace_is_unloaded_from_all_its_owners() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace(bundles=8)
        for index in range(30):
            await cluster.owner(f"persistent/public/ns/t{index}")
        held = [bundle for broker in cluster.brokers for bundle in broker.ownership.held_bundles()]
        assert sum(str(bundle.namespace) == "public/ns" for bundle in held) > 4
        await cluster.expect(204, "PUT", f"{NAMESPACES}/public/ns/unload")
        held = [bundle for broker in cluster.brokers for bundle in broker.ownership.held_bundles()]
        assert not [bundle for bundle in held if str(bundle.namespace) == "public/ns"]


async def test_a_bundle_is_split_on_its_owner_wherever_it_is_asked_for() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace(bundles=1)
        owner = await cluster.owner(TOPIC)
        await cluster.expect(
            204, "PUT", f"{NAMESPACES}/public/ns/0x00000000_0xffffffff/split", at=others(cluster, owner)[0]
        )
        for broker in cluster.brokers:
            answer = await cluster.expect(200, "GET", f"{NAMESPACES}/public/ns/bundles", at=broker)
            assert answer.json == {"boundaries": ["0x00000000", "0x7fffffff", "0xffffffff"], "numBundles": 2}
        assert await cluster.owner(TOPIC) is owner
        policies = (await cluster.expect(200, "GET", f"{NAMESPACES}/public/ns")).json
        assert policies["bundles"]["numBundles"] == 2


async def test_an_unowned_bundle_is_assigned_and_then_split() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace(bundles=1)
        follower = next(broker for broker in cluster.brokers if not broker.leadership.is_leader())
        await cluster.expect(204, "PUT", f"{NAMESPACES}/public/ns/0x0_0xffffffff/split", at=follower, unload="true")
        assert (await cluster.expect(200, "GET", f"{NAMESPACES}/public/ns/bundles")).json["numBundles"] == 2


async def test_a_split_takes_algorithms_and_positions() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace(bundles=1)
        split = f"{NAMESPACES}/public/ns/0x00000000_0xffffffff/split"
        answer = await cluster.expect(412, "PUT", split, splitAlgorithmName="halves")
        assert "range_equally_divide" in answer.reason
        await cluster.expect(412, "PUT", split, splitAlgorithmName="specified_positions_divide")
        await cluster.expect(412, "PUT", split, {"not": "positions"}, splitAlgorithmName="specified_positions_divide")
        await cluster.expect(204, "PUT", split, splitAlgorithmName="topic_count_equally_divide")
        assert (await cluster.expect(200, "GET", f"{NAMESPACES}/public/ns/bundles")).json["numBundles"] == 1
        for name in ("a", "b", "c"):
            await cluster.expect(204, "PUT", f"/admin/v2/persistent/public/ns/{name}")
        await cluster.expect(204, "PUT", split, [1 << 30, 1 << 31], splitAlgorithmName="specified_positions_divide")
        assert (await cluster.expect(200, "GET", f"{NAMESPACES}/public/ns/bundles")).json["boundaries"] == [
            "0x00000000",
            "0x40000000",
            "0x80000000",
            "0xffffffff",
        ]


async def test_the_largest_and_the_hottest_bundle_are_found() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace(bundles=4)
        for symbol in ("LARGEST", "HOT"):
            assert "not found" in (await cluster.expect(404, "PUT", f"{NAMESPACES}/public/ns/{symbol}/split")).reason
        bundle = await bundle_of(cluster)
        await cluster.expect(204, "PUT", f"/admin/v2/{TOPIC}")
        await cluster.expect(204, "PUT", f"{NAMESPACES}/public/ns/LARGEST/split")
        boundaries = (await cluster.expect(200, "GET", f"{NAMESPACES}/public/ns/bundles")).json["boundaries"]
        assert len(boundaries) == 6
        assert f"0x{bundle.range.lower + bundle.range.width // 2:08x}" in boundaries
        hot = Bundle.parse(f"public/ns/{boundaries[-2]}_{boundaries[-1]}")
        report = LocalBrokerData(last_stats={str(hot): NamespaceBundleStats(msg_throughput_in=1e6)})
        await cluster.store.put("/loadbalance/brokers/somewhere:8080", msgspec.json.encode(report))
        await cluster.expect(204, "PUT", f"{NAMESPACES}/public/ns/HOT/split")
        after = (await cluster.expect(200, "GET", f"{NAMESPACES}/public/ns/bundles")).json["boundaries"]
        assert f"0x{hot.range.lower + hot.range.width // 2:08x}" in after


async def test_a_bundle_with_topics_is_given_up_by_force_alone() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"/admin/v2/{TOPIC}")
        bundle = await bundle_of(cluster)
        answer = await cluster.expect(409, "DELETE", f"{NAMESPACES}/{bundle}")
        assert answer.reason.startswith("Cannot delete non empty bundle")
        await cluster.expect(204, "DELETE", f"{NAMESPACES}/{bundle}", force="true")


async def test_hash_positions_of_topics_are_shown() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace(bundles=1)
        await cluster.expect(204, "PUT", f"/admin/v2/{TOPIC}")
        answer = await cluster.expect(200, "GET", f"{NAMESPACES}/public/ns/0x0_0xffffffff/topicHashPositions")
        assert answer.json == {
            "namespace": "public/ns",
            "bundle": "0x00000000_0xffffffff",
            "topicHashPositions": {"persistent://public/ns/t": TopicName.parse("public/ns/t").hash32},
        }


async def test_a_leader_commands_its_peers_over_http() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace(bundles=2)
        bundle = await bundle_of(cluster)
        owner = await cluster.owner(TOPIC)
        other = others(cluster, owner)[0]
        peers = HttpPeers()
        web_url = str(other.urls.web_url)
        epoch = next(b for b in cluster.brokers if b.leadership.is_leader()).leadership.epoch().number
        await peers.unload_bundle(web_url, bundle, destination=other.broker_id, epoch=epoch)
        assert await cluster.owner(TOPIC) is other
        await peers.split_bundle(web_url, bundle, algorithm="range_equally_divide", unload=False, epoch=epoch)
        with pytest.raises(AdminRequestError) as caught:
            await peers.unload_bundle(web_url, bundle, destination=None, epoch=None)
        assert caught.value.status == 412
        await peers.close()
        with pytest.raises(AdminRequestError) as closed:
            await peers.unload_bundle(web_url, bundle, destination=None, epoch=None)
        assert closed.value.status == 0


async def test_commands_of_a_former_leader_are_refused_over_http_and_change_nothing() -> None:
    """Whichever broker is asked, and though it bears the number of a term that there was."""
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace(bundles=2)
        bundle = await bundle_of(cluster)
        owner = await cluster.owner(TOPIC)
        leader = next(broker for broker in cluster.brokers if broker.leadership.is_leader())
        former = leader.leadership.epoch().number
        await leader.leadership.resign()
        successor = others(cluster, leader)[0]
        async with asyncio.timeout(30):
            while not successor.leadership.is_leader():
                await successor.leadership.wait_change(1)
        peers = HttpPeers()
        for asked in cluster.brokers:
            for destination in (None, others(cluster, owner)[0].broker_id):
                with pytest.raises(
                    AdminRequestError, match=f"leader epoch {former}.*current epoch is {former + 1}"
                ) as caught:
                    await peers.unload_bundle(str(asked.urls.web_url), bundle, destination=destination, epoch=former)
                assert caught.value.status == 412
            with pytest.raises(AdminRequestError) as caught:
                await peers.split_bundle(
                    str(asked.urls.web_url), bundle, algorithm="range_equally_divide", unload=True, epoch=former
                )
            assert caught.value.status == 412
        assert owner.ownership.is_owned(bundle)
        assert all(broker.namespaces._affinities.get(bundle) is None for broker in cluster.brokers)
        assert len((await cluster.expect(200, "GET", f"{NAMESPACES}/public/ns/bundles")).json["boundaries"]) == 3
        assert await cluster.owner(TOPIC) is owner
        await peers.split_bundle(
            str(owner.urls.web_url), bundle, algorithm="range_equally_divide", unload=False, epoch=former + 1
        )
        await peers.close()


async def test_a_leader_epoch_that_is_no_number_is_refused() -> None:
    async with rest_cluster(1) as cluster:
        await cluster.create_namespace(bundles=1)
        bundle = await bundle_of(cluster)
        for text in ("-1", "one", str(MAX_EPOCH + 1)):
            for command in ("unload", "split"):
                answer = await cluster.expect(400, "PUT", f"{NAMESPACES}/{bundle}/{command}", leaderEpoch=text)
                assert "leaderEpoch must be a whole number" in answer.reason


async def test_without_a_central_load_manager_the_destination_is_remembered_where_it_is_asked_for() -> None:
    cluster = RestCluster()
    try:
        for _ in range(2):
            await cluster.add(NoopLoadManager, broker_shutdown_timeout_ms=0)
        await cluster.create_namespace(bundles=1)
        owner = await cluster.owner(TOPIC)
        bundle = await bundle_of(cluster)
        await cluster.expect(
            204, "PUT", f"{NAMESPACES}/{bundle}/unload", at=owner, destinationBroker=others(cluster, owner)[0].broker_id
        )
        assert await cluster.owner(TOPIC, at=owner) is not owner
    finally:
        await cluster.close()


async def test_lookups_during_unloads_are_answered_with_an_owner() -> None:
    async with rest_cluster(3) as cluster:
        await cluster.create_namespace(bundles=1)
        bundle = await bundle_of(cluster)

        async def look_up(times: int) -> None:
            for index in range(times):
                await cluster.expect(200, "GET", f"/lookup/v2/topic/{TOPIC}", at=cluster.brokers[index % 3])

        async def unload(times: int) -> None:
            for index in range(times):
                await cluster.expect(204, "PUT", f"{NAMESPACES}/{bundle}/unload", at=cluster.brokers[index % 3])

        await asyncio.gather(look_up(30), look_up(30), unload(10))
