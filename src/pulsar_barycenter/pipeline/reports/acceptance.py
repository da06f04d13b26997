"""Decides which reports of a batch count: each once, and the reports of a broker in the order of their sequences.

A report is identified by (broker, incarnation, sequence); of several copies one counts. A report whose predecessor is
missing is held back for `HOLD_MS` by the brokers' clocks. Reason: if two files appear while a folder is listed, they
may be found in the wrong order, and averages depend on the order. A predecessor that arrives even later is *late*: its
rows are added to the tables of reports and samples, where the order does not matter; averages, ownership and balance do
not change. The first report of an incarnation that began before the broker's present one is late too.

A report is a copy if its sequence was taken (accepted, or late) before. Taken sequences are stored as ranges with at
most `MOST_GAPS` gaps, for `SEQUENCE_MEMORY_MS`. For a report outside of this memory (*unknown*; `untold` in the stored
state), the table of reports shows whether it was taken (`taken_reports`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

SEQUENCE_MEMORY_MS = 172_800_000
"""How long an incarnation is remembered after its last report: well above the retention of the report log."""

HOLD_MS = 10_000
"""How long a report waits for its predecessor: until a report of any broker is newer by this time. Then it is taken
without the predecessor.
"""

MOST_GAPS: Final = 256
"""The maximum number of gaps (ranges of missing sequences) that are stored for an incarnation. If there are more, the
gaps with the smallest sequences are dropped.
"""

_LEAST: Final = -(2**63)


class ReportKey(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """The key that identifies a load report. Reports are sorted by it, that is, first by `reported_at`: the report's
    `lastUpdate` in epoch ms.
    """

    reported_at: int
    broker: str
    incarnation: str
    sequence: int


class ReportHeader(msgspec.Struct, frozen=True, rename="camel"):
    """A report without its values: its key, and the bundles that it lists. `row` is the number of its row in the batch,
    which differs between two copies of the same report.
    """

    row: int
    key: ReportKey
    bundles: tuple[str, ...]


class SeenSequences(msgspec.Struct, frozen=True, rename="camel"):
    """The sequences of one incarnation of a broker whose reports have been processed ("taken", that is accepted or
    late): all up to `last` (inclusive), except those in `missing` and `gaps`.

    Earlier versions of Barycenter wrote only `missing` (single sequences), and removed those more than 128 below
    `last`. This version reads `missing`, and writes it empty.
    """

    broker: str
    incarnation: str
    last: int
    missing: tuple[int, ...]
    reported_at: int
    """The greatest `lastUpdate` of these reports, epoch ms."""
    gaps: tuple[tuple[int, int], ...] | msgspec.UnsetType = msgspec.UNSET
    """Missing sequences as ranges (first, last), both inclusive, ascending."""
    untold: int | msgspec.UnsetType = msgspec.UNSET
    """Gaps up to this sequence (inclusive) were dropped: a sequence below it that is in no gap may be taken or not."""
    begun: int | msgspec.UnsetType = msgspec.UNSET
    """The least `lastUpdate` of these reports, epoch ms."""

    @property
    def first_at(self) -> int:
        """The time of the incarnation's earliest report (epoch ms). A state that an earlier version of Barycenter wrote
        does not have it; then this is the time of the latest report.
        """
        return self.reported_at if self.begun is msgspec.UNSET else self.begun

    @property
    def _gaps(self) -> tuple[tuple[int, int], ...]:
        later = () if self.gaps is msgspec.UNSET else self.gaps
        return (*later, *((number, number) for number in self.missing)) if self.missing else later

    def has(self, sequence: int) -> bool:
        """Return whether the report with this sequence has been processed, as far as is stored. If `is_untold` returns
        True for the sequence, this may be wrong.
        """
        return sequence <= self.last and not any(first <= sequence <= last for first, last in self._gaps)

    def is_untold(self, sequence: int) -> bool:
        """Return whether it is not stored if the report with this sequence has been processed, because the incarnation
        had more gaps than are stored. `has` may then wrongly return True.
        """
        if self.untold is not msgspec.UNSET:
            return sequence <= self.untold and self.has(sequence)
        is_of_before = self.gaps is msgspec.UNSET
        return is_of_before and sequence < self.last - _REACH_OF_BEFORE and self.has(sequence)

    def plus(self, key: ReportKey) -> "SeenSequences":
        """Return a copy in which the report `key` counts as processed as well. It must not have been processed
        before.
        """
        number = key.sequence
        gaps = [part for gap in self._gaps for part in _without(gap, number)]
        if number > self.last + 1:
            gaps.append((self.last + 1, number - 1))
        gaps.sort()
        untold = self.untold
        if untold is msgspec.UNSET and self.gaps is msgspec.UNSET and self.last > _LEAST:
            untold = self.last - _REACH_OF_BEFORE - 1
        if len(gaps) > MOST_GAPS:
            forgotten = gaps[-MOST_GAPS - 1][1]
            untold = forgotten if untold is msgspec.UNSET else max(untold, forgotten)
        return SeenSequences(
            self.broker,
            self.incarnation,
            max(self.last, number),
            (),
            max(self.reported_at, key.reported_at),
            tuple(gaps[-MOST_GAPS:]),
            untold,
            key.reported_at if self.last == _LEAST else min(self.first_at, key.reported_at),
        )


_REACH_OF_BEFORE: Final = 128


def _without(gap: tuple[int, int], number: int) -> list[tuple[int, int]]:
    first, last = gap
    if not first <= number <= last:
        return [gap]
    return [part for part in ((first, number - 1), (number + 1, last)) if part[0] <= part[1]]


class AcceptedReports(msgspec.Struct, frozen=True, rename="camel"):
    """Which reports have been processed so far (accepted or late), by incarnation of a broker. `as_of` is the greatest
    `lastUpdate` of an accepted report, epoch ms.
    """

    as_of: int = 0
    seen: tuple[SeenSequences, ...] = ()


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What is done with each report of a batch.

    `accepted` reports change averages, ownership and balance; those of a broker are in the order of their sequences.
    `late` reports are only added to the tables of reports and samples. `held` reports wait for the next batch, because
    a report with a smaller sequence is missing. `dropped` reports are copies of processed ones. `reports` has all
    reports that are processed after this batch, including earlier batches.
    """

    accepted: tuple[ReportHeader, ...]
    late: tuple[ReportHeader, ...]
    held: tuple[ReportHeader, ...]
    dropped: tuple[ReportHeader, ...]
    reports: AcceptedReports


TakenKey = tuple[str, str, int]
"""(broker, incarnation, sequence)."""


def taken_key(key: ReportKey) -> TakenKey:
    return key.broker, key.incarnation, key.sequence


def untold_reports(before: AcceptedReports, headers: Iterable[ReportHeader]) -> list[ReportKey]:
    """Return the keys of those reports for which `before` does not show whether they have been processed. The caller
    looks them up in the table of reports.
    """
    known = {(seen.broker, seen.incarnation): seen for seen in before.seen}
    found = []
    for header in headers:
        key = header.key
        seen = known.get((key.broker, key.incarnation))
        if seen is None:
            if before.as_of - key.reported_at > SEQUENCE_MEMORY_MS:
                found.append(key)
        elif seen.is_untold(key.sequence):
            found.append(key)
    return found


def accept_reports(
    before: AcceptedReports,
    headers: Iterable[ReportHeader],
    *,
    present: Mapping[str, str] | None = None,
    untold: Mapping[TakenKey, bool] | None = None,
) -> Acceptance:
    """Decide for each report of a batch whether it is accepted, late, held back for the next batch, or dropped (see
    `Acceptance`).

    `before` has the reports that earlier batches processed. `headers` are the reports of this batch, and those that the
    previous batch held back. Of two copies of a report, the one with the earlier `lastUpdate` is used. `present` is the
    newest incarnation of each known broker; reports of older incarnations are late. `untold` has, for each report that
    `untold_reports` returns, whether it was processed.
    """
    sorter = _Sorter(before, present or {}, untold or {})
    by_incarnation: dict[tuple[str, str], list[ReportHeader]] = {}
    for header in headers:
        by_incarnation.setdefault((header.key.broker, header.key.incarnation), []).append(header)
    groups = sorted(by_incarnation.values(), key=lambda group: min(header.key for header in group))
    as_of = max([before.as_of, *(header.key.reported_at for group in groups for header in group)])
    last_incarnation = {group[0].key.broker: group[0].key.incarnation for group in groups}
    for group in groups:
        key = group[0].key
        may_wait = last_incarnation[key.broker] == key.incarnation
        sorter.take(sorted(group, key=lambda h: (h.key.sequence, h.key, h.row)), as_of - HOLD_MS if may_wait else None)
    return sorter.result()


class _Sorter:
    def __init__(self, before: AcceptedReports, present: Mapping[str, str], untold: Mapping[TakenKey, bool]) -> None:
        self._as_of = before.as_of
        self._oldest = before.as_of - SEQUENCE_MEMORY_MS
        self._seen = {(known.broker, known.incarnation): known for known in before.seen}
        self._present = dict(present)
        self._untold = untold
        self._accepted: list[ReportHeader] = []
        self._late: list[ReportHeader] = []
        self._held: list[ReportHeader] = []
        self._dropped: list[ReportHeader] = []

    def take(self, group: list[ReportHeader], held_after: int | None) -> None:
        """Decide for each report in `group` whether it is accepted, late, held back or dropped. `group` has the reports
        of one incarnation, sorted by sequence.

        A report may be held back, because a report with a smaller sequence is missing, only if its time is after
        `held_after` (epoch ms). None: no report is held back.
        """
        first = group[0].key
        name = first.broker, first.incarnation
        before = seen = self._seen.get(name)
        is_former = self._is_former(group, is_known=seen is not None)
        counted: set[int] = set()
        is_waiting = False
        for header in group:
            key = header.key
            if key.sequence in counted or self._was_taken(before, key):
                self._dropped.append(header)
                continue
            counted.add(key.sequence)
            has_gap = seen is not None and key.sequence > seen.last + 1
            if is_waiting or (has_gap and held_after is not None and key.reported_at > held_after):
                is_waiting = True
                self._held.append(header)
                continue
            is_late = is_former or (seen is not None and key.sequence < seen.last)
            if before is None and key.reported_at < self._oldest:
                is_late = True
            if seen is None:
                seen = self._first_of(key)
            if not seen.has(key.sequence):  # False for a report of unknown state that the table does not have
                seen = seen.plus(key)
            if is_late:
                self._late.append(header)
            else:
                self._accepted.append(header)
                self._present[first.broker] = first.incarnation
                self._as_of = max(self._as_of, key.reported_at)
        if seen is not None:
            self._seen[name] = seen

    def _first_of(self, key: ReportKey) -> SeenSequences:
        """Return which sequences of an incarnation count as processed before its first report `key`: none.

        If the reports of more than SEQUENCE_MEMORY_MS have been read, older incarnations are no longer stored. Then it
        is unknown whether sequences below that of `key` have been processed.
        """
        if self._oldest <= 0:
            return SeenSequences(key.broker, key.incarnation, _LEAST, (), 0)
        below = key.sequence - 1
        return SeenSequences(key.broker, key.incarnation, below, (), key.reported_at, (), below, key.reported_at)

    def _is_former(self, group: list[ReportHeader], *, is_known: bool) -> bool:
        """Return whether the reports in `group` are of an earlier incarnation than the present one of their broker.
        `is_known`: reports of the group's incarnation have been processed.

        If none have been, the incarnation is an earlier one if its first report is older than the first report of the
        present one.
        """
        broker = group[0].key.broker
        present = self._present.get(broker)
        if present is None or present == group[0].key.incarnation:
            return False
        seen = self._seen.get((broker, present))
        return is_known or (seen is not None and min(header.key.reported_at for header in group) < seen.first_at)

    def _was_taken(self, before: SeenSequences | None, key: ReportKey) -> bool:
        looked_up = self._untold.get(taken_key(key))
        return looked_up if looked_up is not None else before is not None and before.has(key.sequence)

    def result(self) -> Acceptance:
        known = (self._seen[name] for name in sorted(self._seen))
        reports = AcceptedReports(
            self._as_of, tuple(seen for seen in known if self._as_of - seen.reported_at <= SEQUENCE_MEMORY_MS)
        )
        return Acceptance(tuple(self._accepted), tuple(self._late), tuple(self._held), tuple(self._dropped), reports)
