"""Keyed messages as producers send them, the expected result of compaction, and a process that dies at a step."""

import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from pulsar_barycenter.broker.compaction.messages import Batch, Chunk, Single, content_of
from pulsar_barycenter.ledger.errors import LedgerClosedError
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import EARLIEST, Entry, Position
from pulsar_barycenter.ledger.storage import LedgerStorage, LedgerWriter, OnDurable
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.frames import encode_entry, split_entry
from support.ledger_world import Owner

_CODECS = {int(api.LZ4): "lz4_raw", int(api.ZSTD): "zstd", int(api.SNAPPY): "snappy"}


class Message(NamedTuple):
    """`value` None is a null value."""

    key: str | None
    value: bytes | None


def compressed(kind: int, payload: bytes) -> bytes:
    if kind == api.NONE:
        return payload
    if kind == api.ZLIB:
        return zlib.compress(payload)
    return bytes(pa.Codec(_CODECS[kind]).compress(payload, asbytes=True))


def _metadata(**fields: Any) -> api.MessageMetadata:
    return api.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1_700_000_000_000, **fields)


def single(message: Message, kind: int = 0, *, time_ms: int | None = None) -> bytes:
    """Return the entry of one message."""
    payload = message.value or b""
    metadata = _metadata(uncompressed_size=len(payload), compression=kind or None)
    if time_ms is not None:
        metadata.publish_time = time_ms
    if message.key is not None:
        metadata.partition_key = message.key
    if message.value is None:
        metadata.null_value = True
    return encode_entry(metadata.SerializeToString(), compressed(kind, payload))


def batch(messages: Sequence[Message], kind: int = 0, **fields: Any) -> bytes:
    """Return the entry of a batch; `fields` are put into its metadata, correct or not."""
    parts = []
    for message in messages:
        value = message.value or b""
        one = api.SingleMessageMetadata(payload_size=len(value), null_value=message.value is None or None)
        if message.key is not None:
            one.partition_key = message.key
        head = one.SerializeToString()
        parts += [len(head).to_bytes(4, "big"), head, value]
    payload = b"".join(parts)
    sizes = {"num_messages_in_batch": len(messages), "uncompressed_size": len(payload)}
    metadata = _metadata(compression=kind or None, **(sizes | fields))
    return encode_entry(metadata.SerializeToString(), compressed(kind, payload))


def chunks(message: Message, uuid: str, count: int) -> list[bytes]:
    """Return the entries of one message that was cut into `count` parts."""
    value = message.value or b""
    metadata = _metadata(uuid=uuid, num_chunks_from_msg=count, total_chunk_msg_size=len(value))
    if message.key is not None:
        metadata.partition_key = message.key
    size = -(-len(value) // count)
    found = []
    for index in range(count):
        metadata.chunk_id = index
        found.append(encode_entry(metadata.SerializeToString(), value[index * size : (index + 1) * size]))
    return found


async def publish_entry(owner: Owner, entry: bytes, messages: int = 1) -> Position:
    """Append an entry, wait until it is durable, and return its position."""
    before = len(owner.durable)
    owner.ledger.append(entry, messages, 1_700_000_000_000, None)
    await owner.until(lambda: len(owner.durable) > before)
    return owner.positions[-1]


class Place(NamedTuple):
    """A message as a client receives it: its position, its index in the batch (-1 without one), key and value."""

    position: Position
    place: int
    key: str | None
    value: bytes | None


async def messages_in(entry: Entry) -> list[Place]:
    """Return the messages of an entry that a client passes to its application; for a chunked message each part."""
    content = await content_of(entry.data)
    if isinstance(content, Single):
        payload = await content.payload()
        null = content.metadata.null_value
        return [Place(entry.position, -1, content.key, None if null else payload)]
    if isinstance(content, Chunk):
        return [Place(entry.position, -1, content.key, split_entry(entry.data)[1])]
    assert isinstance(content, Batch), content
    return [
        Place(entry.position, index, one.key, content.payload[one.payload_begin : one.end])
        for index, one in enumerate(content.messages())
        if not one.is_compacted_out
    ]


async def compacted_entries(ledger: ManagedLedger[Any], start: Position = EARLIEST, *, at_once: int = 3) -> list[Entry]:
    """Return what a reader of the compacted topic gets."""
    found: list[Entry] = []
    position = start
    while True:
        kept, position = await ledger.compacted.read(position, at_once, 1 << 20)
        found += kept
        if not kept:
            break
    while entries := await ledger.read(position, at_once, 1 << 20):
        found += entries
        position = Position(entries[-1].position.ledger_id, entries[-1].position.entry_id + 1)
    return found


async def compacted_places(ledger: ManagedLedger[Any]) -> list[Place]:
    return [place for entry in await compacted_entries(ledger) for place in await messages_in(entry)]


def table_of(places: Sequence[Place]) -> dict[str, bytes]:
    """Return a table of the newest value of each key."""
    table: dict[str, bytes] = {}
    for place in places:
        if place.key is not None and place.value:
            table[place.key] = place.value
        elif place.key is not None:
            table.pop(place.key, None)
    return table


def newest_of(places: Sequence[Place]) -> list[Place]:
    """Return the expected result of compaction, computed slowly: the newest position of each key that was not
    deleted."""
    newest: dict[str, Place] = {}
    for place in places:
        if place.key is not None:
            newest.pop(place.key, None)
            if place.value:
                newest[place.key] = place
    return sorted(newest.values(), key=lambda place: (place.position, place.place))


# ------------------------------------------------------------------------------------------------ a process that dies


@dataclass
class Life:
    """A process whose external steps are counted: the step numbered `dies_at` is its last, and takes effect or not."""

    dies_at: int = -1
    takes_effect: bool = True
    steps: list[str] = field(default_factory=list)
    is_over: bool = False

    async def step(self, name: str, work: Callable[[], Awaitable[Any]], error: Exception) -> Any:
        if self.is_over:
            raise error
        self.steps.append(name)
        if len(self.steps) - 1 != self.dies_at:
            return await work()
        self.is_over = True
        if self.takes_effect:
            await work()
        raise error


class MortalStore:
    """A metadata store as seen by a process that may die."""

    def __init__(self, store: MetadataStore, life: Life) -> None:
        self._store = store
        self._life = life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put(self, path: str, value: bytes, **options: Any) -> Any:
        return await self._life.step(
            f"put {path}", lambda: self._store.put(path, value, **options), StoreUnavailableError(path, "dead")
        )

    async def delete(self, path: str, **options: Any) -> Any:
        return await self._life.step(
            f"delete {path}", lambda: self._store.delete(path, **options), StoreUnavailableError(path, "dead")
        )


class MortalStorage:
    """A ledger storage as seen by a process that may die."""

    def __init__(self, storage: LedgerStorage, life: Life) -> None:
        self._storage = storage
        self._life = life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def create(self, ledger_id: int, *, epoch: int, on_durable: OnDurable) -> LedgerWriter:
        def report(last: int, error: Any) -> None:
            if not self._life.is_over:
                on_durable(last, error)

        made: LedgerWriter = await self._life.step(
            "create", lambda: self._storage.create(ledger_id, epoch=epoch, on_durable=report), LedgerClosedError("dead")
        )
        return MortalWriter(made, self._life)

    async def delete(self, ledger_id: int) -> None:
        await self._life.step("delete", lambda: self._storage.delete(ledger_id), LedgerClosedError("dead"))


class MortalWriter:
    def __init__(self, writer: LedgerWriter, life: Life) -> None:
        self._writer = writer
        self._life = life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    async def close(self) -> None:
        await self._life.step("close", self._writer.close, LedgerClosedError("dead"))
