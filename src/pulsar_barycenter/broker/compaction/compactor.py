"""Compacts a topic in two phases: the first finds the newest message of each key, the second writes these messages.

Both phases read the same entries: those that the last compaction kept, then all after its horizon, up to the last entry
that was durable when the first phase began. That entry is the new horizon. Entries that are written during a compaction
are left to the next one.

- A message without a key is dropped, or kept with `topicCompactionRetainNullKey`.
- A tombstone (a null value, or an empty payload) deletes its key and is dropped itself.
- In a batch, kept messages keep their index, and the others stay as empty messages that are marked `compacted_out`. A
  batch that cannot be read is kept as a whole: its keys are not known, so it does not replace earlier messages and is
  not replaced.
- A message in chunks is as new as its last chunk. It is also kept if its last chunk is missing.

**Memory**: the keys of the topic with an integer each; with a strategy also the newest payload of each key. Entries are
streamed. Other tasks of the event loop run at least after every 256 messages.

Source: Pulsar's `AbstractTwoPhaseCompactor`, `PublishingOrderCompactor` and `StrategicTwoPhaseCompactor`. Differences:
Pulsar keeps only the last chunk of a message, and its strategic compactor has whole messages in memory and packs them
into new batches.
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
"""A compaction strategy, as a function. It gets two payloads: of the message that is valid for a key so far, and of a
later one (None for a tombstone). It returns whether the earlier message stays valid. It has no side effects.
Source: Pulsar's `TopicCompactionStrategy.shouldKeepLeft`.
"""

READ_ENTRIES: Final = 500
READ_BYTES: Final = 1 << 20
_WORD: Final = 2**64 - 1
_MESSAGES_IN_ONE_STEP: Final = 256
"""The number of messages after which other tasks of the event loop run."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction. The topic is read twice: the first phase finds the newest message of each key, the
    second writes these messages to a new ledger. `messages_read` and `bytes_read` count what the second phase read;
    `messages_kept`, `entries` and `size` (bytes) count what it wrote.
    """

    messages_read: int
    messages_kept: int
    bytes_read: int
    entries: int
    size: int

    @property
    def removed(self) -> int:
        return self.messages_read - self.messages_kept


class _Survivors:
    """The newest message of each key of a topic. In the first phase of a compaction all messages are recorded here
    (`note`); in the second phase `keeps` returns whether a message is the newest of its key.
    """

    __slots__ = ("_keeps_earlier", "_newest", "_payloads", "_retain_null_key", "_unfinished")

    def __init__(self, retain_null_key: bool, keeps_earlier: KeepsEarlier | None) -> None:
        self._retain_null_key = retain_null_key
        self._keeps_earlier = keeps_earlier
        self._newest: dict[str, int | str] = {}
        """The number of the newest message of a key (see `_number`), or its uuid if it has chunks."""
        self._payloads: dict[str, bytes] = {}
        self._unfinished: set[str] = set()

    @property
    def compares_payloads(self) -> bool:
        return self._keeps_earlier is not None

    def note(self, key: str | None, number: int, *, is_tombstone: bool, payload: bytes = b"") -> None:
        """Record the next message of the topic as the newest of its key. `number` is its position (see `_number`). A
        tombstone is a message without payload, which deletes its key. `payload` is used only if the topic has a
        compaction strategy, which compares payloads to decide whether the earlier message stays the newest.
        """
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
    """Return the position of a message, and its index in a batch, as one integer. It needs less memory, and a later
    message has a higher number.
    """
    return (position.ledger_id << 84) | (position.entry_id << 20) | (index + 1)


class Compactor:
    """One compaction of a topic."""

    __slots__ = ("_bytes_read", "_kept", "_ledger", "_read", "_since_pause", "_survivors")

    def __init__(
        self, ledger: ManagedLedger[Any], *, retain_null_key: bool = False, keeps_earlier: KeepsEarlier | None = None
    ) -> None:
        self._ledger = ledger
        self._survivors = _Survivors(retain_null_key, keeps_earlier)
        self._since_pause = 0
        self._read = self._kept = self._bytes_read = 0

    async def run(self) -> Compacted | None:
        """Compact the topic. If nothing was written to it since its last compaction, change nothing and return None.

        Raises:
            LedgerError: the topic could not be read, or the compacted ledger not written. The topic has not changed.
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
        """Yield the entries that the last compaction kept, then the entries after the horizon of that compaction, up to
        `upto` (inclusive).
        """
        ledger = self._ledger
        position = EARLIEST
        while True:
            kept, position = await ledger.compacted.read(position, READ_ENTRIES, READ_BYTES)
            if not kept:
                break
            for kept_entry in kept:
                yield kept_entry
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
        except MalformedFrameError as error:  # clients could not read it either
            log.warning("entry_not_compacted", topic=self._ledger.name, position=str(entry.position), error=str(error))
            return None

    async def _pass(self, messages: int = 1) -> None:
        """Count `messages` processed messages. After each _MESSAGES_IN_ONE_STEP, let other tasks of the event loop
        run.
        """
        self._since_pause += messages
        if self._since_pause >= _MESSAGES_IN_ONE_STEP:
            self._since_pause = 0
            await asyncio.sleep(0)

    # ---- phase one ----

    async def _note(self, entry: Entry) -> None:
        content = await self._content(entry)
        await self._pass()
        if isinstance(content, Single):
            needs_payload = self._survivors.compares_payloads and content.key is not None and not content.is_tombstone
            payload = await content.payload() if needs_payload else b""
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
        """Record the messages of a batch, up to the first one that cannot be read, exclusive. The second phase keeps a
        batch with such a message as a whole.
        """
        needs_payload = self._survivors.compares_payloads
        index = 0
        try:
            for index, message in enumerate(batch.messages()):
                if not message.is_compacted_out:
                    payload = batch.payload[message.payload_begin : message.end] if needs_payload else b""
                    number = _number(position, index)
                    self._survivors.note(message.key, number, is_tombstone=message.is_tombstone, payload=payload)
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
        """Write an entry with those messages of a batch that are kept; write nothing if none is kept."""
        kept: list[InBatch | None] = []
        there = 0
        try:
            for index, message in enumerate(batch.messages()):
                there += not message.is_compacted_out
                number = _number(entry.position, index)
                is_kept = not message.is_compacted_out and self._survivors.keeps(message.key, number)
                kept.append(message if is_kept else None)
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
    """Return the bit set of the kept messages of a batch, as the 64-bit words of `KeptEntry`."""
    bits = int("".join("01"[message is not None] for message in reversed(kept)), 2)
    return [(bits >> shift) & _WORD for shift in range(0, bits.bit_length(), 64)]
