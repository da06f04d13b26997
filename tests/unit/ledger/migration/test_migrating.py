"""The migration of topics from files to bookies: what clients find afterwards, interruptions, refusals."""

from pathlib import Path

import pytest

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFolderUnfitError
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY, check_one_bookie_cluster, check_one_folder, identity_of
from pulsar_barycenter.ledger.migration.planning import Phase
from pulsar_barycenter.ledger.migration_marks import MIGRATED
from support.migrated_cluster import check_same, ended_at, files_cluster, filled, number_of_steps


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


@pytest.mark.parametrize("moves_metadata", [False, True])
async def test_a_migration_that_ends_at_a_step_is_continued(tmp_path: Path, moves_metadata: bool) -> None:
    """At each of the first and last steps, and at some between."""
    total = await number_of_steps(tmp_path / "all", moves_metadata=moves_metadata)
    for last in (1, 2, *range(7, total - 4, 23), *range(total - 3, total + 1)):
        await ended_at(tmp_path / str(last), last, is_carried_out=bool(last % 2), moves_metadata=moves_metadata)
