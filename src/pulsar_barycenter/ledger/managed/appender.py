"""Appends entries to a topic: chooses the ledger, continues in a new one when it is full, and reports failures in
order.

A ledger is created at the first append. When it is full, its successor is created while appends continue. Then new
appends wait until all entries in the old ledger are reported, which takes one group commit, and continue in the new
one. Whether the successor is listed before the old ledger has ended, and whether appends wait for that end as well, is
decided by `succession`. When a writer fails, its ledger ends at its durable length, and all entries that are not
durable fail at once. So no entry becomes durable before an earlier one. The next append creates another ledger.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Final, Generic, Protocol

import structlog

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.append_queue import AppendQueue, Context
from pulsar_barycenter.ledger.managed.segments import Segment
from pulsar_barycenter.ledger.managed.stats import NOTHING_WRITTEN, Interval, WriteStats
from pulsar_barycenter.ledger.managed.succession import Step
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.ledger.storage import LedgerWriter

log = structlog.get_logger(__name__)

_ROLL_RETRY_S: Final = 1.0


class AppenderOwner(Protocol[Context]):
    """The part of a managed ledger that its appender uses."""

    @property
    def settings(self) -> LedgerSettings: ...
    @property
    def name(self) -> str: ...
    def check_open(self) -> None: ...
    def start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]: ...
    async def first_ledger(self, ended: Step) -> tuple[Segment, LedgerWriter]: ...
    async def next_ledger(self, pause: Step, end: Step) -> tuple[Segment, LedgerWriter]: ...
    def entries_durable(
        self, segment: Segment, first: int, entries: list[bytes], contexts: list[Context], index: EntryIndex
    ) -> None: ...
    def entries_failed(self, contexts: list[Context], error: LedgerError) -> None: ...
    def ledger_closed(self, segment: Segment) -> None: ...
    async def ledger_rolled(self, end: Step) -> None: ...


class Appender(Generic[Context]):
    """Appends the entries of one topic to its current ledger, and continues in a new ledger when that one is full or
    too old, or after its writer failed.
    """

    __slots__ = (
        "_index", "_owner", "_queue", "_releases", "_reported", "_roll_at_s", "_rolls", "_segment", "_stats",
        "_stopped", "_switch", "_writer",
    )  # fmt: skip

    def __init__(self, owner: AppenderOwner[Context]) -> None:
        self._owner = owner
        self._queue: AppendQueue[Context] = AppendQueue()
        self._writer: LedgerWriter | None = None
        self._segment: Segment | None = None
        self._index = EntryIndex()
        """The columns of the ledger that is being written."""
        self._switch: asyncio.Task[None] | None = None
        self._releases: set[asyncio.Task[None]] = set()
        """The tasks that close writers which write no more."""
        self._rolls: set[asyncio.Task[None]] = set()
        """The tasks that roll a ledger, or close the former ledger after that."""
        self._reported = asyncio.Event()
        """Set when entries are reported, as durable or failed."""
        self._roll_at_s = float("-inf")
        self._stopped = False
        self._stats: WriteStats | None = None

    @property
    def last_interval(self) -> Interval:
        """Counts and sums of the entries that became durable in the last completed statistics interval."""
        return NOTHING_WRITTEN if self._stats is None else self._stats.last

    def end_interval(self, seconds: float) -> None:
        if self._stats is not None:
            self._stats.end_interval(seconds)

    def extend(self, entries: Sequence[NewEntry], contexts: Sequence[Context]) -> None:
        writer, queue, stats = self._writer, self._queue, self._stats
        if stats is None:
            stats = self._stats = WriteStats()
        if stats.times_next:
            stats.begin_timing(asyncio.get_running_loop().time(), queue.count)
        if writer is not None:
            writer.extend(entries)
            queue.extend(entries, contexts)
            return
        self._owner.check_open()
        queue.waiting.extend(zip(entries, contexts, strict=True))
        if self._switch is None:
            self._switch = self._owner.start(self._begin(), f"begin-ledger-{self._owner.name}")

    async def _begin(self) -> None:
        try:
            segment, writer = await self._owner.first_ledger(self._released)
        except LedgerError as error:
            self._switch = None
            self.fail(error)
            return
        except Exception:  # a fault, which the owner logs; the next append tries again
            self._switch = None
            self.fail(self._fault())
            raise
        self._switch = None
        self.write_to(segment, writer)

    def _fault(self) -> LedgerError:
        return LedgerError(f"{self._owner.name}: no new ledger could be made; the error is in the log of the broker")

    async def _released(self) -> None:
        """Wait until the writers that have failed or are not used any more have closed their ledgers."""
        if self._releases:
            await asyncio.wait(self._releases)

    def write_to(self, segment: Segment, writer: LedgerWriter) -> None:
        """Append to another ledger from now on: to `segment`, by its `writer`. The ledger must be in the topic's list,
        and be empty. Entries that wait for a new ledger are appended first.
        """
        if self._stopped:
            self._release(writer)
            return
        self._writer, self._segment, self._index = writer, segment, writer.index
        try:
            self._queue.hand_over(writer)
        except LedgerError as error:  # the storage was closed before its topics
            self._writer = self._segment = None
            self.fail(error)

    def group_done(self, segment: Segment, last_id: int, error: LedgerError | None) -> None:
        """Called by the writer of the ledger `segment` after each group of entries. If `error` is None, the entries up
        to the id `last_id` (inclusive) are durable. Otherwise `last_id` is the id of the first entry that failed, all
        entries from it on have failed with `error`, and the writer writes no more.
        """
        if self._stopped:
            return
        if error is not None:
            if segment is self._segment:
                self._writer_failed(segment, error)
            else:  # all its entries are reported, so no append failed; but a later owner may have the topic
                self._owner.entries_failed([], error)
            return
        first, size = segment.entries, segment.size
        segment.grow(self._index, last_id + 1)
        if self._stats is not None:
            self._stats.written(last_id + 1 - first, segment.size - size, asyncio.get_running_loop().time())
        entries, contexts = self._queue.take(last_id + 1 - first)
        self._reported.set()
        self._owner.entries_durable(segment, first, entries, contexts, self._index)
        if segment is self._segment and self._is_full(segment):
            self._roll_soon()

    def _is_full(self, segment: Segment) -> bool:
        settings = self._owner.settings
        return segment.entries >= settings.max_entries_per_ledger or segment.size >= settings.max_bytes_per_ledger

    def _roll_soon(self) -> None:
        """Begin to roll, unless a roll has begun or has failed just before."""
        segment, writer = self._segment, self._writer
        is_time = self._switch is None and asyncio.get_running_loop().time() >= self._roll_at_s
        if is_time and segment is not None and writer is not None:
            roll = self._owner.start(self._roll(segment, writer), f"roll-ledger-{self._owner.name}")
            self._switch = roll
            self._rolls.add(roll)
            roll.add_done_callback(self._rolls.discard)

    def roll_begun_before(self, time_ms: int) -> None:
        """Continue in a new ledger, if the current ledger has at least one entry and was created before `time_ms` (ms
        since 1970).
        """
        segment = self._segment
        if segment is not None and segment.entries > 0 and segment.created_at_ms < time_ms:
            self._roll_soon()

    async def _roll(self, old: Segment, old_writer: LedgerWriter) -> None:
        """Create a new ledger, and append to it as soon as all entries in the old ledger are reported as durable or
        failed. If no ledger can be created, this is logged, and appends continue in the old ledger, unless that has
        ended already: then the appends that wait fail.
        """

        async def pause() -> None:
            if self._writer is old_writer:
                self._writer = None  # appends wait from now on
                while self._queue.contexts:
                    self._reported.clear()
                    await self._reported.wait()

        async def end() -> None:
            await old_writer.close()
            if not old.closed:  # it is, if it failed meanwhile
                self._owner.ledger_closed(old)

        try:
            segment, writer = await self._owner.next_ledger(pause, end)
        except LedgerError as error:
            self._switch = None
            self._roll_at_s = asyncio.get_running_loop().time() + _ROLL_RETRY_S
            log.warning("ledger_not_rolled", topic=self._owner.name, error=str(error))
            if self._writer is None:
                self.fail(error)
            return
        except Exception:
            self._switch = None
            self._roll_at_s = asyncio.get_running_loop().time() + _ROLL_RETRY_S
            if self._writer is None:
                self.fail(self._fault())
            raise
        self._switch = None
        self.write_to(segment, writer)
        await self._owner.ledger_rolled(end)

    def _writer_failed(self, segment: Segment, error: LedgerError) -> None:
        if self._writer is not None:
            self._release(self._writer)
        self._writer = self._segment = None
        self._owner.ledger_closed(segment)
        log.warning("appends_failed", topic=self._owner.name, ledger=segment.ledger_id, error=str(error))
        self.fail(error)

    def _release(self, writer: LedgerWriter) -> None:
        release = self._owner.start(writer.close(), f"release-ledger-{self._owner.name}")
        self._releases.add(release)
        release.add_done_callback(self._releases.discard)

    def fail(self, error: LedgerError) -> None:
        """Report to the owner that all entries without a result have failed with `error`, including the entries that
        wait for a new ledger.
        """
        if self._stats is not None:
            self._stats.failed()
        self._reported.set()
        self._owner.entries_failed(self._queue.take_all(), error)

    def stop(self) -> list[Context]:
        """Report no results from now on. Return the contexts of all entries whose result is not reported yet, in append
        order. The writer is closed in the background.
        """
        self._stopped = True
        self._reported.set()
        if self._writer is not None:
            self._release(self._writer)
            self._writer = None
        return self._queue.take_all()

    async def finish(self) -> None:
        """Wait until the result of every appended entry is reported, and close the current ledger. The caller must not
        append after this call.
        """
        while self._switch is not None:
            await asyncio.wait([self._switch])
        if self._rolls:
            await asyncio.wait(self._rolls)
        writer, segment = self._writer, self._segment
        self._writer = None
        if writer is not None and segment is not None:
            await writer.close()
            self._segment = None
            if not segment.closed:
                self._owner.ledger_closed(segment)
