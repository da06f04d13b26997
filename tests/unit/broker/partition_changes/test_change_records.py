"""The stored side of changes: a record with an incomplete change is on the list."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.namespaces.partitioned_changes import ChangeKind, ChangePhase, PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from pulsar_barycenter.broker.namespaces.resources import Resources, partitioned_topic_name
from pulsar_barycenter.broker.partition_changes.change_records import ChangeRecords
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend
from pulsar_barycenter.naming.topic import TopicName
from support.virtual_time import LoopClock

TOPIC = TopicName.parse("persistent://public/default/parts")
ASKING = PartitionedChange("c1", ChangeKind.DELETE, ChangePhase.ASKING, "b1:8080")


@pytest.fixture
async def records() -> AsyncIterator[ChangeRecords]:
    store = MemoryBackend().connect(LoopClock(), 30_000)
    resources = Resources(store, ConfigHolder(BrokerConfig()))
    await resources.partitioned_topics.create(partitioned_topic_name(TOPIC), PartitionedTopicMetadata(2))
    yield ChangeRecords(resources)
    resources.close()
    await store.close()


async def test_a_change_that_is_undone_leaves_the_list(records: ChangeRecords) -> None:
    await records.begin(TOPIC, ASKING)
    assert await records.undo(TOPIC, ASKING)
    assert await records.pending(TOPIC) is None
    assert await records.listed() == []


async def test_a_change_that_was_decided_meanwhile_is_not_undone_and_stays_on_the_list(records: ChangeRecords) -> None:
    """A broker read it as abandoned while it was asked about; the decision came in between."""
    await records.begin(TOPIC, ASKING)
    decided = replace(ASKING, phase=ChangePhase.DOING)
    await records.decide(TOPIC, decided)
    assert not await records.undo(TOPIC, ASKING)
    assert await records.pending(TOPIC) == decided
    assert await records.listed() == [(TOPIC, ASKING.id)]


async def test_undoing_a_change_of_a_topic_that_is_gone_leaves_the_list(records: ChangeRecords) -> None:
    await records.begin(TOPIC, ASKING)
    decided = replace(ASKING, phase=ChangePhase.DOING)
    await records.decide(TOPIC, decided)
    await records.complete(TOPIC, decided)
    assert await records.undo(TOPIC, ASKING)
    assert await records.listed() == []
