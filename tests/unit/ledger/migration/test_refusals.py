"""What prevents a migration is found before anything is written; what changes during one ends it."""

from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.bookkeeper.metadata.ledger_paths import Layout
from pulsar_barycenter.bookkeeper.metadata.ledger_paths import ledger_path as ledger_key
from pulsar_barycenter.bookkeeper.wire.digests import EntryCodec
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.folder import ledger_path
from pulsar_barycenter.ledger.files.repair import inspect, repair
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY
from pulsar_barycenter.ledger.migration_marks import MIGRATION_KEY
from pulsar_barycenter.naming.topic import TopicName
from support.migrated_cluster import SHAPE, FilesCluster, Steps, files_cluster, found_in, publish

TOPIC = TopicName.parse("persistent://shop/eu/orders")


async def filled(world: FilesCluster, entries: int = 10) -> Any:
    topic = await world.topic(TOPIC)
    await topic.ledger.open_cursor("slow", "earliest")
    for number in range(entries):
        await publish(topic, f"k{number}")
    found = await found_in(topic)
    await topic.ledger.close()
    return found


async def reasons(world: FilesCluster) -> list[tuple[int, str]]:
    """Return the refusals of a plan, and check that nothing was written."""
    before = dict(world.digest())
    found = [(refusal.ledger, refusal.reason) for refusal in (await world.plan()).refusals]
    assert world.digest() == before
    assert await world.connect().get(MIGRATION_KEY) is None
    assert await world.connect().get("/ledgers/idgen") is None
    return found


def flip(world: FilesCluster, ledger_id: int) -> None:
    path = Path(ledger_path(str(world.folder), ledger_id))
    content = bytearray(path.read_bytes())
    content[fmt.HEADER_SIZE + fmt.ENTRY_HEADER_SIZE] ^= 1
    path.write_bytes(content)


async def test_damaged_missing_and_repaired_ledgers_prevent_it(tmp_path: Path) -> None:
    async with files_cluster(tmp_path / "ledgers") as world:
        await filled(world)
        assert await reasons(world) == []
        flip(world, 1)
        Path(ledger_path(str(world.folder), 2)).unlink()
        (damaged, missing) = await reasons(world)
        assert damaged[0] == 1
        assert "is damaged: the checksums of these bytes do not match" in damaged[1]
        assert missing[0] == 2
        assert "is missing" in missing[1]
        repair(inspect(str(world.folder), 1, 4), epoch=9)
        assert (
            "a repair removed the entries 1:0, and a ledger on bookies cannot lack entries"
            in (await reasons(world))[0][1]
        )


async def test_entries_that_are_too_large_prevent_it(tmp_path: Path) -> None:
    async with files_cluster(tmp_path / "ledgers") as world:
        topic = await world.topic(TOPIC)
        topic.ledger.append(bytes(6 << 20), 1, 0, None)
        await topic.until(lambda: len(topic.durable) == 1)
        await topic.ledger.close()
        ((ledger, reason),) = await reasons(world)
        assert ledger == 1
        assert "an entry has 6,291,456 bytes" in reason


async def test_too_few_bookies_prevent_it(tmp_path: Path) -> None:
    async with files_cluster(tmp_path / "ledgers") as world:
        await filled(world)
        for bookie in world.bookies.bookies[1:]:
            await world.bookies.store.delete(f"/ledgers/available/{bookie.name}")
        ((_, reason),) = await reasons(world)
        assert "accept writes, but managedLedgerDefaultEnsembleSize=3" in reason


async def test_ledgers_of_others_with_the_same_ids_prevent_it(tmp_path: Path) -> None:
    async with files_cluster(tmp_path / "ledgers") as world:
        await filled(world)
        client = await LedgerClient.open(world.connect())
        await (await client.create_at(2, SHAPE, lambda *_: None)).close()
        ((_, reason),) = await reasons(world)
        assert "the bookies have 1 ledger of other programs with ids of ledgers of this cluster (2)" in reason
        await client.close()


async def test_a_broker_that_runs_and_a_store_of_another_cluster_are_refused(tmp_path: Path) -> None:
    async with files_cluster(tmp_path / "ledgers") as world:
        await filled(world)
        store = world.connect()
        await store.put("/loadbalance/brokers/b:8080", b"")
        with pytest.raises(LedgerError, match="a broker runs"):
            await world.plan()
        await store.put(FOLDER_KEY, b"0" * 32)
        with pytest.raises(LedgerError, match="do not keep messages in this folder, but in '000"):
            await world.plan()
        await store.delete(FOLDER_KEY)
        with pytest.raises(LedgerError, match="does not have the identity of the folder yet"):
            await world.plan()


async def test_another_unfinished_migration_is_not_continued(tmp_path: Path) -> None:
    async with files_cluster(tmp_path / "ledgers") as world:
        await filled(world)
        assert await world.migrate(Steps(3)) is None
        await world.connect().put("/ledgers/INSTANCEID", b"other")
        with pytest.raises(LedgerError, match="an earlier migration is unfinished"):
            await world.plan()


async def test_a_topic_that_went_on_in_files_between_two_attempts_is_moved_as_it_is(tmp_path: Path) -> None:
    """Its ledgers that were copied and are no longer listed are deleted on the bookies."""
    async with files_cluster(tmp_path / "ledgers") as world:
        await filled(world)
        assert await world.migrate(Steps(at_key=FOLDER_KEY, is_carried_out=False)) is None
        topic = await world.topic(TOPIC)
        topic.ledger.cursors["slow"].ack_cumulative(topic.ledger.last_position)
        await publish(topic, "more")
        await topic.settle()
        found = await found_in(topic)
        await topic.ledger.close()
        assert await world.migrate() is not None
        owner = await world.on_bookies(TOPIC)
        await owner.settle()
        after = await found_in(owner)
        assert (after["cursors"], after["entries"]) == (found["cursors"], found["entries"][-1:])
        client = await LedgerClient.open(world.connect())
        listed = {segment.ledger_id for segment in owner.ledger.segments}
        assert {ledger async for ledger in client.ids()} == listed
        await client.close()


async def test_a_ledger_that_another_program_ended_is_not_completed(tmp_path: Path) -> None:
    async with files_cluster(tmp_path / "ledgers") as world:
        await filled(world)
        client = await LedgerClient.open(world.connect())
        created = ledger_key("/ledgers", Layout.HIERARCHICAL, 1)
        assert await world.migrate(Steps(at_key=created)) is None, "it ends before the first entry of ledger 1"
        await client.recover(1, password=b"secret")
        with pytest.raises(LedgerError, match="another program, such as BookKeeper's auto recovery, closed it early"):
            await world.migrate()
        await client.delete(1)
        for bookie in world.bookies.bookies:
            bookie.ledgers.pop(1, None)
        assert await world.migrate() is not None
        await client.close()


async def test_an_entry_that_bookies_have_changed_is_found(tmp_path: Path) -> None:
    """The comparison reads every entry back: one of a ledger that an earlier attempt wrote, with a valid digest."""
    async with files_cluster(tmp_path / "ledgers") as world:
        await filled(world)
        assert await world.migrate(Steps(at_key=FOLDER_KEY, is_carried_out=False)) is None
        client = await LedgerClient.open(world.connect())
        closed = [
            ledger async for ledger in client.ids() if (await client.metadata(ledger)).state is LedgerState.CLOSED
        ]
        metadata = await client.metadata(closed[0])
        for bookie in world.bookies.bookies:
            if closed[0] in bookie.ledgers and 1 in bookie.ledgers[closed[0]].entries:
                other = bookie.ledgers[closed[0]].entries
                assert metadata.digest_type is not None
                codec = EntryCodec(closed[0], metadata.digest_type, b"secret")
                entry = codec.unpack(1, other[1])
                other[1] = b"".join(codec.pack(1, entry.last_confirmed, entry.length, entry.data[:-1] + b"!"))
        with pytest.raises(LedgerError, match=rf"entry {closed[0]}:1 on the bookies differs from"):
            await world.migrate()
        stored = await world.connect().get(FOLDER_KEY)
        assert stored is not None
        assert not stored.value.startswith(b"bookkeeper")
        await client.close()
