"""Decides which consumed ledgers a topic may delete.

A ledger ends when its successor is created, so the list of ledgers has the time. If nothing is written for a while
after the topic was opened, the ledger before is kept for that much longer.

Source: Pulsar's `ManagedLedgerImpl.internalTrimLedgers`, where the record of a ledger has the time of its end.
"""

from collections.abc import Iterable

from pulsar_barycenter.ledger.ledger_settings import Retention
from pulsar_barycenter.ledger.managed.segments import Segment, Segments


def released(consumed: Iterable[Segment], ledgers: Segments, retention: Retention, now_ms: int) -> list[Segment]:
    """Return the ledgers in `consumed` that retention does not keep, in the given order, oldest first.

    A ledger is released if it ended longer ago than the time of retention, or if the ledgers of the topic after it
    still have the size of retention or more. All ledgers after the first one that is kept are kept, too. Ledgers
    without entries are released with those before them.
    """
    found = []
    left = ledgers.size
    for segment in consumed:
        if segment.entries:
            left -= segment.size
            ended_ms = ledgers.ended_at_ms(segment)
            is_beyond_size = 0 <= retention.size <= left
            has_expired = ended_ms is not None and 0 <= retention.time_ms < now_ms - ended_ms
            if not (is_beyond_size or has_expired):
                break
        found.append(segment)
    return found
