"""Updates the owners of all bundles with load reports; `ownership` has the rules and the stored form.

The cost of a batch depends on the bundles of the brokers that report in it, and on the intervals that ended. Indexes
find the owners of a bundle and the bundles of a namespace, so brokers and bundles without a change are not searched.
Two things cost more. Once a day, at a new date, all open intervals are written. And a bundle that lost its last owner
is compared with all bundles of its namespace, because one of them may be a part of it.
"""

import heapq
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import msgspec

from pulsar_barycenter.pipeline.folds.ownership import (
    Holding,
    HoldingStep,
    Interval,
    Ownership,
    OwnershipSteps,
    date_of,
    parts_of,
)
from pulsar_barycenter.pipeline.reports.acceptance import ReportHeader
from pulsar_barycenter.pipeline.tables.files import utc_date
from pulsar_barycenter.pipeline.tables.schemas import ENDED_GONE, ENDED_MOVED, ENDED_SPLIT


@dataclass(frozen=True, slots=True)
class OwnersChange:
    """How a batch of reports changed the ownership of bundles.

    `rows` are the rows to add to the table `ownership`: pairs of the date (yyyy-mm-dd) under which to write the row,
    and the interval. `brokers` are the brokers that reported, and those that were removed because they sent no report
    for more than the `history_gap_ms` of `Owners.fold`. `steps` are the same changes, in the form in which they are
    stored.
    """

    rows: list[tuple[str, Interval]]
    brokers: frozenset[str]
    steps: OwnershipSteps


class Owners:
    """The present owners of bundles, and the intervals of ownership that ended recently: at most two times
    `history_gap_ms` (an argument of `fold`) before the newest report.
    """

    def __init__(self, before: Ownership | None = None) -> None:
        """Start from the stored state `before`, or without owners if `before` is None. `before` is not changed."""
        before = before or Ownership()
        self.holdings: dict[str, Holding] = {}
        """The bundles that each broker owns, by broker. Callers may read this, but not change it."""
        self._date = before.date
        self._owners: dict[str, tuple[str, ...]] = {}
        self._ended: dict[int, Interval] = {}
        self._ended_of: dict[str, list[int]] = {}
        self._by_end: list[tuple[int, int]] = []
        """(lost_at, number) of the ended intervals, as a heap."""
        self._next = 0
        self._names: dict[str, set[str]] = {}
        """For each namespace, its bundles that are owned or were owned recently."""
        self._names_ended: dict[str, set[str]] = {}
        self._alone: dict[str, tuple[str]] = {}
        for broker, holding in before.holdings.items():
            self.holdings[broker] = msgspec.structs.replace(holding, bundles=dict(holding.bundles))
            for bundle in holding.bundles:
                self._add_owner(bundle, broker)
        for interval in before.ended:
            self._add_ended(interval)

    def record(self) -> Ownership:
        """Return the ownership to be stored. The result shares its content with this object, so the caller must write
        it before the next call of `fold`.
        """
        return Ownership(self.holdings, list(self._ended.values()), self._date)

    def owners_of(self, bundle: str) -> tuple[str, ...]:
        """Return the brokers whose newest reports list the bundle, usually one. Empty if there is none."""
        return self._owners.get(bundle, ())

    # ---- reports ----

    def fold(self, reports: Iterable[ReportHeader], *, as_of: int, history_gap_ms: int) -> OwnersChange:
        """Update the owners with `reports`, and return what changed. `reports` are the accepted ones of a batch (late
        reports are not among them); those of a broker are in the order of their sequences.

        `as_of` is the time of the newest report so far (epoch ms). A broker without a report for more than
        `history_gap_ms` before it is removed, with its bundles.
        """
        ended: list[Interval] = []
        opened: list[Interval] = []
        steps: list[HoldingStep] = []
        for report in reports:
            key = report.key
            holding = self.holdings.get(key.broker)
            if holding is not None:
                is_silent = key.reported_at - holding.reported_at > history_gap_ms
                if holding.incarnation != key.incarnation or is_silent:
                    ended += self._all_ended(key.broker, key.reported_at, history_gap_ms)
                    holding = None
            before = {} if holding is None else holding.bundles
            now = key.reported_at if holding is None else max(key.reported_at, holding.reported_at)
            listed = frozenset(report.bundles)
            lost, gained = sorted(before.keys() - listed), sorted(listed - before.keys())
            is_new = holding is None
            step = HoldingStep(key.broker, key.incarnation, key.sequence, now, is_new, lost, gained)
            ended += [Interval(b, key.broker, key.incarnation, before[b], now, ENDED_MOVED, now) for b in lost]
            opened += [Interval(bundle, key.broker, key.incarnation, now) for bundle in gained]
            step.apply(self.holdings)
            for bundle in lost:
                self._remove_owner(bundle, key.broker)
            for bundle in gained:
                self._add_owner(bundle, key.broker)
            steps.append(step)
        gone = [name for name, holding in self.holdings.items() if as_of - holding.reported_at > history_gap_ms]
        for broker in gone:
            ended += self._all_ended(broker, as_of, history_gap_ms)
            del self.holdings[broker]
            self._alone.pop(broker, None)
        since = as_of - 2 * history_gap_ms
        kept = [interval for interval in ended if interval.lost_at >= since]
        first = self._next
        for interval in kept:
            self._add_ended(interval)
        split: list[Interval] = []
        forgotten = self._forget(since)
        if ended or opened:
            affected = {i.bundle for i in kept} | forgotten
            for namespace in {parts_of(i.bundle)[0] for i in opened}:
                affected |= self._names_ended.get(namespace, set())
            split = self._find_splits(affected, history_gap_ms)
        new = [self._ended[number] for number in range(first, self._next)]
        rows = [(date_of(row), row) for row in (*opened, *ended, *split)]
        date = utc_date(as_of)
        if date != self._date:
            rows += [(date, row) for row in self._still_owned() if date_of(row) != date]
        self._date = date
        known = set(new)
        written = OwnershipSteps(steps, gone, new, [i for i in split if i not in known], since, date)
        return OwnersChange(rows, frozenset((*(step.broker for step in steps), *gone)), written)

    def _all_ended(self, broker: str, known_at: int, history_gap_ms: int) -> list[Interval]:
        holding = self.holdings[broker]
        last = holding.reported_at
        lost_at = min(known_at, last + history_gap_ms)
        for bundle in holding.bundles:
            self._remove_owner(bundle, broker)
        return [
            Interval(bundle, broker, holding.incarnation, since, last, ENDED_GONE, lost_at)
            for bundle, since in holding.bundles.items()
        ]

    def _find_splits(self, bundles: AbstractSet[str], history_gap_ms: int) -> list[Interval]:
        """Find the bundles among `bundles` that were split: a part of the bundle's range was reported within
        `history_gap_ms` after the bundle's owner lost it. Set the end of their last interval to ENDED_SPLIT, and return
        the changed intervals.
        """
        candidates: list[tuple[int, Interval]] = []
        for bundle in bundles & self._ended_of.keys():
            found = [(number, self._ended[number]) for number in self._ended_of[bundle]]
            found += [(-1, interval) for interval in self._open(bundle)]
            last = max(found, key=lambda each: (each[1].owned_from, each[1].owned_to is None, each[1].broker))
            if last[1].ended == ENDED_MOVED:
                candidates.append(last)
        starts = self.starts_in({parts_of(interval.bundle)[0] for _, interval in candidates})
        split = []
        for number, interval in candidates:
            until = (interval.owned_to or 0) + history_gap_ms
            namespace, lower, upper = parts_of(interval.bundle)
            if any(
                interval.owned_from <= start <= until
                for low, high, start in starts.get(namespace, ())
                if lower <= low and high <= upper and (low, high) != (lower, upper)
            ):
                self._ended[number] = msgspec.structs.replace(interval, ended=ENDED_SPLIT)
                split.append(self._ended[number])
        return split

    # ---- what is known ----

    def intervals_of(self, bundle: str) -> list[Interval]:
        """Return the known intervals in which a broker owned the bundle: those that ended recently, and those that have
        not ended.
        """
        return [*(self._ended[number] for number in self._ended_of.get(bundle, ())), *self._open(bundle)]

    def lost_until(self, at: int, history_gap_ms: int) -> set[str]:
        """Return the bundles that an owner lost at `at` (epoch ms), or less than `history_gap_ms` before it. A bundle
        is also returned if it has another owner.
        """
        return {i.bundle for i in self._ended.values() if i.lost_at <= at < i.lost_at + history_gap_ms}

    def starts_in(self, namespaces: Iterable[str]) -> dict[str, list[tuple[str, str, int]]]:
        """Return for each namespace a list of triples, one for each known interval of ownership of its bundles: the
        lower and the upper end of the bundle's range (texts, as in its name), and the begin of the interval (epoch ms).
        """
        return {
            namespace: [
                (*parts_of(bundle)[1:], interval.owned_from)
                for bundle in self._names.get(namespace, ())
                for interval in self.intervals_of(bundle)
            ]
            for namespace in namespaces
        }

    def _open(self, bundle: str) -> Iterator[Interval]:
        for broker in self._owners.get(bundle, ()):
            holding = self.holdings[broker]
            yield Interval(bundle, broker, holding.incarnation, holding.bundles[bundle])

    def _still_owned(self) -> Iterator[Interval]:
        for broker, holding in self.holdings.items():
            for bundle, since in holding.bundles.items():
                yield Interval(bundle, broker, holding.incarnation, since)

    # ---- indexes ----

    def _add_owner(self, bundle: str, broker: str) -> None:
        alone = self._alone.setdefault(broker, (broker,))  # one tuple for all bundles of the broker
        owners = self._owners.get(bundle)
        if owners is None:
            self._names.setdefault(parts_of(bundle)[0], set()).add(bundle)
        self._owners[bundle] = alone if owners is None else (*owners, broker)

    def _remove_owner(self, bundle: str, broker: str) -> None:
        left = tuple(owner for owner in self._owners[bundle] if owner != broker)
        if left:
            self._owners[bundle] = self._alone[left[0]] if len(left) == 1 else left
        else:
            del self._owners[bundle]
            self._forget_name(bundle)

    def _add_ended(self, interval: Interval) -> None:
        number, self._next = self._next, self._next + 1
        self._ended[number] = interval
        self._ended_of.setdefault(interval.bundle, []).append(number)
        heapq.heappush(self._by_end, (interval.lost_at, number))
        namespace = parts_of(interval.bundle)[0]
        self._names.setdefault(namespace, set()).add(interval.bundle)
        self._names_ended.setdefault(namespace, set()).add(interval.bundle)

    def _forget(self, since: int) -> set[str]:
        """Remove the ended intervals whose `lost_at` is before `since` (epoch ms); return the names of their
        bundles.
        """
        found = set()
        while self._by_end and self._by_end[0][0] < since:
            _, number = heapq.heappop(self._by_end)
            bundle = self._ended.pop(number).bundle
            found.add(bundle)
            numbers = self._ended_of[bundle]
            numbers.remove(number)
            if not numbers:
                del self._ended_of[bundle]
                _discard(self._names_ended, bundle)
                self._forget_name(bundle)
        return found

    def _forget_name(self, bundle: str) -> None:
        if bundle not in self._owners and bundle not in self._ended_of:
            _discard(self._names, bundle)


def _discard(names: dict[str, set[str]], bundle: str) -> None:
    namespace = parts_of(bundle)[0]
    found = names.get(namespace, set())
    found.discard(bundle)
    if not found:
        names.pop(namespace, None)
