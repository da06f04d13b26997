"""HTTP connections: allowed hosts, the time for a request to arrive, the number of connections, early disconnects."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from pulsar_barycenter.broker.rest.admission import hosts_of
from pulsar_barycenter.config.broker_config import BrokerConfig
from support.rest_cluster import RestCluster, rest_cluster

DEADLINE_S = 30
SHORT_S = 0.2


@asynccontextmanager
async def connected(cluster: RestCluster) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.brokers[0].web.port)  # type: ignore[union-attr]
    try:
        yield reader, writer
    finally:
        writer.close()


async def ask(cluster: RestCluster, method: str, path: str, *headers: str, body: bytes = b"") -> tuple[int, str]:
    """Send a request with exactly these headers, and return status and the rest of the answer."""
    async with connected(cluster) as (reader, writer), asyncio.timeout(DEADLINE_S):
        lines = [f"{method} {path} HTTP/1.1", *headers, "Connection: close", f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        answer = (await reader.read()).decode()
    return int(answer.split()[1]), answer


# ---- who may ask ----


FOREIGN = [
    ["Host: evil.example"],
    ["Host: evil.example:8080"],
    ["Host: 127.0.0.1.evil.example"],
    ["Host: 127.0.0.1@evil.example"],
    ["Host: 127.0.0.1", "Origin: http://evil.example"],
    ["Host: 127.0.0.1", "Origin: null"],
    ["Host: 127.0.0.1", "Origin: http://127.0.0.1:3000"],
    ["Host: 127.0.0.1", "Origin: http://127.0.0.1", "Sec-Fetch-Site: cross-site"],
    ["Host: 127.0.0.1", "Sec-Fetch-Site: cross-site", "Content-Type: text/plain"],
    ["Host: [::1", "Origin: http://evil.example"],
]

OWN = [
    ["Host: 127.0.0.1:8080"],
    ["Host: LOCALHOST"],
    ["Host: localhost:99"],
    ["Host: [::1]:8080"],
    ["Host: 10.1.2.3"],
    ["Host: Outside.example."],
    ["Host: balancer.example"],
    ["Host: 127.0.0.1:8080", "Origin: http://127.0.0.1:8080", "Sec-Fetch-Site: same-origin"],
    ["Host: balancer.example", "Origin: https://balancer.example"],
    ["Host: localhost:8080", "Sec-Fetch-Site: none"],
]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/admin/v2/brokers/shutdown"),
        ("POST", "/admin/v2/brokers/configuration/maxTenants/7"),
        ("GET", "/admin/v2/clusters"),
        ("GET", "/no/such/path"),
    ],
)
async def test_a_web_page_of_somebody_else_is_refused(method: str, path: str) -> None:
    async with rest_cluster() as cluster:
        for headers in FOREIGN:
            status, answer = await ask(cluster, method, path, *headers)
            assert status in (400, 403), answer
            assert "reason" in answer
        assert cluster.brokers[0].ready
        assert cluster.brokers[0].config.current.max_tenants == 0


async def test_programs_and_the_brokers_own_pages_are_served() -> None:
    async with rest_cluster(
        advertised_listeners="out:pulsar://outside.example:6650", web_service_allowed_hosts=("balancer.example",)
    ) as cluster:
        for headers in OWN:
            assert (await ask(cluster, "GET", "/admin/v2/clusters", *headers))[0] == 200, headers


def test_the_advertised_address_and_the_address_bound_to_are_known() -> None:
    config = replace(BrokerConfig(), bind_address="Host-1.example", advertised_address="b1.example")
    assert hosts_of(config) == {"host-1.example", "b1.example"}
    assert hosts_of(replace(BrokerConfig(), bind_address="0.0.0.0")) == {socket.gethostname().lower(), "0.0.0.0"}


async def test_any_host_is_known_if_the_configuration_says_so() -> None:
    async with rest_cluster(web_service_allowed_hosts=("*",)) as cluster:
        assert (await ask(cluster, "GET", "/admin/v2/clusters", "Host: any.example"))[0] == 200
        assert (await ask(cluster, "GET", "/admin/v2/clusters", "Host: a.example", "Origin: http://b.example"))[
            0
        ] == 403


# ---- how long a request may take ----


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /admin",
        b"GET /admin/v2/clusters HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half",
        b"GET /admin/v2/clusters HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"PUT /admin/v2/tenants/t HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
        b"GET /admin/v2/tenants HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
    ],
)
async def test_a_connection_is_closed_when_no_whole_request_comes(sent: bytes) -> None:
    async with (
        rest_cluster(web_service_request_timeout_seconds=SHORT_S) as cluster,
        connected(cluster) as (reader, writer),
        asyncio.timeout(DEADLINE_S),
    ):
        writer.write(sent)
        answer = await reader.read()
        if b"Content-Length: 100" in sent:
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"did not arrive" in answer


async def test_a_header_that_drips_does_not_hold_its_connection() -> None:
    async with (
        rest_cluster(web_service_request_timeout_seconds=SHORT_S) as cluster,
        connected(cluster) as (reader, writer),
        asyncio.timeout(DEADLINE_S),
    ):
        ended = asyncio.create_task(reader.read())
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait([ended], timeout=SHORT_S / 10)


# ---- how many ----


async def test_one_connection_too_many_is_told_so_and_closed() -> None:
    async with rest_cluster(max_http_server_connections=3, load_balancer_enabled=False) as cluster:
        held = [connected(cluster) for _ in range(3)]
        for each in held:
            reader, writer = await each.__aenter__()
            writer.write(b"GET /admin/v2/clusters HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"]")
        async with connected(cluster) as (reader, _), asyncio.timeout(DEADLINE_S):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"maxHttpServerConnections" in answer
        await held[0].__aexit__(None, None, None)
        async with asyncio.timeout(DEADLINE_S):
            while (await ask(cluster, "GET", "/admin/v2/clusters", "Host: localhost"))[0] == 503:
                await asyncio.sleep(0)
        for each in held[1:]:
            await each.__aexit__(None, None, None)


# ---- who leaves early ----


@pytest.mark.parametrize(
    "sent",
    [
        b"PUT /admin/v2/tenants/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
        b"PUT /admin/v2/tenants/t HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"GET /admin/v2/brokers/leaderBroker HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
        b"GET /admin/v2/broker-stats/topics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
async def test_a_client_that_leaves_in_mid_request_is_no_error(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with rest_cluster() as cluster:
        web = cluster.brokers[0].web
        with capture_logs() as events:
            async with connected(cluster) as (_, writer):
                writer.write(sent)
                await writer.drain()
                writer.transport.abort()
            async with asyncio.timeout(DEADLINE_S):
                while web.connections:  # type: ignore[union-attr]
                    await asyncio.sleep(0)
        assert [event for event in events if event["log_level"] in ("error", "warning")] == []
    assert [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []


async def test_what_is_no_request_is_answered_and_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with rest_cluster() as cluster:
        for sent in (
            b"\x00\xff\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost\r\n\r\n",
            b"X" * 20_000 + b"\r\n\r\n",
        ):
            async with connected(cluster) as (reader, writer), asyncio.timeout(DEADLINE_S):
                writer.write(sent + b"\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.")
    assert [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []


def test_the_defaults_are_those_of_the_documentation() -> None:
    config = BrokerConfig()
    assert (config.web_service_request_timeout_seconds, config.max_http_server_connections) == (30.0, 2048)


async def test_requests_beyond_those_that_may_be_under_way_are_told_to_try_again() -> None:
    """A body that does not come keeps its request under way."""
    async with rest_cluster(max_concurrent_http_requests=1) as cluster:
        async with connected(cluster) as (reader, writer):
            head = "PUT /admin/v2/tenants/t HTTP/1.1", "Host: 127.0.0.1", "Content-Length: 5", "Expect: 100-continue"
            writer.write("\r\n".join((*head, "", "")).encode())
            async with asyncio.timeout(DEADLINE_S):
                assert b"100 Continue" in await reader.readline(), "it is under way"
            refused = await cluster.expect(503, "GET", "/admin/v2/brokers/version")
            assert "maxConcurrentHttpRequests=1" in refused.reason
        async with asyncio.timeout(DEADLINE_S):
            while (await cluster.call("GET", "/admin/v2/brokers/version")).status != 200:
                await asyncio.sleep(0.005)
