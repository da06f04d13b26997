"""Properties of a subscription: given when it is created, shown, replaced, and kept with its cursor."""

from typing import Any

import pytest

from pulsar_barycenter.broker.wire.bounds import SUBSCRIPTION_PROPERTIES_LENGTH
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

TOPIC = "persistent/public/ns/t"
PATH = f"/admin/v2/{TOPIC}"
SUB = f"{PATH}/subscription/a"
LATEST = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}
EARLIEST = {"ledgerId": -1, "entryId": -1}


async def client_of(cluster: RestCluster) -> WireClient:
    """Return a client that is connected and has a topic looked up, so that the broker owns it."""
    await cluster.owner(TOPIC)
    await cluster.owner(f"non-{TOPIC}")
    return await WireClient.connect(int(str(cluster.brokers[0].urls.broker_url).rpartition(":")[2]))


async def stats_of(cluster: RestCluster, name: str = "a") -> Any:
    return (await cluster.expect(200, "GET", f"{PATH}/stats")).json["subscriptions"][name]


async def test_properties_are_kept_and_shown_and_survive_an_unload() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", SUB, {**LATEST, "properties": {"team": "x"}})
        for _ in range(2):
            assert (await stats_of(cluster))["subscriptionProperties"] == {"team": "x"}
            assert (await cluster.expect(200, "GET", f"{SUB}/properties")).json == {"team": "x"}
            internal = (await cluster.expect(200, "GET", f"{PATH}/internalStats")).json
            assert internal["cursors"]["a"]["properties"] == {}  # of numbers alone: Pulsar's tool hangs at others
            await cluster.expect(204, "PUT", f"{PATH}/unload")


async def test_properties_survive_a_split_and_another_owner() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace(bundles=1)
        await cluster.expect(204, "PUT", SUB, {**LATEST, "properties": {"team": "x"}})
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ns/0x00000000_0xffffffff/split", unload="true")
        assert (await cluster.expect(200, "GET", f"{SUB}/properties")).json == {"team": "x"}
        owner = await cluster.owner(TOPIC)
        other = next(broker for broker in cluster.brokers if broker is not owner)
        bundle = (await cluster.expect(200, "GET", f"/lookup/v2/topic/{TOPIC}/bundle")).body.decode().strip('"')
        await cluster.expect(
            204, "PUT", f"/admin/v2/namespaces/public/ns/{bundle}/unload", destinationBroker=other.broker_id
        )
        assert (await cluster.expect(200, "GET", f"{SUB}/properties")).json == {"team": "x"}


async def test_properties_are_replaced_and_cleared() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", SUB, {**LATEST, "properties": {"team": "x", "old": "1"}})
        await cluster.expect(204, "PUT", f"{SUB}/properties", {"team": "y"})
        await cluster.expect(204, "PUT", f"{PATH}/unload")
        assert (await stats_of(cluster))["subscriptionProperties"] == {"team": "y"}
        await cluster.expect(204, "PUT", f"{SUB}/properties", {})
        assert (await cluster.expect(200, "GET", f"{SUB}/properties")).json == {}


async def test_properties_of_a_partitioned_topic_are_on_every_partition() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        await cluster.expect(204, "PUT", f"{PATH}/partitions", 3)
        await cluster.expect(204, "PUT", SUB, {**LATEST, "properties": {"team": "x"}})
        assert (await cluster.expect(200, "GET", f"{SUB}/properties")).json == {"team": "x"}
        await cluster.expect(204, "PUT", f"{SUB}/properties", {"team": "y"})
        for index in range(3):
            part = f"{PATH}-partition-{index}/subscription/a/properties"
            assert (await cluster.expect(200, "GET", part)).json == {"team": "y"}
        shown = (await cluster.expect(200, "GET", f"{PATH}/partitioned-stats")).json
        assert shown["subscriptions"]["a"]["subscriptionProperties"] == {"team": "y"}
        await cluster.expect(404, "GET", f"{PATH}/subscription/nobody/properties")

        await cluster.expect(204, "DELETE", f"{PATH}-partition-2/subscription/a")
        await cluster.expect(404, "PUT", f"{SUB}/properties", {"team": "z"})
        for index in range(2):
            part = f"{PATH}-partition-{index}/subscription/a/properties"
            assert (await cluster.expect(200, "GET", part)).json == {"team": "y"}, "refused, and nothing changed"


@pytest.mark.parametrize(
    ("body", "backlog"),
    [
        ({"properties": {"team": "x"}}, 3),
        ({"entryId": 0}, 3),
        ({}, 3),
        (EARLIEST, 3),
        ({"ledgerId": -(2**63), "entryId": -(2**63)}, 3),  # the lowest numbers of Java
        ({**EARLIEST, "partitionIndex": -1, "batchIndex": -1, "excluded": False, "properties": None}, 3),
        ({**LATEST, "partitionIndex": 7}, 0),
        ({**LATEST, "partitionedIndex": -1}, 0),  # of Pulsar's Go client
        ("latest", 0),
        (None, 0),
    ],
)
async def test_a_position_is_as_pulsar_reads_it(body: Any, backlog: int) -> None:
    """What lacks is 0, as in Java: a body without `ledgerId` is the first entry."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        client = await client_of(cluster)
        await client.produce("persistent://public/ns/t")
        await client.send_all(3)
        await cluster.expect(204, "PUT", SUB, body)
        assert (await stats_of(cluster))["msgBacklog"] == backlog


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({**LATEST, "batchIndex": 3}, "batchIndex is 3"),
        ({**LATEST, "excluded": True}, "excluded is true"),
        ({**LATEST, "isExcluded": True}, "excluded is true"),
        ({**LATEST, "replicated": True}, "replicated = true"),
        ({**LATEST, "property": {"team": "x"}}, "property = "),
        ({**LATEST, "properties": {"team": 7}}, "properties"),
        ({**LATEST, "properties": {f"k{n}": "x" * 8_000 for n in range(3)}},
         f"{SUBSCRIPTION_PROPERTIES_LENGTH} are allowed"),
    ],
)  # fmt: skip
async def test_what_is_not_done_is_refused_by_name(body: Any, named: str) -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for partitions in (0, 2):
            if partitions:
                await cluster.expect(204, "PUT", f"{PATH}/partitions", partitions)
            assert named in (await cluster.expect(400, "PUT", SUB, body)).reason


async def test_a_replicated_subscription_is_refused() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        assert "replicated" in (await cluster.expect(400, "PUT", SUB, LATEST, replicated="true")).reason
        await cluster.expect(204, "PUT", SUB, LATEST, replicated="false")


async def test_properties_of_what_is_not_there_are_refused() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        await cluster.expect(404, "PUT", f"{SUB}/properties", {"team": "x"})
        await cluster.expect(204, "PUT", SUB, LATEST)
        await cluster.expect(404, "GET", f"{PATH}/subscription/nobody/properties")
        long = {f"k{n}": "x" * 8_000 for n in range(3)}
        assert "are allowed" in (await cluster.expect(400, "PUT", f"{SUB}/properties", long)).reason
        assert (await cluster.expect(200, "GET", f"{SUB}/properties")).json == {}
        nothing_stored = "/admin/v2/non-persistent/public/ns/t/subscription/a/properties"
        await cluster.expect(405, "GET", nothing_stored)


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
async def test_properties_of_subscribe_are_shown(domain: str) -> None:
    """Those that the first consumer brought count, also if the subscription was there without any."""
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        if domain == "persistent":
            await cluster.expect(204, "PUT", SUB, LATEST)
        client = await client_of(cluster)
        for number, team in enumerate(["x", "y"]):
            options = {"sub_type": api.CommandSubscribe.Shared, "subscription_properties": {"team": team}}
            await client.subscribe(f"{domain}://public/ns/t", "a", number, **options)
        shown = (await cluster.expect(200, "GET", f"/admin/v2/{domain}/public/ns/t/stats")).json
        assert shown["subscriptions"]["a"]["subscriptionProperties"] == {"team": "x"}
        if domain == "persistent":
            await cluster.expect(204, "PUT", f"{PATH}/unload")
            assert (await stats_of(cluster))["subscriptionProperties"] == {"team": "x"}


async def test_partitions_that_are_added_get_the_properties_of_each_subscription() -> None:
    """As Pulsar's `createSubscriptions`, which takes them of partition 0."""
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace(bundles=4)
        await cluster.expect(204, "PUT", f"{PATH}/partitions", 2)
        await cluster.expect(204, "PUT", SUB, {**LATEST, "properties": {"team": "x", "blank": ""}})
        await cluster.expect(204, "PUT", f"{PATH}/subscription/b", EARLIEST)
        await cluster.expect(204, "POST", f"{PATH}/partitions", 4)
        for index in range(4):
            part = f"{PATH}-partition-{index}/subscription"
            assert (await cluster.expect(200, "GET", f"{part}/a/properties")).json == {"team": "x", "blank": ""}
            assert (await cluster.expect(200, "GET", f"{part}/b/properties")).json == {}
