"""The connections to all bookies, one for each. A connection is opened when a request needs it.

A bookie to which no connection could be made, or that ended one before it answered a request, counts as failed for a
while, and requests to it fail at once.
"""

import asyncio
import random
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

import structlog

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings
from pulsar_barycenter.bookkeeper.client.connection import AddRequest, BookieConnection, Request
from pulsar_barycenter.bookkeeper.client.opening import open_connection
from pulsar_barycenter.bookkeeper.errors import BookieRefusedError, MalformedAnswerError
from pulsar_barycenter.bookkeeper.machines.placement import ANYWHERE, BookieGroups, choose, preferred, replace_failed
from pulsar_barycenter.bookkeeper.metadata.bookie_registry import BookieRegistry
from pulsar_barycenter.bounds.back_off import Doubling
from pulsar_barycenter.bounds.background import BackgroundTasks

_LONGEST_WAIT: Final = 16
"""The longest wait before a new attempt to connect is this many times `reconnect_s`."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Connecting:
    """The requests to a bookie that wait until a connection to it is open, and their size in bytes."""

    requests: list[Request | AddRequest] = field(default_factory=list)
    unsent_bytes: int = 0


class BookiePool:
    """Sends requests to bookies by their ids. Opens and keeps the connections."""

    def __init__(self, registry: BookieRegistry, settings: ClientSettings, source: random.Random) -> None:
        self._registry = registry
        self._settings = settings
        self._random = source
        self._connections: dict[str, BookieConnection] = {}
        self._connecting: dict[str, _Connecting] = {}
        self._failed_until_s: dict[str, float] = {}
        self._waits: dict[str, Doubling] = {}
        self._tasks = BackgroundTasks("bookie_not_connected")
        self._is_closed = False

    def send(self, bookie: str, request: Request | AddRequest) -> None:
        """Send a request to the bookie with this id, over a connection that is opened if there is none. The request is
        answered exactly once, in a later iteration of the event loop; with NO_ANSWER if the bookie cannot be reached.
        """
        connection = self._connections.get(bookie)
        if connection is not None:
            connection.send(request)
        elif self._is_closed or self._is_failed(bookie):
            _fail([request])
        else:
            if bookie not in self._connecting:
                self._connecting[bookie] = _Connecting()
                self._tasks.start(self._connect(bookie), f"connect {bookie}")
            self._wait_for_connection(self._connecting[bookie], request)

    def choose(self, count: int, groups: BookieGroups = ANYWHERE) -> tuple[str, ...]:
        """Return `count` writable bookies for a new ledger. Bookies that failed recently are among them only if there
        are fewer than `count` others. `groups` are the groups of bookies on which the ledger may be; see
        `placement.preferred`.

        Raises:
            TooFewBookiesError: there are fewer than `count` writable bookies in the groups that are allowed.
        """
        placed = self._registry.placed
        writable = preferred(self._shuffled(), count, groups, placed.groups)
        return choose(writable, count, placed.racks, last_resort=set(filter(self._is_failed, writable)))

    def replace(
        self, ensemble: tuple[str, ...], failed: AbstractSet[str], groups: BookieGroups = ANYWHERE
    ) -> tuple[str, ...]:
        """Return the ensemble (the bookies of a segment) with each bookie in `failed` replaced by another writable one
        that `groups` allow, see `placement.preferred`. A failed bookie for which there is no other stays in the
        ensemble.
        """
        placed = self._registry.placed
        sound = [bookie for bookie in self._shuffled() if not self._is_failed(bookie)]
        return replace_failed(ensemble, failed, preferred(sound, len(ensemble), groups, placed.groups), placed.racks)

    async def close(self) -> None:
        """End all connections. Requests that have no answer yet are answered with NO_ANSWER."""
        self._is_closed = True
        self._tasks.cancel()
        for waiting in self._connecting.values():
            _fail(waiting.requests)
        self._connecting.clear()
        for connection in list(self._connections.values()):
            connection.abort()
        await asyncio.sleep(0)

    def _wait_for_connection(self, waiting: "_Connecting", request: Request | AddRequest) -> None:
        if waiting.unsent_bytes > self._settings.max_unsent_bytes:
            _fail([request])
            return
        waiting.unsent_bytes += sum(map(len, request.frames))
        waiting.requests.append(request)

    def _shuffled(self) -> list[str]:
        return self._random.sample(self._registry.writable, len(self._registry.writable))

    def _is_failed(self, bookie: str) -> bool:
        return self._failed_until_s.get(bookie, 0.0) > asyncio.get_running_loop().time()

    def _wait_s(self, bookie: str) -> float:
        first_s = self._settings.reconnect_s
        return self._waits.setdefault(bookie, Doubling(first_s, first_s * _LONGEST_WAIT)).next_s()

    def _count_failure(self, bookie: str, reason: str) -> None:
        log.warning("bookie_unreachable", bookie=bookie, error=reason)
        self._failed_until_s[bookie] = asyncio.get_running_loop().time() + self._wait_s(bookie)

    async def _connect(self, bookie: str) -> None:
        address = self._registry.address(bookie)
        made: list[BookieConnection] = []

        def lost() -> None:
            if made and self._connections.get(bookie) is made[0]:
                del self._connections[bookie]
                if not made[0].failure:
                    self._waits.pop(bookie, None)
                elif not self._is_closed:
                    self._count_failure(bookie, made[0].failure)

        def protocol() -> BookieConnection:
            return BookieConnection(
                bookie,
                timeout_s=self._settings.timeout_s,
                max_frame_bytes=self._settings.max_frame_bytes,
                max_unsent_bytes=self._settings.max_unsent_bytes,
                on_lost=lost,
            )

        try:
            if address is None:
                raise ConnectionError(
                    "the address of the bookie is not known, because the bookie is not registered and its id "
                    "is not host:port: start the bookie"
                )
            async with asyncio.timeout(self._settings.timeout_s):
                connection = await open_connection(protocol, address, self._settings.opening)
            made.append(connection)
        except (OSError, TimeoutError, BookieRefusedError, MalformedAnswerError) as error:
            self._count_failure(bookie, str(error) or type(error).__name__)
            _fail(self._connecting.pop(bookie, _Connecting()).requests)
            return
        if connection.is_lost:
            self._count_failure(bookie, connection.failure)
        else:
            self._failed_until_s.pop(bookie, None)
            self._connections[bookie] = connection
        for request in self._connecting.pop(bookie, _Connecting()).requests:
            connection.send(request)


def _fail(requests: Sequence[Request | AddRequest]) -> None:
    loop = asyncio.get_running_loop()
    for request in requests:
        loop.call_soon(request.fail)
