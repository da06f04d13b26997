"""One connection to one bookie. Requests are sent in batches. An answer is matched with its request by operation,
ledger and entry.

Answers have no request id. So at most one request with the same operation, ledger and entry waits for an answer, and
others with the same key are sent after it is answered. Every request is answered exactly once, in a later iteration of
the event loop: by the bookie, or by NO_ANSWER when the connection ends or the answer does not come in time. The
connection of a bookie that does not read what is sent is closed: otherwise entries that other bookies have already
confirmed would fill the memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, cast

import structlog

from pulsar_barycenter.bookkeeper.errors import MalformedAnswerError
from pulsar_barycenter.bookkeeper.wire.packets import Answer, AnswerDecoder, Code, Operation

log = structlog.get_logger(__name__)

OnAnswer: TypeAlias = Callable[[Code, bytes], None]
"""Called with the return code of a bookie's answer, and with the entry's bytes if a read found the entry."""
_CHECKS_PER_TIMEOUT: Final = 10

Key: TypeAlias = tuple[Operation, int, int]


class Request(NamedTuple):
    """A request to a bookie. `key` identifies it, so that the answer is found again; `frame` are the bytes to send;
    `on_answer` is called with the answer.
    """

    key: Key
    frame: bytes
    on_answer: OnAnswer


class BookieConnection(asyncio.Protocol):
    """A connection to one bookie, created by `loop.create_connection`. `on_lost` is called once, when the connection
    has ended.
    """

    def __init__(
        self, bookie: str, *, timeout_s: float, max_frame_bytes: int, max_unsent_bytes: int, on_lost: Callable[[], None]
    ) -> None:
        self._bookie = bookie
        self._max_unsent_bytes = max_unsent_bytes
        self._timeout_s = timeout_s
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: list[asyncio.Transport] = []
        self._decoder = AnswerDecoder(max_frame_bytes)
        self._under_way: dict[Key, tuple[OnAnswer, float]] = {}
        """Who gets the answer, and until when it must be there; the oldest first."""
        self._waiting: dict[Key, deque[Request]] = {}
        self._frames: list[bytes] = []
        self._is_lost = False
        self._has_answered = False
        self._failure = ""
        self._check: asyncio.TimerHandle | None = None

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    @property
    def failure(self) -> str:
        """Why the connection ended before the bookie had answered any request, as text; "" if it has not ended, or the
        bookie had answered at least one.
        """
        return self._failure

    def send(self, request: Request) -> None:
        """Send a request, or answer it with NO_ANSWER if the connection has ended."""
        if self._is_lost:
            self._loop.call_soon(request.on_answer, Code.NO_ANSWER, b"")
        elif request.key in self._under_way:
            self._waiting.setdefault(request.key, deque()).append(request)
        else:
            self._send_now(request)

    def abort(self) -> None:
        """End the connection at once. All requests that have no answer are answered with NO_ANSWER."""
        for transport in self._transport:
            transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport.append(cast(asyncio.Transport, transport))  # that of uvloop is no instance of it
        self._check = self._loop.call_later(self._timeout_s / _CHECKS_PER_TIMEOUT, self._check_deadlines)

    def data_received(self, data: bytes) -> None:
        try:
            answers = self._decoder.receive(data)
        except MalformedAnswerError as error:
            log.warning("bookie_answer_malformed", bookie=self._bookie, error=str(error))
            self.abort()
            return
        for answer in answers:
            if isinstance(answer, Answer):
                self._has_answered = True
                self._take(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if not self._has_answered:
            self._failure = str(exc or "") or "the connection ended before the first answer"
        if self._check is not None:
            self._check.cancel()
        left = [on_answer for on_answer, _ in self._under_way.values()]
        left += [request.on_answer for queue in self._waiting.values() for request in queue]
        self._under_way.clear()
        self._waiting.clear()
        self._frames.clear()
        self._on_lost()
        for on_answer in left:
            on_answer(Code.NO_ANSWER, b"")

    def _send_now(self, request: Request) -> None:
        self._under_way[request.key] = (request.on_answer, self._loop.time() + self._timeout_s)
        if not self._frames:
            self._loop.call_soon(self._flush)
        self._frames.append(request.frame)

    def _flush(self) -> None:
        frames, self._frames = self._frames, []
        if not frames or self._is_lost:
            return
        transport = self._transport[0]
        transport.write(b"".join(frames))
        if transport.get_write_buffer_size() > self._max_unsent_bytes:
            log.warning("bookie_too_slow", bookie=self._bookie, unsent_bytes=transport.get_write_buffer_size())
            self.abort()

    def _take(self, answer: Answer) -> None:
        key = answer.operation, answer.ledger, answer.entry
        found = self._under_way.pop(key, None)
        if found is None:
            log.warning("bookie_answer_unexpected", bookie=self._bookie, ledger=answer.ledger, entry=answer.entry)
            return
        queue = self._waiting.get(key)
        if queue is not None:
            self._send_now(queue.popleft())
            if not queue:
                del self._waiting[key]
        found[0](answer.code, answer.body)

    def _check_deadlines(self) -> None:
        now = self._loop.time()
        oldest = next(iter(self._under_way.values()), None)
        if oldest is not None and oldest[1] <= now:
            log.warning("bookie_silent", bookie=self._bookie, timeout_s=self._timeout_s, requests=len(self._under_way))
            self.abort()
            return
        self._check = self._loop.call_later(self._timeout_s / _CHECKS_PER_TIMEOUT, self._check_deadlines)
