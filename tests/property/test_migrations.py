"""Any topic after its migration from files to bookies, interrupted or not: the same entries, cursors, compaction."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulsar_barycenter.broker.compaction.compactor import Compactor
from pulsar_barycenter.naming.topic import TopicName
from support.ledger_world import Owner
from support.migrated_cluster import FilesCluster, Steps, files_cluster, found_in, publish

PLACES = st.integers(0, 30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5)),
        st.tuples(st.just("batch"), st.integers(2, 9)),
        st.tuples(st.just("acknowledge"), PLACES),
        st.tuples(st.just("acknowledge through"), PLACES),
        st.tuples(st.just("acknowledge part"), PLACES),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("another owner"), st.booleans()),
    ),
    max_size=12,
)
ENDS = st.sampled_from(["closed", "killed", "terminated"])


class History:
    """One topic, whose durable cursor `keeper` keeps all ledgers, and `worker` is moved."""

    def __init__(self, world: FilesCluster, topic: TopicName) -> None:
        self._world = world
        self._topic = topic
        self._number = 0
        self.owner: Owner

    async def open(self) -> None:
        self.owner = await self._world.topic(self._topic)
        await self.owner.ledger.open_cursor("keeper", "earliest")
        await self.owner.ledger.open_cursor("worker", "earliest", {"sequence": str(self._number)})

    async def play(self, step: str, value: int) -> None:
        ledger, places = self.owner.ledger, self.owner.positions
        worker = ledger.cursors["worker"]
        place = places[value % len(places)] if places else None
        match step:
            case "publish":
                for _ in range(value):
                    await self._publish(1)
            case "batch":
                await self._publish(value)
            case "acknowledge" if place is not None:
                worker.ack_individual([place])
            case "acknowledge through" if place is not None:
                worker.ack_cumulative(place)
            case "acknowledge part" if place is not None:
                worker.ack_part(place, 0b10)
            case "compact":
                await Compactor(ledger).run()
            case "another owner":
                if value:
                    await ledger.close()
                await self.open()
        await self.owner.settle()

    async def _publish(self, messages: int) -> None:
        self._number += 1
        await publish(self.owner, f"k{self._number % 3}", messages)


async def play(folder: Path, histories: list[tuple[list[tuple[str, int]], str]], ends_at: int) -> None:
    async with files_cluster(folder) as world:
        expected = {}
        for number, (steps, end) in enumerate(histories):
            topic = TopicName.parse(f"persistent://shop/eu/{number}")
            history = History(world, topic)
            await history.open()
            for step, value in steps:
                await history.play(step, value)
            if end == "terminated":
                await history.owner.ledger.terminate()
            await history.owner.ledger.cursors["worker"].flush()
            await history.owner.settle()
            expected[topic] = await found_in(history.owner)
            if end == "closed":
                await history.owner.ledger.close()
        files = world.digest()
        await world.migrate(Steps(ends_at))
        await world.migrate()
        assert world.digest() == files
        for topic, before in expected.items():
            assert await found_in(await world.on_bookies(topic)) == before


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories=st.lists(st.tuples(STEPS, ENDS), min_size=1, max_size=2), ends_at=st.integers(1, 80))
def test_clients_find_the_same_after_a_migration(
    histories: list[tuple[list[tuple[str, int]], str]], ends_at: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(asyncio.wait_for(play(Path(folder) / "ledgers", histories, ends_at), 120))
