"""Decides which consumed ledgers a topic may delete.

A ledger ends when its successor is created, so the time of its end is in the list. If nothing is written for a while
after a topic was opened, no successor is created meanwhile, and the last ledger is kept for that much longer.

Source: Pulsar's `ManagedLedgerImpl.internalTrimLedgers`, where the record of a ledger has the time of its end.
"""

from collections.abc import Iterable

from pulsar_barycenter.ledger.ledger_settings import Retention
from pulsar_barycenter.ledger.managed.segments import Segment, Segments


def released(consumed: Iterable[Segment], ledgers: Segments, retention: Retention, now_ms: int) -> list[Segment]:
    """Return those ledgers in `consumed` that retention does not keep, oldest first. `consumed` has the same order.

    Retention does not keep a ledger that ended longer ago than the time of retention, or if the ledgers after it have
    the size of retention or more. All ledgers after the first one that is kept are kept, too. A ledger without entries
    is returned if the ledgers before it are.
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
