"""For any owners, crashes and takeovers, a topic's sequence of entries stays complete."""

import asyncio

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from support.ledger_world import LedgerWorld, Owner
from support.memory_ledgers import MemoryLedgerStorage
from support.short_forms import examples

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 12)),
        st.tuples(st.just("turn"), st.integers(1, 30)),
        st.tuples(st.just("take over"), st.integers(0, 1)),
        st.tuples(st.just("crash"), st.integers(0, 10)),
        st.tuples(st.just("close"), st.just(0)),
        st.tuples(st.just("acknowledge"), st.integers(0, 40)),
    ),
    max_size=25,
)
SETTINGS = LedgerSettings(max_entries_per_ledger=8, mark_delete_per_second=0)


class Checker:
    """Numbers every append over all owners and records what was reported."""

    def __init__(self, delays: list[float]) -> None:
        self.world = LedgerWorld(self._storage)
        self.delays = delays
        self.next = 0
        self.owners: list[Owner] = []
        self.acknowledged: set[int] = set()
        """What may be gone: a ledger of which all is consumed is trimmed."""

    def _storage(self) -> MemoryLedgerStorage:
        turn = iter(self.delays * 1000)
        return MemoryLedgerStorage(self.world.disk, durability_delay_s=lambda: next(turn))

    async def open(self) -> None:
        owner = await self.world.open(len(self.owners) + 1, settings=SETTINGS)
        await owner.ledger.open_cursor("keep", "earliest")
        self.owners.append(owner)

    def append(self, owner: Owner, count: int) -> None:
        for _ in range(count):
            try:
                owner.ledger.append(b"%d" % self.next, 1, 0, self.next)
            except LedgerError:
                return
            self.next += 1

    async def check(self) -> None:
        """The sequence has every reported entry at its position unless it was consumed, in order, no entry twice,
        and nothing unknown."""
        final = await self.world.open(len(self.owners) + 1, settings=SETTINGS)
        texts = [int(text) for text in await final.texts()]
        assert len(set(texts)) == len(texts)
        assert set(texts) <= set(range(self.next))
        reported = [pair for owner in self.owners for pair in owner.durable]
        positions = [position for _, position in reported]
        assert len(set(positions)) == len(positions)
        assert {context for context, _ in reported} - self.acknowledged <= set(texts)
        for context, position in reported:
            if context not in texts:
                continue
            (entry,) = await final.ledger.read(position, 1, 100)
            assert (entry.position, int(entry.data)) == (position, context)
        for owner in self.owners:
            contexts = [context for context, _ in owner.durable]
            own = [text for text in texts if text in set(contexts)]
            assert own == [context for context in contexts if context in texts], (
                "each owner's entries stand in the order of its appends"
            )
            assert owner.positions == sorted(owner.positions)
            assert not {context for context, _ in owner.failed} & set(contexts)
            assert len(owner.fenced) <= 1


async def run(steps: list[tuple[str, int]], delays: list[float]) -> None:
    checker = Checker(delays)
    await checker.open()
    for step, amount in steps:
        owner = checker.owners[-1]
        if step == "append":
            checker.append(owner, amount)
        elif step == "turn":
            for _ in range(amount):
                await asyncio.sleep(0)
        elif step == "take over":
            await checker.open()
            checker.append(owner, amount)  # the former owner does not know yet
        elif step == "crash":
            assert isinstance(owner.storage, MemoryLedgerStorage)
            owner.storage.crash(survivors=lambda queued, amount=amount: queued * amount // 10)  # type: ignore[misc]
            await checker.open()
        elif step == "close":
            await owner.ledger.close()
            await checker.open()
        elif owner.durable:
            cursor = owner.ledger.cursors["keep"]
            context, position = owner.durable[amount % len(owner.durable)]
            checker.acknowledged.add(context)
            cursor.ack_individual([position])
    await checker.check()
    for owner in checker.owners:
        await owner.settle()
        assert isinstance(owner.storage, MemoryLedgerStorage)
        owner.storage.crash()  # no timer of a writer may begin anything after this
    # A writer is released in a task of its own; the loop must not end under one that has not begun.
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


@example(
    [("append", 1), ("turn", 9), ("acknowledge", 5), ("crash", 5), ("append", 3), ("turn", 2), ("close", 0)], [0.0]
)
@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.lists(st.sampled_from([0.0, 0.0005, 0.001]), min_size=1, max_size=5))
def test_no_reported_entry_is_lost_or_moved(steps: list[tuple[str, int]], delays: list[float]) -> None:
    """Appends, crashes with any part of the queue on the disk, takeovers from a live owner, in any order."""
    asyncio.run(run(steps, delays))
