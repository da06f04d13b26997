"""The migration of topics from files to bookies: what clients find afterwards, interruptions, refusals."""

from pathlib import Path

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.ledger.bookkeeper_storage.marks import marks_of
from pulsar_barycenter.ledger.errors import LedgerError, LedgerFolderUnfitError
from pulsar_barycenter.ledger.files.file_format import HEADER_SIZE
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY, check_one_bookie_cluster, check_one_folder, identity_of
from pulsar_barycenter.ledger.migration.planning import Phase
from pulsar_barycenter.ledger.migration.source_files import read_group
from pulsar_barycenter.ledger.migration_marks import MIGRATED, unfinished_migration
from support.migrated_cluster import SHAPE, Steps, check_same, ended_at, files_cluster, filled, number_of_steps


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
    """At the first and the last steps, and at some between."""
    total = await number_of_steps(tmp_path / "all", moves_metadata=moves_metadata)
    for last in (1, total // 3, total // 2, *range(total - 2, total + 1)):
        await ended_at(tmp_path / str(last), last, is_carried_out=bool(last % 2), moves_metadata=moves_metadata)


async def test_a_ledger_that_was_left_open_with_several_segments_is_completed(tmp_path: Path) -> None:
    """A bookie fails while the ledger is written, so another one has the later entries; then the migration ends."""
    async with files_cluster(tmp_path / "ledgers") as world:
        before = await filled(world)
        assert await world.migrate(Steps(1)) is None
        begun = await unfinished_migration(world.connect())
        assert begun is not None
        source = next(ledger for ledger in (await world.plan()).ledgers if ledger.entries == 4)
        entries = read_group(source, 0, HEADER_SIZE)
        client = await LedgerClient.open(world.connect(), settings=ClientSettings(reconnect_s=0.0))
        writer = await client.create_at(
            source.ledger_id, SHAPE, lambda *_: None, custom=marks_of(begun.cluster, source.epoch)
        )
        for number, data in enumerate(entries[:3]):
            if number == 2:
                await world.bookies.named(writer.metadata.last_segment.members[2]).stop()
            await writer.add(data)
        writer.abandon()
        left = await client.metadata(source.ledger_id)
        assert (left.state, [segment.first for segment in left.segments]) == (LedgerState.OPEN, [0, 2])
        assert await world.migrate() is not None
        await check_same(world, before)
        await client.close()
