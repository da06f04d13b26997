"""Who owned which bundle and when, from the load reports alone.

An interval begins with the first report of a broker that lists the bundle and ends with the same broker's first report
without it: *moved*, wherever to. It is *split* if nobody owned the bundle afterwards and a part of its range was
reported within an hour (`HISTORY_GAP_MS`). If the broker came back as another incarnation, or was silent for longer
than that, the interval ends at the broker's last report: *broker gone*.

Times are by the owner's clock and compared with that broker's times alone, in the order of its sequences, so brokers'
clocks may differ; the intervals of two owners may then overlap, or leave a gap, by as much as the clocks differ and
reports lie apart. A clock that was set back stands still until it has caught up.

In the table an interval is written when it begins, again with its end when it ends, again if it turns out to have been
split, and again for each new date on which it goes on. So a date's folder is complete by itself, whole dates may be
deleted, and no file is ever changed; `spark.table_reader.read_table` makes one row of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import msgspec

from pulsar_barycenter.pipeline.reports.acceptance import ReportHeader
from pulsar_barycenter.pipeline.tables.files import utc_date
from pulsar_barycenter.pipeline.tables.schemas import ENDED_GONE, ENDED_MOVED, ENDED_SPLIT


class Holding(msgspec.Struct, rename="camel"):
    """What one broker owns: bundle to the time (epoch ms) it began; `reported_at` is of its newest report."""

    incarnation: str
    sequence: int
    reported_at: int
    bundles: dict[str, int]


class Interval(msgspec.Struct, frozen=True, rename="camel"):
    """One owner of a bundle, epoch ms. `lost_at` is when the end became known: later than `owned_to` if it is gone."""

    bundle: str
    broker: str
    incarnation: str
    owned_from: int
    owned_to: int | None = None
    ended: str | None = None
    lost_at: int = 0


class Ownership(msgspec.Struct, rename="camel"):
    """What is remembered: what each broker owns, and what ended lately. `date` is the last one written in full."""

    holdings: dict[str, Holding] = {}
    ended: list[Interval] = []
    date: str = ""

    @property
    def members(self) -> list[tuple[str, str | None]]:
        """(broker, bundle) of the newest reports; (broker, None) for a broker without bundles."""
        return [
            (broker, bundle)
            for broker in sorted(self.holdings)
            for bundle in (self.holdings[broker].bundles or (None,))
        ]


@dataclass(slots=True)
class OwnershipChange:
    """What a batch of reports changed. `rows` are (date, interval) as the table holds them."""

    after: Ownership
    rows: list[tuple[str, Interval]] = field(default_factory=list)


def fold_ownership(
    before: Ownership, reports: Iterable[ReportHeader], *, as_of: int, history_gap_ms: int
) -> OwnershipChange:
    """Fold accepted reports in, those of one broker in their order; `before` is left as it is."""
    holdings = {broker: msgspec.structs.replace(h, bundles=dict(h.bundles)) for broker, h in before.holdings.items()}
    ended: list[Interval] = []
    opened: list[Interval] = []

    def end_all(broker: str, holding: Holding, known_at: int) -> None:
        last = holding.reported_at
        for bundle, since in holding.bundles.items():
            lost_at = min(known_at, last + history_gap_ms)
            ended.append(Interval(bundle, broker, holding.incarnation, since, last, ENDED_GONE, lost_at))

    for report in reports:
        key = report.key
        holding = holdings.get(key.broker)
        if holding is not None:
            is_silent = key.reported_at - holding.reported_at > history_gap_ms
            if holding.incarnation != key.incarnation or is_silent:
                end_all(key.broker, holding, key.reported_at)
                holding = None
        if holding is None:
            holding = holdings[key.broker] = Holding(key.incarnation, key.sequence, key.reported_at, {})
        now = max(key.reported_at, holding.reported_at)
        holding.sequence, holding.reported_at = key.sequence, now
        listed = frozenset(report.bundles)
        for bundle in sorted(holding.bundles.keys() - listed):
            since = holding.bundles.pop(bundle)
            ended.append(Interval(bundle, key.broker, key.incarnation, since, now, ENDED_MOVED, now))
        for bundle in sorted(listed - holding.bundles.keys()):
            holding.bundles[bundle] = now
            opened.append(Interval(bundle, key.broker, key.incarnation, now))
    for broker in [name for name, holding in holdings.items() if as_of - holding.reported_at > history_gap_ms]:
        end_all(broker, holdings.pop(broker), as_of)
    after = Ownership(
        holdings, [i for i in (*before.ended, *ended) if as_of - i.lost_at <= 2 * history_gap_ms], before.date
    )
    rows = [*opened, *ended]
    if ended or opened:
        rows += _tell_splits(after, history_gap_ms)
    change = OwnershipChange(after, [(_date_of(row), row) for row in rows])
    after.date = utc_date(as_of)
    if after.date != before.date:
        change.rows += [(after.date, row) for row in _still_owned(after) if _date_of(row) != after.date]
    return change


def _tell_splits(after: Ownership, history_gap_ms: int) -> list[Interval]:
    """Set those of `after.ended` that were split, and return them."""
    moved = {i.bundle for i in after.ended if i.ended == ENDED_MOVED}
    last = {
        bundle: max(intervals, key=lambda i: (i.owned_from, i.owned_to is None, i.broker))
        for bundle, intervals in intervals_of(moved, after).items()
    }
    candidates = [i for i in last.values() if i.ended == ENDED_MOVED]
    starts = starts_by_namespace(after) if candidates else {}
    split = {
        i: msgspec.structs.replace(i, ended=ENDED_SPLIT)
        for i in candidates
        if i.owned_to is not None
        and any(i.owned_from <= start <= i.owned_to + history_gap_ms for start in starts_of_parts(i.bundle, starts))
    }
    after.ended = [split.get(i, i) for i in after.ended]
    return list(split.values())


def intervals_of(bundles: AbstractSet[str], ownership: Ownership) -> dict[str, list[Interval]]:
    """All that is known of each of `bundles`: what ended lately, and what goes on."""
    found: dict[str, list[Interval]] = {bundle: [] for bundle in bundles}
    for interval in ownership.ended:
        if interval.bundle in found:
            found[interval.bundle].append(interval)
    for broker, holding in ownership.holdings.items():
        for bundle in holding.bundles.keys() & bundles:
            found[bundle].append(Interval(bundle, broker, holding.incarnation, holding.bundles[bundle]))
    return found


def starts_by_namespace(ownership: Ownership) -> dict[str, list[tuple[str, str, int]]]:
    """Namespace to (lower end, upper end, begin) of all intervals known."""
    starts: dict[str, list[tuple[str, str, int]]] = {}
    for interval in (*_still_owned(ownership), *ownership.ended):
        namespace, lower, upper = parts_of(interval.bundle)
        starts.setdefault(namespace, []).append((lower, upper, interval.owned_from))
    return starts


def starts_of_parts(bundle: str, starts: Mapping[str, list[tuple[str, str, int]]]) -> Iterator[int]:
    """When the intervals of bundles that are a part of `bundle`'s range began."""
    namespace, lower, upper = parts_of(bundle)
    for low, high, start in starts.get(namespace, ()):
        if lower <= low and high <= upper and (low, high) != (lower, upper):
            yield start


def parts_of(bundle: str) -> tuple[str, str, str]:
    """Namespace, lower and upper end; ends are compared as text, which for 0x and eight digits is their order."""
    namespace, _, range_text = bundle.rpartition("/")
    lower, _, upper = range_text.partition("_")
    return namespace, lower, upper


def _still_owned(ownership: Ownership) -> Iterator[Interval]:
    for broker, holding in ownership.holdings.items():
        for bundle, since in holding.bundles.items():
            yield Interval(bundle, broker, holding.incarnation, since)


def _date_of(interval: Interval) -> str:
    return utc_date(interval.owned_from if interval.owned_to is None else interval.owned_to)
