"""A metadata store and a disk that brokers share, and topics opened on them by one owner after another."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFencedError
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.managed.records import RECORDS_WITH_EPOCHS, RecordForm
from pulsar_barycenter.ledger.position import EARLIEST, Position, positions
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import TopicName
from support.memory_ledgers import MemoryDisk, MemoryLedgerStorage

DEADLINE_S = 30
TOPIC = TopicName.parse("persistent://tenant/space/topic")


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


class StorageFactory(Protocol):
    def __call__(self) -> LedgerStorage: ...


@dataclass
class Owner:
    """One owner of the topic, with everything that its managed ledger reported."""

    durable: list[tuple[object, Position]] = field(default_factory=list)
    failed: list[tuple[object, LedgerError]] = field(default_factory=list)
    fenced: list[LedgerFencedError] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ledger: ManagedLedger[Any] = field(init=False)
    storage: LedgerStorage = field(init=False)
    store: MetadataStore = field(init=False)

    def on_durable(self, contexts: list[object], first: Position) -> None:
        stop = first.entry_id + len(contexts)
        self.durable.extend(zip(contexts, positions(first.ledger_id, first.entry_id, stop), strict=True))
        self.changed.set()

    def on_failed(self, contexts: list[object], error: LedgerError) -> None:
        self.failed.extend((context, error) for context in contexts)
        self.changed.set()

    def on_fenced(self, error: LedgerFencedError) -> None:
        self.fenced.append(error)
        self.changed.set()

    @property
    def positions(self) -> list[Position]:
        return [position for _, position in self.durable]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def append(self, *texts: str, messages: int = 1, time_ms: int = 0) -> list[Position]:
        """Append entries and wait until each is durable; return their positions."""
        before = len(self.durable)
        for text in texts:
            self.ledger.append(text.encode(), messages, time_ms, text)
        await self.until(lambda: len(self.durable) >= before + len(texts))
        return self.positions[before:]

    async def append_numbers(self, count: int, *, group: int = 5) -> list[Position]:
        """Append "0", "1", …, a group at a time, letting the ledger roll in between."""
        for first in range(0, count, group):
            await self.append(*(str(n) for n in range(first, min(first + group, count))))
            await self.settle()
        return self.positions[-count:]

    async def settle(self) -> None:
        """Wait for what the managed ledger does in the background: rolling, trimming, writing cursors."""
        await self.ledger.settled()

    async def texts(self, start: Position = EARLIEST) -> list[str]:
        """Read everything from `start` on."""
        found: list[str] = []
        while group := await self.ledger.read(start, 7, 1 << 20):
            found.extend(entry.data.decode() for entry in group)
            last = group[-1].position
            start = Position(last.ledger_id, last.entry_id + 1)
        return found


CLOSED = asyncio.Event()
"""Says that the former owner has closed the topic."""
CLOSED.set()


class LedgerWorld:
    """Shared by all owners; `storage` makes each owner's view of the disk (by default one memory disk)."""

    def __init__(self, storage: StorageFactory | None = None) -> None:
        self.backend = MemoryBackend()
        self.disk = MemoryDisk()
        self._factory = storage or (lambda: MemoryLedgerStorage(self.disk))
        self.owners: list[Owner] = []
        self._stores: list[MetadataStore] = []

    def connect(self) -> MetadataStore:
        store = self.backend.connect(FixedClock(), 10_000)
        self._stores.append(store)
        return store

    def new_storage(self) -> LedgerStorage:
        """Return the view of the disk of another process."""
        return self._factory()

    async def open(
        self,
        epoch: int,
        *,
        settings: LedgerSettings | None = None,
        create: bool = True,
        closed: asyncio.Event | None = None,
        topic: TopicName = TOPIC,
        storage: LedgerStorage | None = None,
        store: MetadataStore | None = None,
        form: RecordForm = RECORDS_WITH_EPOCHS,
    ) -> Owner:
        owner = Owner()
        owner.storage = storage or self._factory()
        owner.store = store or self.connect()
        owner.ledger = await ManagedLedger.open(
            owner.store,
            owner.storage,
            topic,
            epoch=epoch,
            clock=FixedClock(),
            settings=settings or LedgerSettings(mark_delete_per_second=0),
            form=form,
            create=create,
            closed=closed,
            on_durable=owner.on_durable,
            on_failed=owner.on_failed,
            on_fenced=owner.on_fenced,
        )
        self.owners.append(owner)
        return owner

    async def close(self) -> None:
        for owner in self.owners:
            await owner.ledger.close()
        for owner in self.owners:
            await owner.storage.close()
        for store in self._stores:
            await store.close()
