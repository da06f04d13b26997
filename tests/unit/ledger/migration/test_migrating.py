"""The migration of topics from files to bookies: what clients find afterwards, interruptions, refusals."""

from pathlib import Path

import pytest

from pulsar_barycenter.broker.compaction.compactor import Compactor
from pulsar_barycenter.ledger.errors import LedgerError, LedgerFolderUnfitError
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY, check_one_bookie_cluster, check_one_folder, identity_of
from pulsar_barycenter.ledger.migration.planning import Phase
from pulsar_barycenter.ledger.migration_marks import MIGRATED, MIGRATION_KEY
from pulsar_barycenter.naming.topic import TopicName
from support.migrated_cluster import FilesCluster, Steps, files_cluster, found_in, publish

ORDERS = TopicName.parse("persistent://shop/eu/orders")
OPEN = TopicName.parse("persistent://shop/eu/left open")
TABLE = TopicName.parse("persistent://shop/eu/table")


async def filled(world: FilesCluster) -> dict[TopicName, object]:
    """Fill three topics: one that was closed, one whose owner died, one that was compacted; return what is in them."""
    orders = await world.topic(ORDERS)
    await orders.ledger.update_properties({"replicated": "no"})
    billing = await orders.ledger.open_cursor("billing", "earliest", {"from": "Köln"})
    for number in range(9):
        await publish(orders, f"k{number}", 3 if number % 4 == 2 else 1)
    places = orders.positions
    billing.ack_cumulative(places[0])
    billing.ack_individual([places[3], places[4], places[7]])
    billing.ack_part(places[2], 0b101)
    await billing.flush()
    left = await world.topic(OPEN)
    await left.ledger.open_cursor("slow", "earliest")
    for number in range(6):
        await publish(left, f"k{number}")
    table = await world.topic(TABLE)
    for number in range(10):
        await publish(table, f"k{number % 3}")
    await Compactor(table.ledger).run()
    await table.settle()
    found = {owner.ledger.topic: await found_in(owner) for owner in (orders, left, table)}
    await orders.ledger.close()
    await table.ledger.close()
    return found


async def check_same(world: FilesCluster, before: dict[TopicName, object]) -> None:
    for topic, expected in before.items():
        owner = await world.on_bookies(topic)
        assert await found_in(owner) == expected
        await publish(owner, "later")
        assert owner.positions[0] > max(position for position, *_ in expected["entries"])  # type: ignore[index]


@pytest.mark.parametrize("moves_metadata", [False, True])
async def test_clients_find_on_bookies_what_was_in_files(tmp_path: Path, moves_metadata: bool) -> None:
    async with files_cluster(tmp_path / "ledgers", moves_metadata=moves_metadata) as world:
        before = await filled(world)
        files = world.digest()
        plan = await world.plan()
        assert (plan.phase, plan.refusals, len(plan.ledgers)) == (Phase.NEW, [], len(files))
        assert await world.migrate() == len(files)
        assert world.digest() == files
        await check_same(world, before)
        assert (await world.plan()).phase is Phase.DONE
        assert await world.migrate() == 0


async def test_brokers_are_refused_on_the_former_files(tmp_path: Path) -> None:
    async with files_cluster(tmp_path / "ledgers") as world:
        await filled(world)
        folder = str(world.folder)
        store = world.connect()
        identity = identity_of(folder)
        with pytest.raises(LedgerError, match="keep messages in files"):
            await check_one_bookie_cluster(store, "7b2f6a4e", records="barycenter")
        await world.migrate()
        await check_one_bookie_cluster(store, "7b2f6a4e", records="barycenter")
        with pytest.raises(LedgerFolderUnfitError, match="keep messages on bookies"):
            await check_one_folder(store, folder)
        assert identity is not None
        await store.put(FOLDER_KEY, identity.encode())  # as from a copy of the store of before
        with pytest.raises(LedgerFolderUnfitError, match="were migrated to bookies"):
            await check_one_folder(store, folder)
        await store.delete(FOLDER_KEY)
        with pytest.raises(LedgerFolderUnfitError, match=f"delete {folder}/{MIGRATED}"):
            await check_one_folder(store, folder)
        assert await store.get(FOLDER_KEY) is None
        (world.folder / MIGRATED).unlink()
        await check_one_folder(store, folder)


async def number_of_steps(folder: Path, *, moves_metadata: bool) -> int:
    async with files_cluster(folder, moves_metadata=moves_metadata) as world:
        await filled(world)
        steps = Steps()
        await world.migrate(steps)
        return steps.count


async def ended_at(folder: Path, last: int, *, is_carried_out: bool, moves_metadata: bool) -> None:
    """End a migration at its write number `last`, then run it again to its end."""
    async with files_cluster(folder, moves_metadata=moves_metadata) as world:
        before = await filled(world)
        files = world.digest()
        assert await world.migrate(Steps(last, is_carried_out=is_carried_out)) is None
        stored = await world.connect().get(FOLDER_KEY)
        assert stored is not None
        if stored.value == (identity_of(str(world.folder)) or "").encode():
            await check_one_folder(world.connect(), str(world.folder))  # brokers can continue on the files
        else:
            with pytest.raises(LedgerFolderUnfitError, match=r"migrated|on bookies"):
                await check_one_folder(world.connect(), str(world.folder))
        next_ = world.connect_next()
        if await next_.exists(MIGRATION_KEY) and not await next_.exists(FOLDER_KEY):
            with pytest.raises(LedgerError, match="a migration to this metadata store is unfinished"):
                await check_one_bookie_cluster(next_, "7b2f6a4e", records="barycenter")
        assert await world.migrate() is not None
        assert world.digest() == files
        assert not await world.connect_next().exists(MIGRATION_KEY)
        await check_same(world, before)


@pytest.mark.parametrize("moves_metadata", [False, True])
async def test_a_migration_that_ends_at_a_step_is_continued(tmp_path: Path, moves_metadata: bool) -> None:
    """At each of the first and last steps, and at some between."""
    total = await number_of_steps(tmp_path / "all", moves_metadata=moves_metadata)
    for last in (1, 2, *range(7, total - 4, 23), *range(total - 3, total + 1)):
        await ended_at(tmp_path / str(last), last, is_carried_out=bool(last % 2), moves_metadata=moves_metadata)


@pytest.mark.full_form
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("is_carried_out", [True, False])
@pytest.mark.parametrize("moves_metadata", [False, True])
async def test_a_migration_that_ends_at_any_step_is_continued(
    tmp_path: Path, is_carried_out: bool, moves_metadata: bool
) -> None:
    for last in range(1, await number_of_steps(tmp_path / "all", moves_metadata=moves_metadata) + 1):
        await ended_at(tmp_path / str(last), last, is_carried_out=is_carried_out, moves_metadata=moves_metadata)
