"""What a broker finds out about a topic in Pulsar's form before it takes it over, and what tools read of its list."""

import asyncio

import pytest

from pulsar_barycenter.ledger.errors import ForeignTopicError, LedgerUnavailableError
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.ledger.managed.records import ManagedLedgerRecord
from pulsar_barycenter.ledger.pulsar_records.list_readers import list_reader
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    LongProperty,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
    PositionInfo,
)
from pulsar_barycenter.ledger.pulsar_records.records_in_pulsars_form import RecordsInPulsarsForm
from pulsar_barycenter.ledger.pulsar_records.topic_check import KEPT_MS, TopicCheck
from pulsar_barycenter.metadata.errors import InvalidValueError, StoreUnavailableError
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from support.cursor_ledgers import MemoryCursorLedgers
from support.ledger_world import TOPIC, FixedClock, LedgerWorld
from support.proofs import SetClock

PATH = managed_ledger_path(TOPIC)
OFFLOADED = ManagedLedgerInfo(
    ledgerInfo=[
        ManagedLedgerInfo.LedgerInfo(
            ledgerId=1, entries=5, offloadContext=OffloadContext(complete=True, bookkeeperDeleted=True)
        ),
        ManagedLedgerInfo.LedgerInfo(ledgerId=2, entries=6, offloadContext=OffloadContext(complete=True)),
        ManagedLedgerInfo.LedgerInfo(ledgerId=3),
    ]
)
COMPACTED = [LongProperty(name="CompactedTopicLedger", value=77)]
IN_KEY = ManagedCursorInfo(cursorsLedgerId=-1, markDeleteLedgerId=1, markDeleteEntryId=1, properties=COMPACTED)
IN_LEDGER = ManagedCursorInfo(cursorsLedgerId=9)
ENTRY = PositionInfo(ledgerId=1, entryId=1, properties=COMPACTED)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("", OFFLOADED.SerializeToString(), "2 ledgers offloaded to tiered storage, the first is 1"),
        ("/__compaction", IN_KEY.SerializeToString(), "compacted into ledger 77 by a Java broker"),
        ("/__compaction", IN_LEDGER.SerializeToString(), "compacted into ledger 77 by a Java broker"),
        ("-sub__transaction_pending_ack", b"", "may have pending acknowledgements"),
    ],
    ids=["offloaded", "compacted", "compacted as a cursor's ledger says", "with transactions"],
)
async def test_a_topic_for_java_brokers_is_refused_and_not_changed(name: str, value: bytes, reason: str) -> None:
    world = LedgerWorld()
    ledgers = MemoryCursorLedgers()
    ledgers.entries[9] = ENTRY.SerializeToString()
    form = RecordsInPulsarsForm(ledgers, FixedClock())
    store = world.connect()
    await store.put(PATH, b"")
    stat = await store.put(f"{PATH}{name}", value)
    with pytest.raises(ForeignTopicError, match=f"only Java brokers can serve the topic .*{reason}"):
        await world.open(1, form=form)
    found = await store.get(f"{PATH}{name}")
    assert found is not None
    assert (found.value, found.stat.version) == (value, stat.version)
    await world.close()


async def test_a_record_that_cannot_be_read_is_no_topic_for_java_brokers() -> None:
    store = MemoryBackend().connect(FixedClock(), 10_000)
    await store.put(PATH, b"\xff")
    with pytest.raises(LedgerUnavailableError, match=f"{PATH}: the stored value is not a ManagedLedgerInfo"):
        await RecordsInPulsarsForm(MemoryCursorLedgers(), FixedClock()).check_topic(store, PATH)


async def test_a_new_record_without_content_is_no_node_of_the_first_version() -> None:
    """ZooKeeper cannot tell a node of version 0 without data from one that has only nodes below it."""
    store = MemoryBackend().connect(FixedClock(), 10_000)
    keeper = RecordsInPulsarsForm(MemoryCursorLedgers(), FixedClock()).ledgers(store, PATH, epoch=1)
    assert await keeper.take_over(ManagedLedgerRecord())
    found = await store.get(PATH)
    assert found is not None
    assert (found.value, found.stat.version) == (b"", 1)
    await keeper.confirm()


def test_tools_read_what_bookies_may_have_of_offloaded_topics() -> None:
    record = list_reader("pulsar")(PATH, OFFLOADED.SerializeToString())
    assert [(ledger.ledger_id, ledger.entries, ledger.closed) for ledger in record.ledgers] == [
        (2, 6, True),
        (3, 0, False),
    ]
    with pytest.raises(InvalidValueError, match="the stored value is not a ManagedLedgerInfo"):
        list_reader("pulsar")(PATH, b"\xff")
    with pytest.raises(InvalidValueError, match="ManagedLedgerRecord"):
        list_reader("barycenter")(PATH, b"\xff")


async def test_names_of_a_namespace_are_read_once_for_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """And again after a while, or after an error."""
    store = MemoryBackend().connect(FixedClock(), 10_000)
    children = store.children
    listed: list[str] = []

    async def counted(path: str) -> list[str]:
        listed.append(path)
        if len(listed) == 1:
            raise StoreUnavailableError(path, "no answer")
        return await children(path)

    monkeypatch.setattr(store, "children", counted)
    clock = SetClock()
    check = TopicCheck(MemoryCursorLedgers().last_entry, clock)
    with pytest.raises(LedgerUnavailableError, match="no answer"):
        await check.run(store, PATH)
    await asyncio.gather(*(check.run(store, f"{PATH}{number}") for number in range(20)))
    assert len(listed) == 2
    await store.put(f"{PATH}-sub__transaction_pending_ack", b"")
    clock.now_s += KEPT_MS / 1000
    with pytest.raises(ForeignTopicError, match="pending acknowledgements"):
        await check.run(store, PATH)
    assert len(listed) == 3
