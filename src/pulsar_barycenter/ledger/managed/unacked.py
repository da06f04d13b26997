"""Computes which entries a cursor has not acknowledged, as stretches: consecutive existing entries of one ledger. No
I/O.

Only whole entries count: a batch is one entry. Source: `getPositionAfterN` of Pulsar's `ManagedLedgerImpl` with
`IndividualDeletedEntries.Exclude`, and `filterReadEntries` of its `ManagedCursorImpl`.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pulsar_barycenter.ledger.managed.segments import Segment, Segments
from pulsar_barycenter.ledger.position import EARLIEST, Position, joined


class Stretch(NamedTuple):
    """Consecutive entries of one ledger, from the id `first` (inclusive) to `stop` (exclusive). All of them exist, and
    none is acknowledged.
    """

    segment: Segment
    first: int
    stop: int

    @property
    def entries(self) -> int:
        return self.stop - self.first


def unacked_stretches(
    segments: Segments, mark: Position, acked: Iterable[tuple[int, int, int]], upto: Position
) -> Iterator[Stretch]:
    """Yield the entries after `mark` (exclusive) up to `upto` (inclusive) that are neither acknowledged nor missing, as
    stretches: ranges of consecutive entries of one ledger, in order, each as long as possible.

    `segments` are the ledgers of the topic. `acked` are the acknowledged entries after `mark`, as ranges (ledger,
    first, last), both ends inclusive.
    """
    acked_in: dict[int, list[tuple[int, int]]] = {}
    for ledger_id, first, last in acked:
        acked_in.setdefault(ledger_id, []).append((first, last))
    for segment in segments:
        ledger_id = segment.ledger_id
        if ledger_id < mark.ledger_id:
            continue
        if ledger_id > upto.ledger_id:
            return
        first = max(mark.entry_id + 1, 0) if ledger_id == mark.ledger_id else 0
        stop = min(upto.entry_id + 1, segment.entries) if ledger_id == upto.ledger_id else segment.entries
        for begin, end in joined([*acked_in.get(ledger_id, ()), *segment.missing]):
            if begin >= stop:
                break
            if begin > first:
                yield Stretch(segment, first, begin)
            first = max(first, end + 1)
        if first < stop:
            yield Stretch(segment, first, stop)


def nth_entry(stretches: Iterable[Stretch], number: int) -> Position:
    """Return the position of the entry with the number `number` among all entries of `stretches`, counted from 1;
    EARLIEST if they have fewer entries.
    """
    left = number
    for segment, first, stop in stretches:
        if left <= stop - first:
            return Position(segment.ledger_id, first + left - 1)
        left -= stop - first
    return EARLIEST
