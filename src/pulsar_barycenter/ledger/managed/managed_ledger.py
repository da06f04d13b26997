"""A topic's storage: one sequence of entries over ledgers that are rolled, recovered and trimmed.

A topic has one owner at a time. An owner gets its epoch when it becomes owner of the topic's bundle. It first writes
the epoch to the topic's record. Then it fences the ledgers that the former owner left open, and closes them at their
recovered length. A former owner that still runs fails at its next step: at the fence of its ledger, or at the version
of the record or of a cursor.

A ledger is created at the first append, so a topic without messages has none. When a ledger is full, its successor is
created while appends continue; the switch to the successor waits for one group commit, and with Pulsar's records also
for a write of the list (see `succession`).

Source: Pulsar's `ManagedLedgerImpl`, with the epoch in place of BookKeeper's fencing.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final, Generic, Literal, Self

import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError, LedgerTerminatedError
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.append_queue import Context, OnEntriesDurable, OnEntriesFailed, OnFenced
from pulsar_barycenter.ledger.managed.appender import Appender
from pulsar_barycenter.ledger.managed.compacted_topic import CompactedTopic
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.entry_reads import EntryReads
from pulsar_barycenter.ledger.managed.ledger_list import LedgerList, NewLedger
from pulsar_barycenter.ledger.managed.losses import DamagedLedger, Losses
from pulsar_barycenter.ledger.managed.records import RECORDS_WITH_EPOCHS, RecordForm
from pulsar_barycenter.ledger.managed.retention import released
from pulsar_barycenter.ledger.managed.segments import Segment, Segments
from pulsar_barycenter.ledger.managed.stats import Interval, ManagedLedgerStats
from pulsar_barycenter.ledger.managed.succession import Step
from pulsar_barycenter.ledger.managed.topic_cursors import TopicCursors
from pulsar_barycenter.ledger.managed.unacked import Stretch
from pulsar_barycenter.ledger.position import EARLIEST, Entry, EntryInfo, EntryRun, NewEntry, Position
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.ledger.tail_cache import TailWindow
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

MANAGED_LEDGERS: Final = "/managed-ledgers"
"""The path below which the records of topics are stored."""


class _State(Enum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    FENCED = "fenced"


def managed_ledger_path(topic: TopicName) -> str:
    """Return the path of the topic's record in the metadata store. The keys directly below it are the records of its
    cursors.
    """
    return f"{MANAGED_LEDGERS}/{topic.persistence_name}"


def _ignore(*_: object) -> None:
    return


class ManagedLedger(Generic[Context]):
    """The entries and cursors of one topic, for its owner. Created by `open`. All methods run on the event loop on
    which it was opened.
    """

    __slots__ = (
        "_alone", "_appender", "_close_task", "_cursors", "_fence", "_form", "_keeper", "_last", "_ledgers", "_losses",
        "_reads", "_registered", "_segments", "_state", "_storage", "_store", "_tail", "_tasks", "_trimming", "clock",
        "compacted", "is_ended", "on_durable", "on_failed", "on_fenced", "settings", "topic",
    )  # fmt: skip

    _fence: LedgerFencedError  # set once the state is FENCED

    def __init__(
        self,
        store: MetadataStore,
        storage: LedgerStorage,
        topic: TopicName,
        *,
        epoch: int,
        clock: Clock,
        settings: LedgerSettings,
        form: RecordForm,
        on_durable: OnEntriesDurable[Context],
        on_failed: OnEntriesFailed[Context],
        on_fenced: OnFenced,
    ) -> None:
        self.topic = topic
        self.clock = clock
        self.settings = settings
        self.on_durable = on_durable
        self.on_failed = on_failed
        self.on_fenced = on_fenced
        self._store = store
        self._storage = storage
        self._form = form
        self._keeper = form.ledgers(store, managed_ledger_path(topic), epoch=epoch)
        self._state = _State.OPEN
        self._losses = Losses(self)
        self._ledgers = LedgerList(self, storage, self._keeper, form.succession, self._losses)
        self._segments = self._ledgers.segments
        self._last = EARLIEST
        self._cursors = TopicCursors(self, store, form, self._keeper)
        self._tail = TailWindow(storage.caches.tail)
        self._reads = EntryReads(storage, self._segments, self._tail, self._losses)
        self._appender = Appender(self)
        self.compacted = CompactedTopic(
            self, store, storage, self._ledgers, self._losses, refusal=form.compaction_refusal
        )
        self._trimming = True  # no trimming before the cursors are loaded, because they may need ledgers
        self._registered = self._alone = False
        self.is_ended = False
        """Whether appends are refused, because the topic was terminated or is being terminated."""
        self._tasks = BackgroundTasks("managed_ledger_task_failed", expected=(LedgerError,))
        self._close_task: asyncio.Task[None] | None = None

    # ---- opening ----

    @classmethod
    async def open(
        cls,
        store: MetadataStore,
        storage: LedgerStorage,
        topic: TopicName,
        *,
        epoch: int,
        clock: Clock,
        settings: LedgerSettings | None = None,
        form: RecordForm = RECORDS_WITH_EPOCHS,
        create: bool = True,
        closed: asyncio.Event | None = None,
        on_durable: OnEntriesDurable[Context] = _ignore,
        on_failed: OnEntriesFailed[Context] = _ignore,
        on_fenced: OnFenced = _ignore,
    ) -> Self:
        """Take over a topic from its former owner under `epoch`, and recover its ledgers.

        The caller passes as `epoch` a number that is higher than the epoch of every former owner. It may be equal to
        the epoch of the last owner in two cases: that owner has closed the topic; or that owner was this process, was
        interrupted while it opened or closed the topic, and does not have the topic open any more.
        `closed`, if given, is an event that is set when the former owner has closed the topic. This method waits for it
        before it takes over the topic; meanwhile it only creates the ledger for the next append. `form` says how the
        records of the topic are stored. `create`: if the topic does not exist, create it.

        Raises:
            ForeignTopicError: only Java brokers can serve the topic. No record was changed.
            LedgerFencedError: an owner of this or a higher epoch has the topic.
            LedgerNotFoundError: the topic does not exist and `create` is False.
            LedgerUnavailableError: the metadata store did not answer.
        """
        ledger = cls(
            store, storage, topic, epoch=epoch, clock=clock, settings=settings or LedgerSettings(), form=form,
            on_durable=on_durable, on_failed=on_failed, on_fenced=on_fenced,
        )  # fmt: skip
        ledger._alone = storage.caches.register(ledger._keeper.path)
        ledger._registered = True
        try:
            await ledger._take_over(create, closed)
        except BaseException:
            ledger._appender.stop()
            ledger._release_readers()
            raise
        return ledger

    async def _take_over(self, create: bool, closed: asyncio.Event | None) -> None:
        await self._form.check_topic(self._store, self._keeper.path)
        ledgers = self._ledgers
        making = None
        if closed is not None:
            making = ledgers.create_ahead(self._store, self.clock, self._appender.group_done)
            try:
                await closed.wait()
            except BaseException:
                if making is not None:
                    ledgers.undo(making, is_listed=False)
                raise
        taking_over = ledgers.take_over(create=create, alone=self._alone, making=making)
        made, _ = await asyncio.gather(taking_over, self._cursors.read_ahead(), return_exceptions=True)
        if isinstance(made, BaseException):
            raise made
        if made is not None:
            self._appender.write_to(*made)
        await ledgers.recover()
        self._last = self._segments.last_position
        self.is_ended = ledgers.terminated_at is not None
        await self._cursors.load()
        self.compacted.load()
        self._trimming = False
        self._trim_soon()

    # ---- appending ----

    def append(self, entry: bytes, num_messages: int, publish_time_ms: int, context: Context) -> None:
        """Queue `entry` to be stored. When it is durable, `on_durable` is called with `context`; if it cannot be
        stored, `on_failed` is called with `context`.

        Raises:
            LedgerFencedError: a later owner has taken over the topic.
            LedgerTerminatedError: the topic was terminated, or is being terminated.
            LedgerClosedError: the topic is closed or closing.
            ValueError: `num_messages` is negative.
        """
        self.extend([(entry, num_messages, publish_time_ms)], [context])

    def extend(self, entries: Sequence[NewEntry], contexts: Sequence[Context]) -> None:
        """Queue `entries`, each with the context at the same index, as `append` does. If this raises an error, none of
        them is queued.
        """
        for _, num_messages, _ in entries:
            if num_messages < 0:
                raise ValueError(f"num_messages must not be negative: {num_messages}")
        if self.is_ended:
            raise LedgerTerminatedError(self.name)
        self._appender.extend(entries, contexts)

    def check_open(self) -> None:
        if self._state is _State.FENCED:
            raise self._fence.with_traceback(None)
        if self._state is not _State.OPEN:
            raise LedgerClosedError(
                f"{self.topic}: the managed ledger is closed on this broker; look up the topic again"
            )

    async def first_ledger(self, ended: Step) -> NewLedger:
        return await self._ledgers.begin(self._store, self.clock, self._appender.group_done, ended)

    async def next_ledger(self, pause: Step, end: Step) -> NewLedger:
        return await self._ledgers.follow(self._store, self.clock, self._appender.group_done, pause, end)

    def entries_durable(
        self, segment: Segment, first: int, entries: list[bytes], contexts: list[Context], index: EntryIndex
    ) -> None:
        self._tail.append(segment.ledger_id, first, entries, index)
        self._last = segment.last_position
        self.on_durable(contexts, Position(segment.ledger_id, first))

    def entries_failed(self, contexts: list[Context], error: LedgerError) -> None:
        if contexts:
            self.on_failed(contexts, error)
        if isinstance(error, LedgerFencedError):
            self.fenced(error)

    def ledger_closed(self, segment: Segment) -> None:
        segment.closed = True
        self._storage.caches.readers.add(segment)

    async def ledger_rolled(self, end: Step) -> None:
        with suppress(LedgerError):  # the closed length is in the next write of the record, or is recovered
            await self._ledgers.followed(end)
        self._trim_soon()

    def fenced(self, error: LedgerFencedError) -> None:
        """Stop permanently, because a later owner has the topic: call `on_failed` for all entries without a result,
        then call `on_fenced`. Later calls do nothing.
        """
        if self._state in (_State.FENCED, _State.CLOSED):
            return
        self._state, self._fence = _State.FENCED, error
        self._cursors.abandon()
        log.warning("managed_ledger_fenced", topic=self.name, epoch=error.epoch, reason=str(error))
        if failed := self._appender.stop():
            self.on_failed(failed, error)
        self.on_fenced(error)

    # ---- the topic ----

    @property
    def name(self) -> str:
        return str(self.topic)

    @property
    def epoch(self) -> int:
        return self._keeper.epoch

    @property
    def properties(self) -> Mapping[str, str]:
        return self._ledgers.properties

    async def update_properties(self, properties: Mapping[str, str]) -> None:
        """Add the given properties to the topic's properties, replace those of the same name, and store them all. After
        a LedgerUnavailableError the change applies in memory, and it is unknown whether it is stored.
        """
        self.check_open()
        self._ledgers.properties = {**self._ledgers.properties, **properties}
        await self._ledgers.save()

    async def replace_properties(self, properties: Mapping[str, str]) -> None:
        """Replace all properties of the topic by the given ones, and store them. After a LedgerUnavailableError the
        change applies in memory, and it is unknown whether it is stored.
        """
        self.check_open()
        self._ledgers.properties = dict(properties)
        await self._ledgers.save()

    # ---- termination ----

    @property
    def terminated_at(self) -> Position | None:
        """The position of the last entry of a terminated topic; EARLIEST if the topic was terminated and never had an
        entry; None if the topic was not terminated.
        """
        return self._ledgers.terminated_at

    async def terminate(self) -> Position:
        """Terminate the topic: refuse appends from now on, wait until the earlier appends are durable or have failed,
        and store that the topic ends after them. Return the position of the last entry. If the topic is terminated
        already, return the same position again.

        The caller must not call this again while a call is running. After an error, appends are still refused, because
        the end may be stored: the caller has to call this method again.

        Raises:
            LedgerFencedError: a later owner has the topic.
            LedgerClosedError: the topic is closed or closing.
            LedgerUnavailableError: the metadata store did not answer.
        """
        self.check_open()
        self.is_ended = True
        await self._appender.finish()
        self.check_open()
        if self._ledgers.terminated_at is None:
            self._ledgers.terminated_at = self._last
        await self._ledgers.save()
        return self._ledgers.terminated_at

    # ---- reading ----

    @property
    def segments(self) -> Segments:
        return self._segments

    @property
    def last_position(self) -> Position:
        """The position of the last durable entry; EARLIEST if the topic never had an entry."""
        return self._last

    def next_valid(self, position: Position) -> Position:
        """Return the position of the first entry after `position` (exclusive); if there is none, the position after the
        topic's last entry.
        """
        return self._segments.next_valid(position)

    @property
    def stats(self) -> ManagedLedgerStats:
        return ManagedLedgerStats.of(self._segments)

    def read_cached(
        self, start: Position, max_entries: int, max_bytes: int, max_messages: int | None = None
    ) -> list[Entry] | None:
        """Return what `read` would return, if the first entry is in memory. Return an empty list at the end of the
        topic. Return None if the first entry is not in memory, so that the caller has to call `read`.
        """
        return [] if start > self._last else self._reads.read_cached(start, max_entries, max_bytes, max_messages)

    def cached_run(
        self, start: Position, max_entries: int, max_bytes: int, max_messages: int | None = None
    ) -> EntryRun | None:
        """Return the entries that `read_cached` would return, as one `EntryRun`. Return None if the first entry is not
        in memory, and also at the end of the topic.
        """
        return None if start > self._last else self._reads.cached_run(start, max_entries, max_bytes, max_messages)

    @property
    def last_interval(self) -> tuple[Interval, float]:
        """Two values of the last completed statistics interval: the counts of the entries that became durable, and the
        number of entries that were read per second.
        """
        return self._appender.last_interval, self._reads.rate

    def end_interval(self, seconds: float) -> None:
        """End the current statistics interval, which lasted `seconds`, and begin the next one."""
        self._appender.end_interval(seconds)
        self._reads.end_interval(seconds)

    @property
    def damaged_ledgers(self) -> list[DamagedLedger]:
        """The ledgers in which damage was found since the topic was opened, each with its damaged entries."""
        return list(self._losses)

    def entries_missing(self) -> None:
        """Called after entries were found to be missing. Determine the topic's last entry again, and start to delete
        ledgers that no cursor needs any more, because all their unacknowledged entries are missing.
        """
        self._last = self._segments.last_position
        self._trim_soon()

    async def read(
        self, start: Position, max_entries: int, max_bytes: int, max_messages: int | None = None
    ) -> list[Entry]:
        """Return the entries from `start` (inclusive) on, oldest first; an empty list at the end of the topic.

        At least one entry is returned if there is one. The result ends after `max_entries` entries, before the entry
        with which it would exceed `max_bytes` in total, or after the entry with which it reaches `max_messages`
        messages (None: no limit). It also ends at the end of a ledger, so it may have fewer entries than the limits
        allow.

        Raises:
            LedgerCorruptedError, LedgerNotFoundError, LedgerUnreadableError: the first entry cannot be read, and the
                settings do not allow to skip it.
        """
        return await self._reads.read(start, max_entries, max_bytes, max_messages)

    async def info(self, position: Position) -> EntryInfo | None:
        """Return size, message count and publish time of the entry at `position`; None if this entry does not exist."""
        return await self._reads.info(position)

    async def messages_in(self, stretch: Stretch) -> int:
        """Return the number of messages in a stretch (consecutive entries of one ledger); 0 if its ledger was deleted
        after the stretch was computed. `Segment.messages_between` says when the number is an estimate.

        Raises:
            LedgerCorruptedError, LedgerNotFoundError, LedgerUnreadableError: the ledger cannot be opened.
        """
        return await self._reads.messages_in(stretch)

    async def find_by_publish_time(self, time_ms: int, start: Position = EARLIEST) -> Position | None:
        """Return the position of the first entry, from `start` (inclusive) on, that was published at `time_ms` (ms
        since 1970) or later. None if all entries from `start` on are older.
        """
        return await self._reads.find_by_publish_time(time_ms, start)

    # ---- cursors ----

    @property
    def cursors(self) -> Mapping[str, Cursor]:
        """The durable cursors by name."""
        return self._cursors.by_name

    def is_deleting(self, cursor: str) -> bool:
        return cursor in self._cursors.deleting

    async def open_cursor(
        self,
        name: str,
        initial: Position | Literal["earliest", "latest"] = "latest",
        properties: Mapping[str, str] | None = None,
    ) -> Cursor:
        """Return the durable cursor `name`, which is created if it does not exist.

        `initial` and `properties` are used only if the cursor is created. `initial` says which entries it delivers.
        "earliest": all entries that exist, and later ones. "latest": only entries that are appended from now on. A
        position: the entry at that position and all entries after it.

        Raises:
            LedgerFencedError, LedgerClosedError, LedgerUnavailableError: the cursor cannot be stored.
        """
        self.check_open()
        known = self._cursors.by_name.get(name)
        if known is not None:
            return known
        return await self._cursors.create(name, self._mark_for(initial), properties or {})

    def _mark_for(self, initial: Position | Literal["earliest", "latest"]) -> Position:
        if initial == "latest":
            return self._last
        if initial == "earliest" or initial <= EARLIEST:
            return EARLIEST
        ledger_id, entry_id = initial
        return min(Position(ledger_id, max(entry_id - 1, -1)), self._last)

    def new_non_durable_cursor(self, start: Position | Literal["earliest", "latest"], name: str = "reader") -> Cursor:
        """Return a new cursor that exists in memory only. It delivers the entries from `start` (inclusive) on, with the
        meaning that `initial` has in `open_cursor`. Entries that it has not acknowledged may be trimmed.
        """
        self.check_open()
        return Cursor(self, name, self._mark_for(start), keeper=None, properties={})

    async def delete_cursor(self, name: str) -> None:
        """Delete a durable cursor. It is no error if it does not exist."""
        if await self._cursors.delete(name):
            self._trim_soon()

    def cursor_moved(self, before: Position, after: Position) -> None:
        """Called when the mark-delete position of a cursor has changed from `before` to `after`. If the cursor may have
        been the last one that needed a ledger, start to delete ledgers that no cursor needs any more.
        """
        if after.ledger_id != before.ledger_id or self._segments.ends_at(after):
            self._trim_soon()

    # ---- trimming ----

    def roll_if_old(self) -> None:
        """Continue in a new ledger, if the current one has entries and is older than the setting `max_ledger_age_ms`.
        Without this, a ledger of a topic with few entries would never end, and retention deletes whole ledgers only.
        """
        age_ms = self.settings.max_ledger_age_ms
        if age_ms and self._state is _State.OPEN:
            self._appender.roll_begun_before(self.clock.now_ms() - age_ms)

    def trim(self) -> None:
        """Start to delete, in the background, the ledgers that all cursors have consumed and that retention does not
        keep any more. The caller calls this regularly, and after a change of the retention. After acknowledgements the
        deletion starts without this call.
        """
        self._trim_soon()

    def _deletable(self) -> list[Segment]:
        """Return the ledgers that all durable cursors have passed and that retention does not keep, oldest first."""
        marks = [cursor.mark_delete for cursor in self.cursors.values()]
        consumed = self._segments.consumed(self._last, marks)
        return released(consumed, self._segments, self.settings.retention, self.clock.now_ms())

    def _trim_soon(self) -> None:
        if self._trimming or self._state is not _State.OPEN or not (self._ledgers.has_dropped or self._deletable()):
            return
        self._trimming = True
        self.start(self._trim(), f"trim-{self.topic}")

    async def _trim(self) -> None:
        """Take the ledgers that can be deleted off the topic's list, store the list, then delete the ledgers. After a
        crash between the last two steps, the next owner deletes them.
        """
        try:
            for segment in self._deletable():
                self._ledgers.drop(segment)
            await self._ledgers.save()
            await self._ledgers.delete_dropped()
        except LedgerFencedError:
            return
        except LedgerError as error:
            log.warning("ledgers_not_trimmed", topic=self.name, error=str(error))
        finally:
            self._trimming = False

    # ---- closing ----

    def start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        return self._tasks.start(work, name)

    async def settled(self) -> None:
        """Wait until no compaction and no background task of this topic is running: no change of ledger, no deletion of
        ledgers, and no write of a cursor.
        """
        await self.compacted.ended()
        while len(self._tasks):
            await self._tasks.ended()

    async def close(self) -> None:
        """Wait until the results of all appends are reported, write the cursors and the list of ledgers, and release
        all resources. Idempotent.

        Raises no error: if the metadata store does not accept a write, this is logged, and the next owner recovers the
        state.
        """
        if self._close_task is None:
            self._close_task = asyncio.get_running_loop().create_task(self._close(), name=f"close-{self.topic}")
        await asyncio.shield(self._close_task)

    async def _close(self) -> None:
        is_open = self._state is _State.OPEN
        if is_open:
            self._state = _State.CLOSING
        await self.compacted.stop()
        if is_open:
            await self._appender.finish()
            await self._store_last_state()
            self._appender.stop()
        await self._tasks.ended()
        self._release_readers()
        if self._state is not _State.FENCED:
            self._state = _State.CLOSED

    async def _store_last_state(self) -> None:
        """Write the cursors and the list of ledgers at the same time, because a metadata store may store several
        concurrent writes in one group.
        """
        for segment in [s for s in self._segments if s.closed and not s.entries]:
            self._ledgers.drop(segment)
        writes = (*(cursor.close() for cursor in self._cursors.by_name.values()), self._ledgers.save(is_open=False))
        for error in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(error, LedgerError):
                log.warning("managed_ledger_not_closed_in_store", topic=self.name, error=str(error))
            elif error is not None:
                raise error

    def _release_readers(self) -> None:
        self._cursors.abandon()
        self._tail.clear()
        if self._registered:
            self._storage.caches.unregister(self._keeper.path)
            self._registered = False
        self.compacted.release()
        self._ledgers.release_readers()

    async def delete(self) -> None:
        """Close the topic and delete its ledgers, cursors and record.

        Raises:
            LedgerFencedError: a later owner has the topic.
            LedgerUnavailableError: the metadata store did not answer; open the topic and delete it again.
        """
        self.check_open()
        self._state = _State.CLOSING
        await self.compacted.stop()
        await self._appender.finish()
        for segment in list(self._segments):
            self._ledgers.drop(segment)
        self.compacted.drop_all()
        await self._ledgers.save(is_open=False)
        await self._ledgers.delete_dropped()
        for name in [*self._cursors.by_name, *self._cursors.deleting]:
            await self.delete_cursor(name)
        await self._keeper.delete()
        await self._tasks.ended()
        self._release_readers()
        self._state = _State.CLOSED
