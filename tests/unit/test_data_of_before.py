"""Data folders that were written before open as they are: those kept in `tests/data` are opened here.

What is in it is written down here by hand, and today's code must write the latest anew, to the byte.
"""

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.sqlite.sqlite_store import SqliteStore
from pulsar_barycenter.naming.topic import TopicName
from support.broker_data import (
    CLOSED,
    EPOCH,
    KEPT,
    LEDGERS,
    METADATA,
    NEVER_WRITTEN,
    NOW_MS,
    OF_VERSION_1,
    OPEN,
    SESSIONS,
    TORN_TAIL,
    TRIMMED,
    ledger_files,
    metadata_statements,
    write_broker_data,
)
from support.ledger_world import FixedClock

TOPICS = "/managed-ledgers/public/default/persistent"
VERSIONS = {
    "/admin/clusters/standalone": 0,
    "/admin/policies/public/default": 2,
    "/bytes": 0,
    f"{TOPICS}/l%C3%A4uft+noch": 1,
    f"{TOPICS}/l%C3%A4uft+noch/worker": 1,
    f"{TOPICS}/never-written": 1,
    f"{TOPICS}/orders": 7,
    f"{TOPICS}/orders/billing": 1,
    f"{TOPICS}/orders/sp%C3%A4te%2FLeser": 0,
    f"{TOPICS}/trimmed": 7,
    f"{TOPICS}/trimmed/only": 1,
    "/numbered-0000000001": 0,
    "/numbered-0000000002": 0,
    "/numbered-0000000003": 0,
    "/ключ with spaces": 0,
}
"""Every key but the ephemeral one, whose session is over, and its version."""


@dataclass
class Folder:
    """A copy of the kept folder, opened."""

    path: Path
    store: SqliteStore
    storage: FileLedgerStorage

    async def topic(self, name: TopicName, *, epoch: int = EPOCH + 1) -> ManagedLedger:
        return await ManagedLedger.open(self.store, self.storage, name, epoch=epoch, clock=FixedClock(), create=False)


@pytest.fixture(params=[OF_VERSION_1, KEPT], ids=["version-1", "version-2"])
async def folder(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Folder]:
    path = tmp_path / "data"
    shutil.copytree(request.param, path)
    store = await SqliteStore.open(path / METADATA)
    storage = FileLedgerStorage(path / LEDGERS)
    yield Folder(path, store, storage)
    await storage.close()
    await store.close()


async def keys_below(store: SqliteStore, path: str) -> list[str]:
    found = [path] if await store.exists(path) else []
    for name in await store.children(path):
        found += await keys_below(store, f"{path.rstrip('/')}/{name}")
    return found


async def entries_of(topic: ManagedLedger) -> list[tuple[tuple[int, int], bytes, int, int]]:
    """Every entry with its position, its number of messages, and its publish time after the first one's."""
    found: list[tuple[tuple[int, int], bytes, int, int]] = []
    start = Position(0, 0)
    while group := await topic.read(start, 100, 1 << 20):
        found += [(tuple(e.position), e.data, e.num_messages, e.publish_time_ms - NOW_MS) for e in group]
        start = Position(group[-1].position.ledger_id, group[-1].position.entry_id + 1)
    return found


async def test_every_key_has_its_version_its_value_and_its_times(folder: Folder) -> None:
    store = folder.store
    assert {path: (await store.get(path)).stat.version for path in await keys_below(store, "/")} == VERSIONS
    values = {
        "/admin/clusters/standalone": b"{}",
        "/admin/policies/public/default": b'{"bundles":8}',
        "/bytes": bytes(range(256)),
        "/ключ with spaces": b"",
    }
    for path, value in values.items():
        found = await store.get(path)
        assert found.value == value
        assert (found.stat.created_at_ms, found.stat.modified_at_ms) == (NOW_MS, NOW_MS)
        assert not found.stat.ephemeral
        assert not found.stat.created_by_self
    replaced = await store.put("/admin/policies/public/default", b"{}", expected_version=2)
    assert replaced.version == 3


async def test_the_session_of_before_is_over_and_its_key_is_gone(folder: Folder) -> None:
    assert await folder.store.children("/loadbalance") == []
    assert [entry.name for entry in (folder.path / SESSIONS).iterdir()] != [f"{1:032x}"]


async def test_numbers_go_on_after_those_of_before(folder: Folder) -> None:
    assert (await folder.store.put("/numbered-", b"", sequential=True)).path == "/numbered-0000000004"
    assert await next_counter_value(folder.store, "/counters/other") == 2
    assert await next_counter_value(folder.store, "/counters/ledger-id") == 8


async def test_a_closed_topic_has_its_ledgers_entries_cursors_and_properties(folder: Folder) -> None:
    topic = await folder.topic(CLOSED, epoch=EPOCH)
    assert [(f.ledger_id, f.entries, f.size, f.messages) for f in topic.stats.ledgers] == [
        (1, 4, 299, 4),
        (2, 4, 13, 13),
        (3, 1, 5, 10),
    ]
    assert await entries_of(topic) == [
        ((1, 0), b"", 1, 0),
        ((1, 1), b"one", 1, 1),
        ((1, 2), bytes(range(256)), 1, 2),
        ((1, 3), b"3" * 40, 1, 3),
        ((2, 0), b"four", 1, 4),
        ((2, 1), b"5", 1, 5),
        ((2, 2), b"six", 1, 6),
        ((2, 3), b"seven", 10, 7),
        ((3, 0), b"eight", 10, 8),
    ]
    assert topic.last_position == (3, 0)
    assert topic.properties == {"replicated": "no"}
    billing, readers = topic.cursors["billing"], topic.cursors["späte/Leser"]
    assert billing.mark_delete == (1, 1)
    assert billing.acked_ranges == [(1, 3, 3), (2, 1, 2), (3, 0, 0)]
    assert billing.backlog == (3, 12)
    assert readers.mark_delete == (3, 0)
    assert readers.properties == {"from": "Köln"}
    await topic.close()


async def test_a_topic_left_open_is_recovered_without_its_torn_tail(folder: Folder) -> None:
    assert ledger_files(folder.path)[-1].read_bytes().endswith(TORN_TAIL)
    topic = await folder.topic(OPEN)
    assert await entries_of(topic) == [((7, 0), b"a", 2, 0), ((7, 1), b"bb", 2, 1), ((7, 2), b"ccc", 2, 2)]
    assert topic.cursors["worker"].mark_delete == (7, 0)
    assert topic.cursors["worker"].backlog == (2, 4)
    await topic.close()


async def test_a_trimmed_topic_begins_where_it_began(folder: Folder) -> None:
    topic = await folder.topic(TRIMMED)
    assert topic.next_valid(EARLIEST) == (5, 0)
    assert [data for _, data, _, _ in await entries_of(topic)] == [b"4", b"5", b"6", b"7", b"8"]
    assert topic.cursors["only"].mark_delete == (5, 0)
    await topic.close()


async def test_a_topic_never_written_to_is_there(folder: Folder) -> None:
    topic = await folder.topic(NEVER_WRITTEN)
    assert topic.last_position == EARLIEST
    assert topic.stats.ledgers == ()
    await topic.close()


async def test_the_same_is_written_today(tmp_path: Path) -> None:
    await write_broker_data(tmp_path / "today")
    assert list(metadata_statements(tmp_path / "today")) == list(metadata_statements(copied(tmp_path / "kept")))
    assert ledger_bytes(tmp_path / "today") == ledger_bytes(KEPT)


def copied(folder: Path) -> Path:
    """Return `folder` with a copy of the kept SQLite file, because even reading one writes files next to it."""
    folder.mkdir()
    shutil.copy(KEPT / METADATA, folder / METADATA)
    return folder


def ledger_bytes(folder: Path) -> dict[Path, bytes]:
    return {file.relative_to(folder): file.read_bytes() for file in ledger_files(folder)}
