"""Brokers that refuse connections though the metadata store still names them as owners or leaders.

A process that was killed keeps its locks until its session ends. A client that is sent there meanwhile is refused, and
doubles its back-off with each attempt, up to a minute. So a lookup whose answer leads to such a broker is held instead.

Whether a broker refuses connections is asked in the background, by a connection without a word, for brokers to which
lookups lead: once in BELIEVED_S, and once in ASK_AGAIN_S while it refuses. Only a refusal counts. Silence does not, for
the way from here may be cut where that of the client is not. And a refusal counts for `longest_s` at most: no session
outlives its process by more, so the broker lives, and is reached in another way than from here.

Pulsar has nothing like it: there clients are sent to a dead broker until its session ends.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from pulsar_barycenter.bounds.recent import Recent

BELIEVED_S: Final = 1.0
ASK_AGAIN_S: Final = 0.25
_CONNECT_S: Final = 1.0
_MOST: Final = 10_000
"""How many addresses are remembered; those that were seen first are forgotten first."""


async def refuses_connections(service_url: str) -> bool:
    """Tell whether a connection to a service URL is refused. False if that is not known after a second."""
    try:
        address = urlsplit(service_url)
        host, port = address.hostname or "", address.port or 0
        async with asyncio.timeout(_CONNECT_S):
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError, ValueError):
        return False
    transport.close()
    return False


@dataclass(eq=False, slots=True)
class _Way:
    asked_at_s: float
    is_asked: bool = False
    refused_since_s: float | None = None


class DeadEnds:
    """`refuses` is `refuses_connections`, or stands for it; `longest_s` is how long a dead broker may be named."""

    def __init__(self, refuses: Callable[[str], Awaitable[bool]], *, longest_s: float) -> None:
        self._refuses = refuses
        self._longest_s = longest_s
        self._ways: Recent[str, _Way] = Recent(_MOST)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def leads_to(self, service_url: str | None) -> bool:
        """Tell whether clients would be refused at `service_url`, as far as that is known now. Never waits."""
        if service_url is None:
            return False
        now_s = asyncio.get_running_loop().time()
        way = self._ways.get(service_url)
        if way is None:
            way = _Way(now_s)
            self._ways.put(service_url, way)
            self._ask(service_url, way)
        elif now_s - way.asked_at_s >= (BELIEVED_S if way.refused_since_s is None else ASK_AGAIN_S):
            way.asked_at_s = now_s
            self._ask(service_url, way)
        return way.refused_since_s is not None and now_s - way.refused_since_s < self._longest_s

    async def close(self) -> None:
        """Ask no more. Idempotent."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ask(self, service_url: str, way: _Way) -> None:
        if way.is_asked or self._closed:
            return
        way.is_asked = True
        task = asyncio.create_task(self._look(service_url, way), name=f"connect to {service_url}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, service_url: str, way: _Way) -> None:
        try:
            is_refused = await self._refuses(service_url)
        finally:
            way.is_asked = False
        now_s = asyncio.get_running_loop().time()
        if not is_refused:
            way.refused_since_s = None
        elif way.refused_since_s is None:
            way.refused_since_s = now_s
