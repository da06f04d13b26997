"""HEAD is answered without a body on every route, so the next answer of the connection begins where it is expected."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

import pulsar_barycenter
from pulsar_barycenter.admin.routes.table import ROUTES
from support.rest_cluster import RestCluster, rest_cluster

DEADLINE_S = 60
NAMED = {
    "tenant": "public",
    "namespace": "ns",
    "topic": "t",
    "subscription": "s",
    "domain": "persistent",
    "range": "0x00000000_0xffffffff",
    "cluster": "standalone",
    "role": "carol",
    "name": "maxTenants",
    "value": "9",
    "broker": "b:1",
    "policy": "p",
    "group": "g",
    "allocator": "default",
    "file": "main.js",
    "ledger": "1",
    "entry": "1",
    "position": "1",
    "timestamp": "1",
    "seconds": "1",
    "count": "1",
    "version": "0",
    "key": "k",
    "bookie": "b:1",
    "scalable": "segments",
    "offload": "offloadPolicies",
    "functions": "functions",
    "generation": "v3",
    "rest": "/none",
}
PATHS = sorted({row.path for row in ROUTES})
LAST = b"GET /status.html HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def bytes_of(cluster: RestCluster, requests: Sequence[bytes], *, pipelined: bool) -> tuple[list[bytes], bytes]:
    """Send requests on one connection and then LAST; return the heads of their answers, and all that follows LAST's.

    Pipelined requests are sent at once; others each after the head of the answer before.
    """
    port = cluster.brokers[0].web.port  # type: ignore[union-attr]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            heads = []
            if pipelined:
                writer.write(b"".join((*requests, LAST)))
            for request in (*requests, LAST):
                if not pipelined:
                    writer.write(request)
                heads.append(await reader.readuntil(b"\r\n\r\n"))
            body = await reader.readexactly(2)
            writer.write_eof()
            return heads, body + await reader.read()
    finally:
        writer.close()


def head_of(path: str) -> bytes:
    return f"HEAD {path.format(**NAMED)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


@pytest.mark.parametrize("pipelined", [False, True], ids=["one after the other", "pipelined"])
async def test_no_route_answers_head_with_a_body(pipelined: bool) -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace("public/ns", bundles=1)
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/t")
        for path in PATHS:
            heads, rest = await bytes_of(cluster, [head_of(path)] * 3, pipelined=pipelined)
            assert all(head.startswith(b"HTTP/1.1 ") for head in heads), f"{path}: {heads}"
            assert heads[-1].startswith(b"HTTP/1.1 200 OK"), f"{path}: {heads}"
            assert rest == b"OK", f"{path}: {rest[:200]!r}"


@pytest.mark.parametrize("path", ["/metrics", "/metrics/", "/admin/v2/broker-stats/topics"])
async def test_head_of_a_streamed_route_has_the_headers_of_get(path: str) -> None:
    async with rest_cluster() as cluster:
        got = await cluster.expect(200, "GET", path)
        (head, _), _ = await bytes_of(cluster, [head_of(path)], pipelined=False)
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        assert fields[b"Content-Type"].decode() == got.headers["Content-Type"]
        assert b"Content-Length" not in fields, "how long it would be is not known before it is made"


def test_streams_are_made_in_one_place() -> None:
    source = Path(pulsar_barycenter.__file__).parent
    assert [path.name for path in source.rglob("*.py") if "StreamResponse(" in path.read_text()] == ["streamed.py"]
