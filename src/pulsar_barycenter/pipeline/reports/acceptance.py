"""Which reports of a batch count: each once, and those of one broker in the order of their sequences.

A report is known by (broker, incarnation, sequence). Of copies one counts. A report whose predecessor is missing is
held back for `HOLD_MS` by the brokers' clocks: two files that appear while a folder is listed may be found in the
wrong order, and averages depend on order. A predecessor that comes even later is *late*: its rows are kept in the
tables of reports and samples, where order does not matter, and averages, ownership and balance stay as they are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

SEQUENCE_MEMORY_MS = 172_800_000
"""How long an incarnation is remembered after its last report: well above the retention of the report log."""

HOLD_MS = 10_000
"""How long a report waits for its predecessor: until one of any broker is so much newer."""

_MISSING_REACH = 128
"""How many sequences back a report may still be missing; what is older is taken for a copy."""


class ReportKey(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """Names a report and gives its place among all: `reported_at` is its `lastUpdate`, epoch ms."""

    reported_at: int
    broker: str
    incarnation: str
    sequence: int


class ReportHeader(msgspec.Struct, frozen=True, rename="camel"):
    """A report without its figures. `row` tells apart the copies of one batch."""

    row: int
    key: ReportKey
    bundles: tuple[str, ...]


class SeenSequences(msgspec.Struct, frozen=True, rename="camel"):
    """Which reports of one incarnation of a broker were folded in: all up to `last`, save `missing` (ascending)."""

    broker: str
    incarnation: str
    last: int
    missing: tuple[int, ...]
    reported_at: int
    """The greatest `lastUpdate` among them, epoch ms."""

    def has(self, sequence: int) -> bool:
        return sequence <= self.last and sequence not in self.missing

    def plus(self, key: ReportKey) -> "SeenSequences":
        """Return this with one more report, which it did not have."""
        skipped = range(max(self.last + 1, key.sequence - _MISSING_REACH), key.sequence)
        last = max(self.last, key.sequence)
        missing = (number for number in (*self.missing, *skipped) if number != key.sequence)
        return SeenSequences(
            self.broker,
            self.incarnation,
            last,
            tuple(number for number in missing if number >= last - _MISSING_REACH),
            max(self.reported_at, key.reported_at),
        )


class AcceptedReports(msgspec.Struct, frozen=True, rename="camel"):
    """Which reports were accepted so far; `as_of` is the time of the newest."""

    as_of: int = 0
    seen: tuple[SeenSequences, ...] = ()


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The reports of a batch, sorted out. `accepted` has those of one broker in their order; `reports` is what was
    accepted up to now, late ones included and held ones not.
    """

    accepted: tuple[ReportHeader, ...]
    late: tuple[ReportHeader, ...]
    held: tuple[ReportHeader, ...]
    dropped: tuple[ReportHeader, ...]
    reports: AcceptedReports


def accept_reports(
    before: AcceptedReports, headers: Iterable[ReportHeader], *, present: Mapping[str, str] | None = None
) -> Acceptance:
    """Sort out the reports of a batch, those held back by the one before among them.

    Of two copies the one of the earlier `lastUpdate` counts. `present` is the newest incarnation of each known broker;
    a report of an older one is late, too.
    """
    sorter = _Sorter(before, present or {})
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
    def __init__(self, before: AcceptedReports, present: Mapping[str, str]) -> None:
        self._as_of = before.as_of
        self._seen = {(known.broker, known.incarnation): known for known in before.seen}
        self._present = dict(present)
        self._accepted: list[ReportHeader] = []
        self._late: list[ReportHeader] = []
        self._held: list[ReportHeader] = []
        self._dropped: list[ReportHeader] = []

    def take(self, group: list[ReportHeader], held_after: int | None) -> None:
        """Sort out the reports of one incarnation; those newer than `held_after` may wait for a predecessor."""
        first = group[0].key
        name = first.broker, first.incarnation
        seen = self._seen.get(name)
        is_former = seen is not None and self._present.get(first.broker, first.incarnation) != first.incarnation
        held: dict[int, ReportHeader] = {}
        for header in group:
            key = header.key
            if key.sequence in held or (seen is not None and seen.has(key.sequence)):
                self._dropped.append(header)
                continue
            has_gap = seen is not None and key.sequence > seen.last + 1
            if held or (has_gap and held_after is not None and key.reported_at > held_after):
                held[key.sequence] = header
                continue
            is_late = is_former or (seen is not None and key.sequence < seen.last)
            seen = (seen or SeenSequences(*name, 0, (), 0)).plus(key)
            if is_late:
                self._late.append(header)
            else:
                self._accepted.append(header)
                self._present[first.broker] = first.incarnation
                self._as_of = max(self._as_of, key.reported_at)
        self._held.extend(held.values())
        if seen is not None:
            self._seen[name] = seen

    def result(self) -> Acceptance:
        known = (self._seen[name] for name in sorted(self._seen))
        reports = AcceptedReports(
            self._as_of, tuple(seen for seen in known if self._as_of - seen.reported_at <= SEQUENCE_MEMORY_MS)
        )
        return Acceptance(tuple(self._accepted), tuple(self._late), tuple(self._held), tuple(self._dropped), reports)
