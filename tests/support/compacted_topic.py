"""A topic on a ledger storage of one kind: entries published one by one, compacted, and what remains of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulsar_barycenter.broker.compaction.compactor import Compacted, Compactor, KeepsEarlier
from pulsar_barycenter.ledger.files.folder import ledger_files
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger, managed_ledger_path
from pulsar_barycenter.ledger.managed.records import ManagedLedgerRecord, decode
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.naming.topic import TopicName
from support.compaction_cases import Message, compacted_places, publish_entry, single
from support.ledger_world import TOPIC, LedgerWorld, Owner

SMALL = LedgerSettings(max_entries_per_ledger=4, mark_delete_per_second=0)


@dataclass
class There:
    """A world on one kind of storage, with its ledger files, and a way to damage the last entry of a ledger."""

    world: LedgerWorld
    ledger_ids: Callable[[], set[int]]
    damage: Callable[[Position], None]


def flip_last(root: Path, position: Position) -> None:
    path = Path(dict(ledger_files(str(root)))[position.ledger_id])
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


async def publish(owner: Owner, *entries: bytes, messages: int = 1) -> None:
    """Append entries one by one, so that full ledgers roll."""
    for entry in entries:
        await publish_entry(owner, entry, messages)
        await owner.settle()


async def open_topic(there: There, epoch: int = 1) -> Owner:
    """Open the topic with the cursor of compaction, so that nothing is trimmed before it is compacted."""
    owner = await there.world.open(epoch, settings=SMALL)
    await owner.ledger.compacted.open_cursor()
    return owner


async def compact(
    owner: Owner, *, retain_null_key: bool = False, keeps_earlier: KeepsEarlier | None = None
) -> Compacted | None:
    compactor = Compactor(owner.ledger, retain_null_key=retain_null_key, keeps_earlier=keeps_earlier)
    done = await compactor.run()
    await owner.settle()
    return done


def keyed(*pairs: tuple[str | None, bytes | None]) -> list[bytes]:
    return [single(Message(key, value)) for key, value in pairs]


async def values(ledger: ManagedLedger[Any]) -> list[tuple[str | None, bytes | None]]:
    return [(place.key, place.value) for place in await compacted_places(ledger)]


async def record_of_topic(world: LedgerWorld, topic: TopicName = TOPIC) -> ManagedLedgerRecord:
    path = managed_ledger_path(topic)
    found = await world.connect().get(path)
    assert found is not None
    return decode(path, found.value, ManagedLedgerRecord)
