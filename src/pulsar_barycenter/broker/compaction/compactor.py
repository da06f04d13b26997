"""Topic compaction in two phases: the first finds the newest message of each key, the second writes those.

Both go over the same entries: what the former compaction kept, then all that follows its horizon, up to the last entry
that was durable when the first began. That is the new horizon. Entries that are written while a compaction runs are
left to the next.

- A message without a key is dropped, or kept if `topicCompactionRetainNullKey` says so.
- A tombstone (a null value, or an empty payload) deletes its key and is itself dropped.
- Of a batch the messages that are kept stay where they are, the others are marked `compacted_out`. A batch that cannot
  be read is kept whole: its keys are unknown, so it neither replaces earlier messages nor is replaced.
- A message in chunks is as new as its last chunk. One whose last chunk has not come yet is kept.

**Memory**: the keys of the topic, with an integer each. With a strategy the newest payload of each key as well. The
entries themselves are streamed. The event loop has its turn after every 256 messages at the latest.

Source: Pulsar's `AbstractTwoPhaseCompactor`, `PublishingOrderCompactor` and `StrategicTwoPhaseCompactor`. Pulsar keeps
but the last chunk of a message; and its strategic compactor holds whole messages, and packs them into new batches.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import structlog

from pulsar_barycenter.broker.compaction.compression import UnreadablePayloadError
from pulsar_barycenter.broker.compaction.messages import Batch, Chunk, Content, InBatch, Opaque, Single, content_of
from pulsar_barycenter.ledger.managed.compacted_topic import CompactedLedgerWriter
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import EARLIEST, Entry, Position
from pulsar_barycenter.protocol.errors import MalformedFrameError

log = structlog.get_logger(__name__)

KeepsEarlier: TypeAlias = Callable[[bytes, bytes | None], bool]
"""A strategy: given the payload of the message of a key that is valid so far, and that of a later one (None if it is a
tombstone), tell whether the earlier stays. Pure. Pulsar's `TopicCompactionStrategy.shouldKeepLeft`."""

READ_ENTRIES: Final = 500
READ_BYTES: Final = 1 << 20
_WORD: Final = 2**64 - 1
_TURN: Final = 256
"""Messages after which the event loop has its turn."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did: messages and bytes as they were read in the second phase, and what was kept of them."""

    messages_read: int
    messages_kept: int
    bytes_read: int
    entries: int
    size: int

    @property
    def removed(self) -> int:
        return self.messages_read - self.messages_kept


class _Survivors:
    """The newest message of each key, found in the first phase and asked for in the second."""

    __slots__ = ("_keeps_earlier", "_newest", "_payloads", "_retain_null_key", "_unfinished")

    def __init__(self, retain_null_key: bool, keeps_earlier: KeepsEarlier | None) -> None:
        self._retain_null_key = retain_null_key
        self._keeps_earlier = keeps_earlier
        self._newest: dict[str, int | str] = {}
        """By key the message's number (see `_number`); of one in chunks their uuid."""
        self._payloads: dict[str, bytes] = {}
        self._unfinished: set[str] = set()

    @property
    def compares_payloads(self) -> bool:
        return self._keeps_earlier is not None

    def note(self, key: str | None, number: int, *, is_tombstone: bool, payload: bytes = b"") -> None:
        """Take a message into account; its payload is asked for by a strategy alone."""
        if key is None:
            return
        if self._keeps_earlier is not None:
            earlier = self._payloads.get(key)
            if earlier is not None and self._keeps_earlier(earlier, None if is_tombstone else payload):
                return
            if is_tombstone:
                self._payloads.pop(key, None)
            else:
                self._payloads[key] = payload
        if is_tombstone:
            self._newest.pop(key, None)
        else:
            self._newest[key] = number

    def note_chunk(self, chunk: Chunk) -> None:
        if not chunk.is_last:
            self._unfinished.add(chunk.uuid)
            return
        self._unfinished.discard(chunk.uuid)
        if chunk.key is not None:
            self._payloads.pop(chunk.key, None)
            self._newest[chunk.key] = chunk.uuid

    def keeps(self, key: str | None, number: int) -> bool:
        return self._retain_null_key if key is None else self._newest.get(key) == number

    def keeps_chunk(self, chunk: Chunk) -> bool:
        if chunk.uuid in self._unfinished:
            return True
        return self._retain_null_key if chunk.key is None else self._newest.get(chunk.key) == chunk.uuid


def _number(position: Position, index: int = -1) -> int:
    """Return a message's place as one integer, which takes less memory than a position and an index."""
    return (position.ledger_id << 84) | (position.entry_id << 20) | (index + 1)


class Compactor:
    """One compaction of a topic."""

    __slots__ = ("_bytes_read", "_kept", "_ledger", "_read", "_survivors", "_turn")

    def __init__(
        self, ledger: ManagedLedger[Any], *, retain_null_key: bool = False, keeps_earlier: KeepsEarlier | None = None
    ) -> None:
        self._ledger = ledger
        self._survivors = _Survivors(retain_null_key, keeps_earlier)
        self._turn = 0
        self._read = self._kept = self._bytes_read = 0

    async def run(self) -> Compacted | None:
        """Compact the topic; None, and nothing done, if nothing was written since it was compacted last.

        Raises:
            LedgerError: it could not be read or written. The topic is as it was.
        """
        compacted = self._ledger.compacted
        await compacted.open_cursor()
        horizon = self._ledger.last_position
        if horizon <= compacted.horizon:
            return None
        async for entry in self._entries(horizon):
            await self._note(entry)
        written = await compacted.begin()
        try:
            async for entry in self._entries(horizon):
                await self._write(entry, written)
            await written.finish()
        except BaseException:
            await compacted.give_up(written)
            raise
        await compacted.put_in_force(written, horizon)
        return Compacted(self._read, self._kept, self._bytes_read, written.entries, written.size)

    async def _entries(self, upto: Position) -> AsyncIterator[Entry]:
        """Yield what the former compaction kept, then the entries behind its horizon, up to `upto` inclusive."""
        ledger = self._ledger
        position = EARLIEST
        while True:
            kept, position = await ledger.compacted.read(position, READ_ENTRIES, READ_BYTES)
            if not kept:
                break
            for one in kept:
                yield one
        while position <= upto:
            entries = await ledger.read(position, READ_ENTRIES, READ_BYTES)
            if not entries:
                return
            for entry in entries:
                if entry.position > upto:
                    return
                yield entry
            last = entries[-1].position
            position = Position(last.ledger_id, last.entry_id + 1)

    async def _content(self, entry: Entry) -> Content:
        try:
            return await content_of(entry.data)
        except MalformedFrameError as error:  # no client could do anything with it
            log.warning("entry_not_compacted", topic=self._ledger.name, position=str(entry.position), error=str(error))
            return None

    async def _pass(self, messages: int = 1) -> None:
        """Account for messages that were looked at, and let others have their turn now and then."""
        self._turn += messages
        if self._turn >= _TURN:
            self._turn = 0
            await asyncio.sleep(0)

    # ---- phase one ----

    async def _note(self, entry: Entry) -> None:
        content = await self._content(entry)
        await self._pass()
        if isinstance(content, Single):
            wants = self._survivors.compares_payloads and content.key is not None and not content.is_tombstone
            payload = await content.payload() if wants else b""
            self._survivors.note(
                content.key, _number(entry.position), is_tombstone=content.is_tombstone, payload=payload
            )
        elif isinstance(content, Chunk):
            self._survivors.note_chunk(content)
        elif isinstance(content, Batch):
            await self._note_batch(entry.position, content)
        elif isinstance(content, Opaque):
            log.info("batch_kept_whole", topic=self._ledger.name, position=str(entry.position), reason=content.reason)

    async def _note_batch(self, position: Position, batch: Batch) -> None:
        """Take each message of a batch into account, as far as it can be read; the rest is kept with all of it."""
        wants = self._survivors.compares_payloads
        index = 0
        try:
            for index, one in enumerate(batch.messages()):
                if not one.is_compacted_out:
                    payload = batch.payload[one.payload_begin : one.end] if wants else b""
                    number = _number(position, index)
                    self._survivors.note(one.key, number, is_tombstone=one.is_tombstone, payload=payload)
                await self._pass()
        except UnreadablePayloadError as error:
            log.info(
                "batch_kept_whole", topic=self._ledger.name, position=str(position), index=index, reason=str(error)
            )

    # ---- phase two ----

    async def _write(self, entry: Entry, written: CompactedLedgerWriter) -> None:
        content = await self._content(entry)
        await self._pass()
        self._bytes_read += len(entry.data)
        if isinstance(content, Batch):
            await self._write_batch(entry, content, written)
        else:
            is_kept = self._is_kept(entry.position, content)
            messages = entry.num_messages if isinstance(content, Opaque) else 1
            self._read += messages
            self._kept += messages * is_kept
            if is_kept:
                await written.add(entry, entry.data)

    def _is_kept(self, position: Position, content: Content) -> bool:
        if isinstance(content, Single):
            return self._survivors.keeps(content.key, _number(position))
        if isinstance(content, Chunk):
            return self._survivors.keeps_chunk(content)
        return isinstance(content, Opaque)

    async def _write_batch(self, entry: Entry, batch: Batch, written: CompactedLedgerWriter) -> None:
        """Write what is left of a batch, if anything is."""
        kept: list[InBatch | None] = []
        there = 0
        try:
            for index, one in enumerate(batch.messages()):
                there += not one.is_compacted_out
                is_kept = not one.is_compacted_out and self._survivors.keeps(one.key, _number(entry.position, index))
                kept.append(one if is_kept else None)
                await self._pass()
        except UnreadablePayloadError:
            self._read += entry.num_messages
            self._kept += entry.num_messages
            await written.add(entry, entry.data)
            return
        left = len(kept) - kept.count(None)
        self._read += there
        self._kept += left
        if left:
            data = entry.data if left == there else await batch.keeping(kept)
            await written.add(entry, data, _words(kept) if left < len(kept) else ())


def _words(kept: Sequence[InBatch | None]) -> list[int]:
    """Return which messages of a batch are kept, as `KeptEntry` says it."""
    bits = int("".join("01"[one is not None] for one in reversed(kept)), 2)
    return [(bits >> at) & _WORD for at in range(0, bits.bit_length(), 64)]
