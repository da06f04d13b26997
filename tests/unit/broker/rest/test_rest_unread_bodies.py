"""Input after an answer, and compressed input, costs a broker nothing: it is neither inflated nor kept."""

import asyncio
import gzip
import zlib
from collections.abc import Callable

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.bounded_log import LONGEST, MOST_A_SECOND
from pulsar_barycenter.broker.rest.admission import MAX_BODY_BYTES
from support.proofs import asking
from support.rest_cluster import RestCluster, rest_cluster

DEADLINE_S = 60
LOCAL, FOREIGN = "Host: localhost", "Host: evil.example"
PATH = "/admin/v2/tenants/t"
BOMB = gzip.compress(b" " * (8 << 20))


async def answer_to(cluster: RestCluster, head: str, *headers: str, body: bytes = b"") -> tuple[int, str, bytes]:
    """Send a request unchanged, and return status, head and body of the answer once the connection is closed."""
    port = cluster.brokers[0].web.port  # type: ignore[union-attr]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            writer.write("\r\n".join((f"{head} HTTP/1.1", *headers, "", "")).encode() + body)
            answer = await reader.read()
    finally:
        writer.close()
    shown, _, rest = answer.partition(b"\r\n\r\n")
    return int(shown.split()[1]), shown.decode(), rest


@pytest.fixture(autouse=True)
def _nothing_is_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every inflation in this process fail; the sent bodies were compressed before."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a body was inflated")

    monkeypatch.setattr(zlib, "decompressobj", refused)


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate", "br", "zstd", "x-gzip", "identity, gzip"])
async def test_a_compressed_body_is_refused_and_not_inflated(encoding: str) -> None:
    async with rest_cluster() as cluster:
        sent = LOCAL, f"Content-Encoding: {encoding}", f"Content-Length: {len(BOMB)}", "Connection: close"
        status, _, body = await answer_to(cluster, f"PUT {PATH}", *sent, body=BOMB)
        assert status == 415
        assert "Content-Encoding" in msgspec.json.decode(body)["reason"]


async def test_a_body_that_says_it_is_not_compressed_is_read() -> None:
    async with rest_cluster() as cluster:
        body = b'{"allowedClusters":["standalone"]}'
        sent = LOCAL, "Content-Encoding: identity", f"Content-Length: {len(body)}", "Connection: close"
        status, _, _ = await answer_to(cluster, f"PUT {PATH}", *sent, "Content-Type: application/json", body=body)
        assert status == 204


NO_GZIP = b"this is no gzip" * 1_000
Sent = tuple[dict[str, object], int, str, tuple[str, ...]]
REFUSED: dict[str, Callable[[], Sent]] = {
    "foreign host": lambda: ({}, 403, f"PUT {PATH}", (FOREIGN,)),
    "nobody": lambda: (asking(), 401, f"PUT {PATH}", (LOCAL,)),
    "no such path": lambda: ({}, 404, "PUT /no/such/path", (LOCAL,)),
    "no such method": lambda: ({}, 405, f"PATCH {PATH}", (LOCAL,)),
    "impossible name": lambda: ({}, 412, "PUT /admin/v2/tenants/%00", (LOCAL,)),
}


@pytest.mark.parametrize("body", [BOMB, NO_GZIP], ids=["bomb", "no gzip"])
@pytest.mark.parametrize("why", REFUSED)
async def test_what_comes_after_a_refusal_is_not_looked_at(why: str, body: bytes) -> None:
    settings, expected, head, headers = REFUSED[why]()
    async with rest_cluster(**settings) as cluster:
        with capture_logs() as events:
            sent = *headers, "Content-Encoding: gzip", f"Content-Length: {len(body)}", "Connection: close"
            status, _, _ = await answer_to(cluster, head, *sent, body=body)
        assert status == expected
        assert [event for event in events if event["log_level"] in ("error", "critical")] == []


@pytest.mark.parametrize(
    ("head", "headers", "status"),
    [
        (f"PUT {PATH}", (FOREIGN, "Content-Length: 1000"), 403),
        (f"PUT {PATH}", (LOCAL, f"Content-Length: {MAX_BODY_BYTES + 2}"), 413),
        ("PUT /no/such/path", (LOCAL, "Transfer-Encoding: chunked"), 404),
    ],
)
async def test_a_refusal_with_an_unread_body_closes_its_connection(
    head: str, headers: tuple[str, ...], status: int
) -> None:
    """The rest of the body does not come; 413 is answered once more has come than is allowed."""
    async with rest_cluster() as cluster:
        body = b" " * (MAX_BODY_BYTES + 1) if status == 413 else b"1"
        answered, shown, _ = await answer_to(cluster, head, *headers, body=body)
        assert answered == status
        assert "connection: close" in shown.lower()


async def test_a_refusal_with_a_whole_body_keeps_its_connection() -> None:
    async with rest_cluster() as cluster:
        port = cluster.brokers[0].web.port  # type: ignore[union-attr]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(DEADLINE_S):
            for _ in range(2):
                writer.write(f"PUT {PATH} HTTP/1.1\r\n{FOREIGN}\r\nContent-Length: 3\r\n\r\n[1]".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 403 ")
                length = int(head.lower().split(b"content-length: ")[1].split()[0])
                await reader.readexactly(length)
        writer.close()


async def test_bodies_that_break_off_after_a_refusal_are_a_few_lines_of_the_log() -> None:
    """The bytes behind the head are no chunks. Lines of one event are bounded, and so is each."""
    async with rest_cluster() as cluster:
        with capture_logs() as events:
            for _ in range(3 * MOST_A_SECOND):
                sent = FOREIGN, "Transfer-Encoding: chunked"
                status, _, _ = await answer_to(cluster, f"PUT {PATH}", *sent, body=b"5\r\nhello\r\nno size\r\n")
                assert status in (400, 403)
        told = [event for event in events if event["event"] == "malformed_request"]
        assert {event["log_level"] for event in told} <= {"info"}
        assert all(len(event["reason"]) <= LONGEST and "\n" not in event["reason"] for event in told)
        assert [event for event in events if event["log_level"] in ("warning", "error", "critical")] == []
