"""The tasks of a store have one owner: what they raise without being expected is logged, and a close waits for them."""

import asyncio
from typing import Any, cast

from structlog.testing import capture_logs

from pulsar_barycenter.metadata.cache import MetadataCache
from pulsar_barycenter.metadata.grpc_client.server_channel import ServerChannel
from pulsar_barycenter.metadata.grpc_client.server_list import ServerList
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend


class Line:
    """A channel whose end takes a while, or fails."""

    def __init__(self, endpoint: str, error: Exception | None = None) -> None:
        self.endpoint = endpoint
        self.error = error
        self.is_closed = False

    def abandon(self) -> None:
        pass

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.is_closed = True
        if self.error is not None:
            raise self.error


async def test_a_list_of_servers_closes_every_channel_and_logs_one_that_fails() -> None:
    lines: list[Line] = []

    def open_line(endpoint: str) -> ServerChannel:
        lines.append(Line(endpoint, OSError("no way") if endpoint == "b" else None))
        return cast(ServerChannel, lines[-1])

    servers = ServerList("store", ("a", "b"), open_line)
    servers.leave(servers.line)
    with capture_logs() as logs:
        await servers.close()
    assert [line.is_closed for line in lines] == [True, True]
    assert [(line["event"], line["task"]) for line in logs] == [("channel_not_closed", "store close b")]


async def test_a_load_of_a_cache_that_fails_in_the_background_by_a_fault_is_logged() -> None:
    store = MemoryBackend().connect()
    await store.put("/a", b"{}", expected_version=-1)
    cache: MetadataCache[dict[str, Any]] = MetadataCache(store, dict[str, Any])
    assert await cache.get("/a") == {}

    async def broken(path: str) -> None:
        raise ZeroDivisionError(path)

    store.get = broken  # type: ignore[method-assign,assignment]
    with capture_logs() as logs:
        await asyncio.gather(cache.get("/b"), return_exceptions=True)
        await asyncio.sleep(0)
    assert [line["event"] for line in logs] == ["metadata_not_cached"]
    cache.close()
    await store.close()
