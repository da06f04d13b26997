"""Decides which consumed ledgers a topic may delete.

A ledger ends when its successor is created, so the time of its end is in the list. If nothing is written for a while
after a topic was opened, no successor is created meanwhile, and the last ledger is kept for that much longer.

Source: Pulsar's `ManagedLedgerImpl.internalTrimLedgers`, where the record of a ledger has the time of its end.
"""

from collections.abc import Iterable

from pulsar_barycenter.ledger.ledger_settings import Retention
from pulsar_barycenter.ledger.managed.segments import Segment, Segments


def released(consumed: Iterable[Segment], ledgers: Segments, retention: Retention, now_ms: int) -> list[Segment]:
    """Return those ledgers in `consumed` that retention does not keep. `consumed` are the ledgers that all
    subscriptions have consumed, and `ledgers` are all ledgers of the topic. Both, and the result, are ordered oldest
    first.

    A ledger is not kept if it ended longer ago than `retention.time_ms`, or if all ledgers after it have at least
    `retention.size` bytes in total. All ledgers after the first one that is kept are kept, too. A ledger without
    entries is returned if all ledgers before it are returned.
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
