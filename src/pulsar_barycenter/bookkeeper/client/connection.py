"""One connection to one bookie. Requests are sent in batches. An answer is matched with its request by operation,
ledger and entry.

Answers have no request id. So at most one request with the same operation, ledger and entry waits for an answer, and
others with the same key are sent after it is answered. Every request is answered exactly once, in a later iteration of
the event loop: by the bookie, or by NO_ANSWER when the connection ends or the answer does not come in time. The
connection of a bookie that does not read what is sent is closed: otherwise entries that other bookies have already
confirmed would fill the memory.

Most requests are adds, and they come and are answered in runs: the entries of a ledger that a client sent together.
What is done for each entry of a run is done by operations on whole dictionaries. A run whose entries are all answered
alike is answered by one call.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby, repeat
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, cast

import structlog

from pulsar_barycenter.bookkeeper.errors import MalformedAnswerError
from pulsar_barycenter.bookkeeper.wire.packets import (
    AddAnswers,
    Answer,
    AnswerDecoder,
    Code,
    Operation,
    joined_if_small,
)

log = structlog.get_logger(__name__)

OnAnswer: TypeAlias = Callable[[Code, bytes], None]
"""Called with the return code of a bookie's answer, and with the entry's bytes if a read found the entry."""
OnAddAnswers: TypeAlias = Callable[[Sequence[int], Code], None]
"""Called with the numbers of entries, and the return code that a bookie answered to the add of each of them."""
_CHECKS_PER_TIMEOUT: Final = 10

Key: TypeAlias = tuple[Operation, int, int]


class Request(NamedTuple):
    """A request to a bookie. `key` identifies it, so that the answer is found again; `frame` are the bytes to send;
    `on_answer` is called with the answer.
    """

    key: Key
    frame: bytes
    on_answer: OnAnswer

    @property
    def frames(self) -> Sequence[bytes]:
        return (self.frame,)

    def fail(self) -> None:
        self.on_answer(Code.NO_ANSWER, b"")


class AddRequest(NamedTuple):
    """Requests to add entries of one ledger, which are sent together: the numbers of the entries, the bytes of all
    requests in parts, and the function that gets their answers. It is called once or more, and gets each entry once.
    """

    ledger: int
    entries: Sequence[int]
    frames: Sequence[bytes]
    on_answer: OnAddAnswers

    def fail(self) -> None:
        self.on_answer(self.entries, Code.NO_ANSWER)


_UnderWay: TypeAlias = tuple[OnAddAnswers, float]
"""Who gets the answer to an add, and until when it must be there."""
_ON_ANSWER: Final = itemgetter(0)


def _not_requested(_: Sequence[int], __: Code) -> None:
    """Gets the answers to adds that are not under way."""


_NOT_UNDER_WAY: Final[_UnderWay] = (_not_requested, 0.0)


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
        self._adds: dict[int, dict[int, _UnderWay]] = {}
        """The adds under way, by ledger and entry; those of a ledger in the order in which they were sent."""
        self._waiting_adds: dict[int, deque[AddRequest]] = {}
        """Adds that wait because one of their entries is under way, by ledger. All later adds of that ledger wait."""
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

    def send(self, request: Request | AddRequest) -> None:
        """Send a request, or answer it with NO_ANSWER if the connection has ended."""
        if self._is_lost:
            self._loop.call_soon(request.fail)
        elif isinstance(request, AddRequest):
            self._send_adds(request)
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
            if isinstance(answer, AddAnswers):
                self._has_answered = True
                self._take_adds(answer)
            elif isinstance(answer, Answer):
                self._has_answered = True
                self._take(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        if not self._has_answered:
            self._failure = str(exc or "") or "the connection ended before the first answer"
        if self._check is not None:
            self._check.cancel()
        left: list[Request | AddRequest] = [
            Request(key, b"", on_answer) for key, (on_answer, _) in self._under_way.items()
        ]
        left += [request for queue in self._waiting.values() for request in queue]
        left += [
            AddRequest(ledger, [entry for entry, _ in run], (), on_answer)
            for ledger, adds in self._adds.items()
            for on_answer, run in groupby(adds.items(), key=lambda add: add[1][0])
        ]
        left += [request for queue in self._waiting_adds.values() for request in queue]
        for unanswered in (self._under_way, self._waiting, self._adds, self._waiting_adds):
            unanswered.clear()
        self._frames.clear()
        self._on_lost()
        for request in left:
            request.fail()

    def _send_now(self, request: Request) -> None:
        self._under_way[request.key] = (request.on_answer, self._loop.time() + self._timeout_s)
        self._write(request.frames)

    def _send_adds(self, request: AddRequest) -> None:
        if request.ledger in self._waiting_adds:
            self._waiting_adds[request.ledger].append(request)
        elif self._is_under_way(request):
            self._waiting_adds[request.ledger] = deque([request])
        else:
            self._send_adds_now(request)

    def _is_under_way(self, request: AddRequest) -> bool:
        adds = self._adds.get(request.ledger)
        return adds is not None and not adds.keys().isdisjoint(request.entries)

    def _send_adds_now(self, request: AddRequest) -> None:
        ledger, entries, frames, on_answer = request
        under_way = dict.fromkeys(entries, (on_answer, self._loop.time() + self._timeout_s))
        adds = self._adds.get(ledger)
        if adds is None:
            self._adds[ledger] = under_way
        else:
            adds.update(under_way)
        self._write(frames)

    def _write(self, frames: Sequence[bytes]) -> None:
        if not self._frames:
            self._loop.call_soon(self._flush)
        self._frames.extend(frames)

    def _flush(self) -> None:
        frames, self._frames = self._frames, []
        if not frames or self._is_lost:
            return
        transport = self._transport[0]
        transport.writelines(joined_if_small(frames))
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

    def _take_adds(self, answers: AddAnswers) -> None:
        ledger, entries = answers.ledger, answers.entries
        adds = self._adds.get(ledger, {})
        takers = list(map(_ON_ANSWER, map(adds.pop, entries, repeat(_NOT_UNDER_WAY))))
        if not adds:
            self._adds.pop(ledger, None)
        waiting = self._waiting_adds.get(ledger)
        if waiting is not None:
            while waiting and not self._is_under_way(waiting[0]):
                self._send_adds_now(waiting.popleft())
            if not waiting:
                del self._waiting_adds[ledger]
        if len(set(takers)) == 1:
            self._pass_on(takers[0], entries, answers)
            return
        for on_answer, run in groupby(zip(takers, entries, strict=True), key=_ON_ANSWER):
            self._pass_on(on_answer, [entry for _, entry in run], answers)

    def _pass_on(self, on_answer: OnAddAnswers, entries: Sequence[int], answers: AddAnswers) -> None:
        if on_answer is _not_requested:
            log.warning("bookie_answer_unexpected", bookie=self._bookie, ledger=answers.ledger, entry=entries[0])
            return
        on_answer(entries, answers.code)

    def _check_deadlines(self) -> None:
        deadlines = [next(iter(self._under_way.values()))[1]] if self._under_way else []
        deadlines += [next(iter(adds.values()))[1] for adds in self._adds.values()]
        if deadlines and min(deadlines) <= self._loop.time():
            count = len(self._under_way) + sum(map(len, self._adds.values()))
            log.warning("bookie_silent", bookie=self._bookie, timeout_s=self._timeout_s, requests=count)
            self.abort()
            return
        self._check = self._loop.call_later(self._timeout_s / _CHECKS_PER_TIMEOUT, self._check_deadlines)
