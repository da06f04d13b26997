"""One id of a request in the logs of all brokers that take part in it."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.broker.rest.audit import WHY
from pulsar_barycenter.cluster_logs.request_ids import HEADER, MAX_REQUEST_ID_CHARACTERS, is_request_id, merge_request
from pulsar_barycenter.protocol import client_commands
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import TYPE, WireClient

BUNDLE = "public/ns/0x00000000_0xffffffff"
TOPIC = "persistent/public/ns/t"
GIVEN = "ticket-4711:a"


def of_request(logged: Iterable[Any], request_id: str) -> set[tuple[str, str]]:
    """Return each event of a request, with the broker that logged it."""
    return {(each["event"], each.get("broker", "")) for each in logged if each.get("request_id") == request_id}


IN_STORE = "org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateMetadataStoreTableViewImpl"
MANAGERS = {
    "locks": {"load_manager_class_name": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"},
    "channel": {
        "load_manager_class_name": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
        "load_manager_service_unit_state_table_view_class_name": IN_STORE,
    },
}


@pytest.mark.parametrize("owned_by", MANAGERS)
async def test_an_unload_is_followed_by_its_id(owned_by: str) -> None:
    """From the broker that is asked by the leader and the old owner to the new owner."""
    cluster = RestCluster()
    try:
        for _ in range(3):
            await cluster.add(configured_load_manager, broker_shutdown_timeout_ms=0, **MANAGERS[owned_by])
        await follow_unload(cluster)
    finally:
        await cluster.close()


async def follow_unload(cluster: RestCluster) -> None:
    leader = next(broker for broker in cluster.brokers if broker.leadership.is_leader())
    await cluster.create_namespace(bundles=1)
    owner = await cluster.owner(TOPIC)
    asked = next(broker for broker in cluster.brokers if broker not in (leader, owner))
    wanted = next(broker for broker in cluster.brokers if broker is not owner)
    with capture_logs(processors=[merge_request]) as logged:
        headers = {HEADER: GIVEN, WHY: "it is %E2%82%AC"}
        query = {"destinationBroker": wanted.broker_id}
        answer = await cluster.expect(
            204, "PUT", f"/admin/v2/namespaces/{BUNDLE}/unload", at=asked, headers=headers, **query
        )
        assert answer.headers[HEADER] == GIVEN
        async with asyncio.timeout(30):
            while await cluster.owner(TOPIC, at=asked) is not wanted:
                await asyncio.sleep(0.005)
    told = of_request(logged, GIVEN)
    assert ("request_passed_on", asked.broker_id) in told
    assert {("administered", owner.broker_id), ("serving_ended", owner.broker_id)} <= told
    assert ("bundle_unloaded", "") in told
    assert told & {("bundle_taken_over", wanted.broker_id), ("serving_started", wanted.broker_id)}
    passed = {broker for event, broker in told if event == "request_passed_on"}
    hands_over = asked.control.way.hands_over
    assert passed == {asked.broker_id} | (set() if hands_over or leader is owner else {leader.broker_id})
    (change,) = (await cluster.expect(200, "GET", "/barycenter/v1/audit", request_id=GIVEN, at=asked)).json["changes"]
    assert change == {
        "at": change["at"],
        "by": owner.broker_id,
        "number": change["number"],
        "principal": "nobody",
        "address": "127.0.0.1",
        "method": "PUT",
        "status": 204,
        "route": "/admin/v2/namespaces/{tenant}/{namespace}/{range}/unload",
        "about": {"tenant": "public", "namespace": "ns", "range": "0x00000000_0xffffffff"},
        "requestId": GIVEN,
        "why": "it is €",
    }


@pytest.mark.parametrize("sent", ["", "two words", "x" * (MAX_REQUEST_ID_CHARACTERS + 1), "ä", "a/b", "a,b"])
async def test_what_is_no_id_gets_another_one(sent: str) -> None:
    async with rest_cluster() as cluster:
        answer = await cluster.expect(200, "GET", "/admin/v2/brokers", headers={HEADER: sent})
        assert answer.headers[HEADER] != sent
        assert is_request_id(answer.headers[HEADER])
        other = await cluster.expect(404, "GET", "/admin/v2/nothing", headers={HEADER: sent})
        assert other.headers[HEADER] not in (sent, answer.headers[HEADER])


async def test_a_request_of_the_binary_protocol_is_found_by_its_connection_and_number() -> None:
    async with rest_cluster() as cluster:
        url = cluster.brokers[0].urls.broker_url
        assert url is not None
        client = await WireClient.connect(int(url.rpartition(":")[2]))
        with capture_logs(processors=[merge_request]) as logged:
            client.write(client_commands.subscribe(4711, 1, "persistent://no/such/topic", "s"))
            await client.expect(TYPE.ERROR)
        client.close()
    (failed,) = [each for each in logged if each.get("request_id", "").endswith("-4711")]
    assert (failed["event"], failed["request_id"]) == ("consumer_refused", f"{failed['connection']}-4711")
    assert failed["address"]
