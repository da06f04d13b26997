"""Requests to write by the leader over the admin REST: from other brokers, and from other clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.http_peers import LEADER_WRITES_PATH, SECRET_HEADER, TOO_MANY, HttpPeers
from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH
from pulsar_barycenter.broker.cluster.writing_modes import refuse_direct_writers
from pulsar_barycenter.broker.start_errors import MixedWritersError
from pulsar_barycenter.metadata.leader_writes.leased_values import leased
from pulsar_barycenter.metadata.leader_writes.write_requests import Put, Request, encode
from support.rest_cluster import rest_cluster

MODE = {"leader_only_metadata_writes": "true"}
SESSION = "a" * 32


async def test_a_request_of_somebody_who_does_not_read_the_store_changes_nothing() -> None:
    async with rest_cluster(1, **MODE) as cluster:
        for body in (b"", b"{}", b"[" * 500, encode(Request("", 1, "short", 1, 1, Put("/key", b"")))):
            answer = await cluster.expect(400, "POST", LEADER_WRITES_PATH, body)
            assert answer.reason == "The body is not a metadata write for the leader"
        request = encode(Request("guessed", 1, SESSION, 1, 1, Put("/key", b"")))
        answer = await cluster.expect(200, "POST", LEADER_WRITES_PATH, request)
        assert (answer.json["type"], answer.json["kind"]) == ("failed", "not done")
        assert not await cluster.store.exists("/key")


async def test_a_broker_that_writes_itself_answers_none_and_does_not_start_beside_one_that_does_not() -> None:
    async with rest_cluster(1) as cluster:
        request = encode(Request("guessed", 1, SESSION, 1, 1, Put("/key", b"")))
        await cluster.expect(409, "POST", LEADER_WRITES_PATH, request)
        with pytest.raises(MixedWritersError, match="leaderOnlyMetadataWrites is true here"):
            await refuse_direct_writers(cluster.store, LEADER_PATH, within_s=0)
    async with rest_cluster(1, **MODE) as cluster:
        await refuse_direct_writers(cluster.store, LEADER_PATH, within_s=0)
        with pytest.raises(MixedWritersError, match="the leader at /loadbalance/leader"):
            await refuse_direct_writers(cluster.store, CHANNEL_LEADER_PATH, within_s=0)
        with pytest.raises(MixedWritersError, match="leaderOnlyMetadataWrites is false here"):
            await cluster.add()


@asynccontextmanager
async def held_up(broker: Broker) -> AsyncIterator[None]:
    """The one request that a broker takes of everybody is under way: its body does not come."""
    host, _, port = broker.urls.web_url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = "PUT /admin/v2/tenants/t HTTP/1.1", f"Host: {host}", "Content-Length: 5", "Expect: 100-continue"
        writer.write("\r\n".join((*head, "", "")).encode())
        assert b"100 Continue" in await reader.readline()
        yield
    finally:
        writer.close()


async def test_who_knows_the_secret_has_its_writes_done_while_everybody_else_is_refused() -> None:
    async with rest_cluster(2, **MODE, max_concurrent_http_requests=1) as cluster:
        leader = next(broker for broker in cluster.brokers if broker.leadership.is_leader())
        other = next(broker for broker in cluster.brokers if broker is not leader)
        async with held_up(leader):
            assert (await cluster.call("GET", "/admin/v2/brokers/version", at=leader)).status == 503
            guessed = {SECRET_HEADER: "guessed"}
            assert (await cluster.call("POST", LEADER_WRITES_PATH, b"{}", at=leader, headers=guessed)).status == 503
            assert (await other.env.store.put("/key", b"1")).version == 0


async def test_a_command_of_a_leader_is_answered_while_everybody_else_is_refused() -> None:
    async with rest_cluster(1, max_concurrent_http_requests=1) as cluster, held_up(cluster.brokers[0]):
        path = "/admin/v2/namespaces/public/default/0x00000000_0xffffffff/unload"
        assert (await cluster.call("PUT", path)).status == 503
        assert (await cluster.call("PUT", path, leaderEpoch=10**9)).status != 503


@pytest.mark.parametrize(
    ("status", "reason", "is_unread"),
    [
        (401, "who is it?", True),
        (403, "not you", True),
        (503, f"{TOO_MANY} (maxConcurrentHttpRequests=1). Try again.", True),
        (503, "no server is available to handle this request", False),
        (500, "", False),
        (0, "timeout", False),
    ],
)
async def test_of_what_was_refused_before_it_was_looked_at_it_is_known_that_nothing_was_written(
    status: int, reason: str, is_unread: bool
) -> None:
    class Refusing(AdminClient):
        async def call(self, method: str, web_url: str, path: str, **_options: Any) -> Any:
            raise AdminRequestError(method, web_url + path, status, reason)

    expected = ConnectionRefusedError if is_unread else AdminRequestError
    with pytest.raises(expected):
        await HttpPeers(Refusing()).write_by_leader("http://b:8080", "sesame", b"{}")


async def test_after_an_orderly_stop_nothing_is_left_that_keeps_others_from_starting() -> None:
    async with rest_cluster(2, **MODE) as cluster:
        for broker in cluster.brokers:
            await broker.stop()
        cluster.brokers.clear()
        await cluster.add()


def test_what_is_leased_is_shown_as_it_is_stored() -> None:
    assert leased(SESSION, b"{}") == b'{"leasedTo":"%s"}\n{}' % SESSION.encode()
