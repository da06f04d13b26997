"""The list of a topic's ledgers, in the topic's record: takes the list over from the former owner, recovers, adds and
deletes ledgers.

The order of the steps makes them safe. A ledger's file is created before the ledger is listed. If the write of the list
succeeds, no later owner has read the list yet, so every later owner finds the ledger and fences it. A ledger is taken
off the list before its file is deleted, and is listed under `deleting` until then. So the next open completes a
deletion that a crash interrupted.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import structlog
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from pulsar_barycenter.ledger.errors import (
    LedgerError,
    LedgerFencedError,
    LedgerNotFoundError,
    LedgerUnavailableError,
)
from pulsar_barycenter.ledger.managed.losses import LOSSES, Losses
from pulsar_barycenter.ledger.managed.records import LedgerRecord, ManagedLedgerRecord, RecordKeeper
from pulsar_barycenter.ledger.managed.segments import LedgerOwner, Segment, Segments, record_of, segment_of
from pulsar_barycenter.ledger.managed.succession import Step, Succession
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.ledger.storage import LedgerStorage, LedgerWriter
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

GroupDone: TypeAlias = Callable[[Segment, int, LedgerError | None], None]
NewLedger: TypeAlias = tuple[Segment, LedgerWriter]
NewLedgerTask: TypeAlias = asyncio.Task[NewLedger]
"""A task that creates the ledger for the next append."""

_MAX_DRAWS: Final = 100


class LedgerList:
    """The list of the ledgers of the managed ledger `owner`. `keeper` reads and writes the topic's record, which has
    the list. `succession` says in which order a new ledger is listed and the former ledger is ended.
    """

    __slots__ = (
        "_deleting",
        "_keeper",
        "_losses",
        "_owner",
        "_storage",
        "_succession",
        "_unlisted",
        "compacted",
        "properties",
        "segments",
        "terminated_at",
    )

    def __init__(
        self,
        owner: LedgerOwner,
        storage: LedgerStorage,
        keeper: RecordKeeper[ManagedLedgerRecord],
        succession: Succession,
        losses: Losses,
    ) -> None:
        self._owner = owner
        self._losses = losses
        self._storage = storage
        self._keeper = keeper
        self._succession = succession
        self.segments = Segments()
        self._deleting: list[int] = []
        self._unlisted: frozenset[int] = frozenset()
        """The ledgers that the stored record names as being deleted. Only these may be deleted: the stored list may
        still contain another one of `_deleting`, and the next owner has to find it if no later write succeeds.
        """
        self.compacted: list[LedgerRecord] = []
        """The compacted ledgers whose files may exist, in force or not, oldest first."""
        self.properties: dict[str, str] = {}
        self.terminated_at: Position | None = None
        """The position of the last entry of a terminated topic; None if the topic was not terminated."""

    @property
    def has_dropped(self) -> bool:
        """Whether there are ledgers that were taken off the list, and whose deletion is not complete."""
        return bool(self._deleting)

    # ---- taking over ----

    def create_ahead(self, store: MetadataStore, clock: Clock, group_done: GroupDone) -> NewLedgerTask | None:
        """Start to create the ledger for the next append, before this owner has taken over the topic. The caller later
        passes the returned task to `take_over`, or to `undo` if it does not take over the topic. Return None, and
        create nothing, if the form of the records does not permit this. `group_done` is called as `begin` describes.
        """
        return self._succession.ahead(lambda: self._make(store, clock, group_done))

    async def take_over(self, *, create: bool, alone: bool, making: NewLedgerTask | None) -> NewLedger | None:
        """Write this owner's epoch into the topic's record. After that, the former owner's writes to the record fail.

        `create`: if the topic does not exist, create its record. `alone` is True if nothing else in this process has
        the topic open. `making` is the result of `create_ahead`. If it is given, and the topic's list is not empty and
        its last ledger is closed, then the new ledger is listed in the same write, and is returned. Otherwise None is
        returned, and the new ledger is deleted in the background.

        Raises:
            LedgerFencedError: an owner of this or a higher epoch has the topic.
            LedgerNotFoundError: the topic does not exist and `create` is False.
            LedgerUnavailableError: the metadata store did not answer. The new ledger is not deleted, because the stored
                list may contain it.
        """
        is_listed = True  # or may be listed, if it is unknown whether the record was written
        made = None
        try:
            made = await self._take_over(create, alone, making)
            is_listed = made is not None
        except (LedgerFencedError, LedgerNotFoundError):
            is_listed = False
            raise
        finally:
            if made is None and making is not None:
                self.undo(making, is_listed=is_listed)
        return made

    def undo(self, making: NewLedgerTask, *, is_listed: bool) -> None:
        """In the background, close the ledger that the task `making` creates, and delete it.

        If `is_listed` is True, the stored list may contain the ledger. Then it is closed but not deleted, because the
        next owner has to find it.
        """
        self._owner.start(self._undo(making, is_listed=is_listed), f"undo-ledger-{self._owner.name}")

    async def _take_over(self, create: bool, alone: bool, making: NewLedgerTask | None) -> NewLedger | None:
        keeper = self._keeper
        while True:
            record = await self._read(create, alone)
            may_list = record.ledgers and record.ledgers[-1].closed  # one open ledger at the most
            made = await self._made(making, record.ledgers) if making is not None and may_list else None
            ledgers = record.ledgers if made is None else (*record.ledgers, record_of(made[0]))
            identity = self._storage.identity
            if await keeper.take_over(
                replace(record, epoch=keeper.epoch, open=True, opened_by=identity, ledgers=ledgers)
            ):
                break
            log.debug("managed_ledger_changed_while_opened", topic=self._owner.name)
        self._adopt(record)
        if made is not None:
            self.segments.append(made[0])
        return made

    async def _read(self, create: bool, alone: bool) -> ManagedLedgerRecord:
        keeper = self._keeper
        record = await keeper.load()
        if record is None:
            if not create:
                raise LedgerNotFoundError(f"{self._owner.name}: the topic does not exist")
            return ManagedLedgerRecord()
        if record.epoch > keeper.epoch or (record.epoch == keeper.epoch and self._may_be_open(record, alone)):
            raise LedgerFencedError(keeper.path, keeper.epoch, record.epoch)
        return record

    async def _made(self, making: NewLedgerTask, before: Sequence[LedgerRecord]) -> NewLedger | None:
        """Wait for the task `making`, and return the ledger that it created. Return None if it failed, or if the last
        ledger in `before`, the stored list, has a higher id, because a former owner that still runs has created it
        later.
        """
        await asyncio.wait([making])
        if (error := making.exception()) is not None:
            log.warning("ledger_not_made_ahead", topic=self._owner.name, error=str(error))
            return None
        return made if (made := making.result())[0].ledger_id > before[-1].ledger_id else None

    async def _undo(self, making: NewLedgerTask, *, is_listed: bool) -> None:
        with suppress(LedgerError):
            segment, writer = await making
            await writer.close()
            if not is_listed:
                await self._storage.delete(segment.ledger_id)

    def _may_be_open(self, record: ManagedLedgerRecord, alone: bool) -> bool:
        """Return whether another owner may still use the topic: the owner that wrote `record` last.

        Return False if that owner has closed the topic. Return False too if that owner is this process, and nothing
        else in this process has the topic open (`alone` is True); this is so after an interrupted open or close.
        """
        return record.open and (record.opened_by != self._storage.identity or not alone)

    def _adopt(self, record: ManagedLedgerRecord) -> None:
        self.properties = dict(record.properties)
        self._deleting = list(record.deleting)
        self._unlisted = frozenset(record.deleting)
        self.compacted = list(record.compacted_ledgers)
        self.terminated_at = None if isinstance(record.terminated, UnsetType) else Position(*record.terminated)
        for ledger in record.ledgers:
            self.segments.append(segment_of(ledger))

    async def recover(self) -> None:
        """Recover the ledgers that the former owner left open: fence each one, close it with the number of entries
        found, and store the list.

        A ledger that is absent or completely unreadable stays open in the list, so that a later open of the topic
        recovers it when it is available again. Until then it counts as a ledger of one unreadable entry, so that
        readers notice the loss.

        Raises:
            LedgerFencedError: a later owner has fenced a ledger.
        """
        left_open = [segment for segment in self.segments if not segment.closed and segment.reader is None]
        for segment in left_open:
            try:
                segment.reader = recovered = await self._storage.fence(segment.ledger_id, epoch=self._keeper.epoch)
            except LOSSES as error:
                segment.entries = 1
                self._losses.not_recovered(segment, error)
                continue
            segment.recovered(recovered.entry_count, recovered.totals)
            segment.closed = True
            self._losses.opened(segment, recovered)
            if segment.entries:
                self._storage.caches.readers.add(segment)
            else:
                self.drop(segment)
            log.info(
                "ledger_recovered", topic=self._owner.name, ledger=segment.ledger_id, entries=segment.entries,
                epoch=self._keeper.epoch,
            )  # fmt: skip
        if left_open:
            await self.save()

    # ---- the list ----

    async def begin(self, store: MetadataStore, clock: Clock, group_done: GroupDone, ended: Step) -> NewLedger:
        """Create a ledger and list it. Call this when no ledger of the topic is being written. `ended` is a function
        that waits until the former ledger is closed.

        After each group of entries, the writer of the new ledger calls `group_done` with the ledger, the id of the last
        durable entry, and None. After a failure it calls `group_done` with the ledger, the id of the first entry that
        failed, and the error.

        Raises:
            LedgerFencedError, LedgerFullError, LedgerUnavailableError: there is no new ledger to write.
        """
        return await self._succession.begin(lambda: self._make(store, clock, group_done), self._add, ended)

    async def follow(
        self, store: MetadataStore, clock: Clock, group_done: GroupDone, pause: Step, end: Step
    ) -> NewLedger:
        """While a ledger is being written, create its successor and list it. `pause` is called to make appends wait
        until all entries of the old ledger are reported, and `end` to end the old ledger, if it has to end before the
        successor is listed. When appends continue in the new ledger, the caller calls `followed`. For the other
        arguments and the errors see `begin`.
        """
        return await self._succession.follow(lambda: self._make(store, clock, group_done), self._add, pause, end)

    async def followed(self, end: Step) -> None:
        """Call `end` to end the former ledger, and write the topic's record once more, unless `follow` has done so.

        Raises:
            LedgerFencedError: a later owner has written the record; the managed ledger is fenced then.
            LedgerUnavailableError: the metadata store did not accept the record.
        """
        await self._succession.followed(end, self.save)

    async def _add(self, new: NewLedger) -> None:
        """Add a new ledger to the list, and store the list. If storing fails, close the ledger and raise the error. The
        ledger is then deleted at once; but if the stored list may contain it (LedgerUnavailableError), it is deleted
        after a later write of the list.
        """
        segment, writer = new
        self.segments.append(segment)
        try:
            await self.save()
        except LedgerError as error:
            self.segments.remove(segment)
            await writer.close()
            if isinstance(error, LedgerUnavailableError):
                # it may be listed; it is deleted when the list can be written again
                self._deleting.append(segment.ledger_id)
            else:
                await self._storage.delete(segment.ledger_id)
            raise

    async def new_id(self, store: MetadataStore) -> int:
        """Return the id for a new ledger, which is higher than all ids in the topic's record. Lower ids are passed
        over: a counter of ids that was deleted, or restored from an older copy, begins below them.

        Raises:
            LedgerError: the counter gave _MAX_DRAWS lower ids; later calls continue after them.
            LedgerUnavailableError: the metadata store did not answer.
        """
        listed = [segment.ledger_id for segment in self.segments]
        highest = max([*listed, *self._deleting, *(record.ledger_id for record in self.compacted)], default=-1)
        ledger_id = -1
        for _ in range(_MAX_DRAWS):
            ledger_id = await self._storage.new_id(store, lambda work: self._owner.start(work, "forget-ledger-id-key"))
            if ledger_id > highest:
                return ledger_id
        raise LedgerError(
            f"{self._owner.name}: the counter of ledger ids is at {ledger_id}, but this topic has had the ledger"
            f" {highest}: the counter was deleted, or restored from an older copy. Each attempt to store a message"
            f" advances it by {_MAX_DRAWS}; try again until it is above {highest}"
        )

    async def _make(self, store: MetadataStore, clock: Clock, group_done: GroupDone) -> NewLedger:
        """Create a ledger that is not listed yet."""
        ledger_id = await self.new_id(store)
        segment = Segment(ledger_id, created_at_ms=clock.now_ms())
        report = partial(group_done, segment)
        writer = await self._storage.create(ledger_id, epoch=self._keeper.epoch, on_durable=report)
        segment.reader = writer.reader
        return segment, writer

    async def save(self, *, is_open: bool = True) -> None:
        """Write the topic's record with the present list. `is_open` False stores that this owner has closed the topic.

        Raises:
            LedgerFencedError: a later owner has written the record; the managed ledger is fenced then.
            LedgerUnavailableError: the metadata store did not accept the record.
        """
        keeper = self._keeper
        async with keeper.lock:
            record = ManagedLedgerRecord(
                epoch=keeper.epoch,
                open=is_open,
                opened_by=self._storage.identity,
                ledgers=tuple(map(record_of, self.segments)),
                deleting=tuple(self._deleting),
                compacted=tuple(self.compacted) or UNSET,
                terminated=UNSET if self.terminated_at is None else self.terminated_at,
                properties=self.properties,
            )
            try:
                await keeper.write(record)
            except LedgerFencedError as error:
                self._owner.fenced(error)
                raise
            self._unlisted = frozenset(record.deleting)

    def drop(self, segment: Segment) -> None:
        """Take a ledger off the list in memory. The caller then calls `save`, which stores the list, and
        `delete_dropped`, which deletes the ledger.
        """
        self.segments.remove(segment)
        self._storage.caches.readers.remove(segment)
        self._losses.dropped(segment)
        self._deleting.append(segment.ledger_id)

    def drop_compacted(self, ledger_id: int) -> None:
        """Take a compacted ledger off the list in memory. The caller then calls `save` and `delete_dropped`, as after
        `drop`. Idempotent.
        """
        kept = [record for record in self.compacted if record.ledger_id != ledger_id]
        if len(kept) < len(self.compacted):
            self.compacted = kept
            self._deleting.append(ledger_id)

    async def delete_dropped(self) -> None:
        """Delete the ledgers that were taken off the list, except those that the stored list may still contain, because
        they were taken off after the last successful `save`.
        """
        for ledger_id in [ledger_id for ledger_id in self._deleting if ledger_id in self._unlisted]:
            await self._storage.delete(ledger_id)
            if ledger_id in self._deleting:
                self._deleting.remove(ledger_id)
            log.debug("ledger_deleted", topic=self._owner.name, ledger=ledger_id)

    def release_readers(self) -> None:
        for segment in self.segments:
            self._storage.caches.readers.remove(segment)
