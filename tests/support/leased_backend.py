"""A metadata store of leased sessions for the contract suite: a leader in this process writes to a store in memory."""

import asyncio
import itertools
import random

from pulsar_barycenter.metadata.coordination.epochs import Epoch, take_epoch
from pulsar_barycenter.metadata.leader_writes.leader_writer import LeaderWriter
from pulsar_barycenter.metadata.leader_writes.leased_store import LeasedStore
from pulsar_barycenter.metadata.leader_writes.session_records import LEASED_ROOT
from pulsar_barycenter.metadata.leader_writes.session_table import LeaseTimes
from pulsar_barycenter.metadata.leader_writes.write_requests import (
    Answer,
    Change,
    Request,
    answer_decoder,
    encode,
    not_done,
    request_decoder,
)
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST

LEADER = "/the-leader"
NUMBERS = "/the-numbers"
SECRET = "sesame"


class Leader:
    """A client of the store below that leads, term after term, until `resign`."""

    def __init__(self, store: MemoryStore, times: LeaseTimes) -> None:
        self.store = store
        self.times = times
        self.terms: list[Epoch] = []
        self.writer: LeaderWriter | None = None
        self._run: asyncio.Task[None] | None = None
        self._renewing: set[asyncio.Task[None]] = set()

    async def lead(self) -> LeaderWriter:
        """Take the next epoch, and write under it."""
        if not await self.store.exists(LEADER):
            await self.store.put(LEADER, b"", expected_version=MUST_NOT_EXIST, ephemeral=True)
        epoch = await take_epoch(self.store, LEADER, "the leader")
        assert epoch is not None
        await self.resign()
        self.terms.append(epoch)
        self.writer = LeaderWriter(
            self.store,
            epoch,
            self.times,
            ("/",),
            small_roots=(),
            numbers=NUMBERS,
            may_write=lambda path: not path.startswith(LEADER),
            draw_secret=lambda: SECRET,
            end_term=self._end_term,
        )
        self._run = asyncio.create_task(self.writer.run())
        return self.writer

    async def resign(self) -> None:
        writer, run, self.writer, self._run = self.writer, self._run, None, None
        if run is not None:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        if writer is not None:
            await writer.close()

    def _end_term(self, epoch: Epoch) -> None:
        if self.writer is not None and self.writer.epoch is epoch:
            self.writer = None
            task = asyncio.create_task(self._again())
            self._renewing.add(task)
            task.add_done_callback(self._renewing.discard)

    async def _again(self) -> None:
        await self.lead()

    async def ask(self, session: str, number: int, over_below: int, change: Change) -> Answer:
        """Return the answer to a broker's request, encoded and decoded as text."""
        if self.writer is None:
            return not_done("/", "nobody leads")
        text = encode(Request(SECRET, self.writer.epoch.number, session, number, over_below, change))
        return answer_decoder.decode(encode(await self.writer.answer(request_decoder.decode(text))))


class _WithoutBooks(LeasedStore):
    """Hides the records that the leader keeps for itself."""

    async def children(self, path: str) -> list[str]:
        own = {LEADER[1:], f"{LEADER[1:]}-epoch", LEASED_ROOT.split("/")[1]} if path == "/" else ()
        return [name for name in await super().children(path) if name not in own]


class InLeased:
    """Implements `Backend`: each client is a `LeasedStore` over a connection of its own."""

    is_durable = False
    knows_makers = False
    tells_of_parents = False
    keeps_parents_of_sequences = False

    def __init__(self) -> None:
        self.shared = MemoryBackend()
        self.leader: Leader | None = None
        self._clients: list[LeasedStore] = []
        self._random = random.Random(5)
        self._names = itertools.count()

    async def connect(self, session_timeout_ms: int = 6000) -> LeasedStore:
        times = LeaseTimes(session_timeout_ms / 1000)
        if self.leader is None:
            self.leader = Leader(self.shared.connect(None, 60_000), times)
            await self.leader.lead()
        client = _WithoutBooks(
            self.shared.connect(None, 60_000),
            self.leader.ask,
            times,
            is_own=lambda path: path.startswith((LEADER, f"{NUMBERS}/")),
            draw_session=lambda: f"{self._random.getrandbits(128):032x}",
            patience_s=5,
            source=self._random,
        )
        await client.open(f"broker-{next(self._names)}", within_s=10)
        self._clients.append(client)
        return client

    async def expire(self, client: LeasedStore) -> None:
        assert self.leader is not None
        assert self.leader.writer is not None
        session = client.session
        assert session is not None
        self.leader.writer._table.released(session)
        await self.leader.writer._clear_soon(session)

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        if self.leader is not None:
            await self.leader.resign()
