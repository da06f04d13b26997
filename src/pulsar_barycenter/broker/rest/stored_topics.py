"""The ledgers and cursors of a topic in the form of Pulsar's `ManagedLedgerInfo`, with the times of their records.

Source: Pulsar's `ManagedLedgerFactoryImpl.asyncGetManagedLedgerInfo`. Differences: a cursor has no ledger of its own,
so `cursorsLedgerId` is -1; positions are the present ones, and the record may still have earlier ones.
"""

import asyncio
from itertools import pairwise
from typing import Any, Final

from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.stats import timestamp
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.managed_ledger import managed_ledger_path
from pulsar_barycenter.ledger.managed.stats import LedgerStats
from pulsar_barycenter.ledger.position import Position
from pulsar_barycenter.metadata.store import MetadataStore

_CONCURRENT_READS: Final = 32
_NO_LEDGER: Final = -1


async def stored_topic(topic: PersistentTopic, store: MetadataStore) -> dict[str, Any]:
    """Return the ledgers and cursors of a topic for the answer to a request. The fields about the record of a cursor
    (version, times of creation and change) are left out if the store does not have that record yet.

    Raises:
        MetadataError: the store did not answer.
    """
    ledger, limit = topic.ledger, asyncio.Semaphore(_CONCURRENT_READS)

    async def times(path: str) -> dict[str, Any]:
        async with limit:
            record = await store.get(path)
        if record is None:
            return {}
        stat = record.stat
        return {
            "version": stat.version,
            "creationDate": timestamp(stat.created_at_ms),
            "modificationDate": timestamp(stat.modified_at_ms),
        }

    cursors = list(ledger.cursors.values())
    of_topic, *of_cursors = await asyncio.gather(
        times(managed_ledger_path(topic.name)), *(times(cursor.path) for cursor in cursors)
    )
    shown: dict[str, Any] = {
        **of_topic,
        "ledgers": _ledgers(ledger.stats.ledgers, topic.clock.now_ms()),
        "cursors": {
            cursor.name: {**found, **_cursor(cursor)} for cursor, found in zip(cursors, of_cursors, strict=True)
        },
    }
    if ledger.terminated_at is not None:
        shown["terminatedPosition"] = _position(ledger.terminated_at)
    if ledger.properties:
        shown["properties"] = dict(ledger.properties)
    return shown


def _ledgers(ledgers: tuple[LedgerStats, ...], now_ms: int) -> list[dict[str, Any]]:
    """Return the fields of the ledgers for an answer, oldest ledger first. The `timestamp` of a ledger is the time at
    which it ended, which is when the next ledger was created; None if that is not known. The last ledger has not ended;
    as in Pulsar, its `timestamp` is the time of the answer.
    """
    ends = [after.created_at_ms or None for _, after in pairwise(ledgers)]
    return [
        {
            "ledgerId": ledger.ledger_id,
            "entries": ledger.entries,
            "size": ledger.size,
            "timestamp": ended_at_ms,
            "isOffloaded": False,
        }
        for ledger, ended_at_ms in zip(ledgers, [*ends, now_ms], strict=False)
    ]


def _cursor(cursor: Cursor) -> dict[str, Any]:
    ranges = [
        {"from": _position(Position(ledger_id, first - 1)), "to": _position(Position(ledger_id, last))}
        for ledger_id, first, last in cursor.acked_ranges
    ]
    shown: dict[str, Any] = {"cursorsLedgerId": _NO_LEDGER, "markDelete": _position(cursor.mark_delete)}
    return {**shown, "individualDeletedMessages": ranges} if ranges else shown


def _position(position: Position) -> dict[str, int]:
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}
