"""Ownership folded in place, against a fold of everything in each batch, and against what is written of it."""

import random
from collections.abc import Iterable

import msgspec
import pytest

from pulsar_barycenter.pipeline.folds.owners import Owners
from pulsar_barycenter.pipeline.folds.ownership import Holding, Interval, Ownership, OwnershipSteps, date_of, parts_of
from pulsar_barycenter.pipeline.reports.acceptance import ReportHeader, ReportKey
from pulsar_barycenter.pipeline.tables.files import utc_date
from pulsar_barycenter.pipeline.tables.schemas import ENDED_GONE, ENDED_MOVED, ENDED_SPLIT

GAP_MS = 60_000
DAY_MS = 86_400_000
START_MS = 20_000 * DAY_MS - 400_000
"""Shortly before a new date."""
RANGES = [("0x00000000", "0x80000000"), ("0x00000000", "0x40000000"), ("0x40000000", "0x80000000"),
          ("0x80000000", "0xffffffff"), ("0x80000000", "0xc0000000")]  # fmt: skip
NAMES = [f"t/{namespace}/{low}_{high}" for namespace in "mn" for low, high in RANGES]


def folded(before: Ownership, reports: Iterable[ReportHeader], as_of: int) -> tuple[Ownership, list[Interval]]:
    """The definition: look at all that is known, in each batch. Returns what is remembered, and the intervals that
    began, ended or were split."""
    holdings = {broker: msgspec.structs.replace(h, bundles=dict(h.bundles)) for broker, h in before.holdings.items()}
    rows: list[Interval] = []
    ended: list[Interval] = []

    def end_all(broker: str, holding: Holding, known_at: int) -> None:
        lost_at = min(known_at, holding.reported_at + GAP_MS)
        for bundle, since in holding.bundles.items():
            last = holding.reported_at
            ended.append(Interval(bundle, broker, holding.incarnation, since, last, ENDED_GONE, lost_at))

    for report in reports:
        key, listed = report.key, set(report.bundles)
        holding = holdings.get(key.broker)
        if holding and (holding.incarnation != key.incarnation or key.reported_at - holding.reported_at > GAP_MS):
            end_all(key.broker, holding, key.reported_at)
            holding = None
        if holding is None:
            holding = holdings[key.broker] = Holding(key.incarnation, key.sequence, key.reported_at, {})
        now = max(key.reported_at, holding.reported_at)
        holding.sequence, holding.reported_at = key.sequence, now
        for bundle in sorted(holding.bundles.keys() - listed):
            since = holding.bundles.pop(bundle)
            ended.append(Interval(bundle, key.broker, key.incarnation, since, now, ENDED_MOVED, now))
        for bundle in sorted(listed - holding.bundles.keys()):
            holding.bundles[bundle] = now
            rows.append(Interval(bundle, key.broker, key.incarnation, now))
    for broker in [name for name, holding in holdings.items() if as_of - holding.reported_at > GAP_MS]:
        end_all(broker, holdings.pop(broker), as_of)
    known = [i for i in (*before.ended, *ended) if as_of - i.lost_at <= 2 * GAP_MS]
    rows += ended
    if rows:
        owned = [
            Interval(bundle, broker, holding.incarnation, since)
            for broker, holding in holdings.items()
            for bundle, since in holding.bundles.items()
        ]
        for number, interval in enumerate(known):
            mine = [i for i in (*known, *owned) if i.bundle == interval.bundle]
            last = max(mine, key=lambda i: (i.owned_from, i.owned_to is None, i.broker))
            parts = (i.owned_from for i in (*known, *owned) if is_part(i.bundle, interval.bundle))
            until = (interval.owned_to or 0) + GAP_MS
            if last is interval and last.ended == ENDED_MOVED and any(last.owned_from <= at <= until for at in parts):
                known[number] = msgspec.structs.replace(interval, ended=ENDED_SPLIT)
                rows.append(known[number])
    return Ownership(holdings, known, utc_date(as_of)), rows


def is_part(bundle: str, whole: str) -> bool:
    namespace, low, high = parts_of(bundle)
    of, lower, upper = parts_of(whole)
    return namespace == of and lower <= low and high <= upper and (low, high) != (lower, upper)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_known_and_written_is_that_of_a_fold_of_everything(seed: int) -> None:
    """Bundles move, are split and forgotten; brokers are silent or start again; clocks differ. In between all is
    written and read back; what a batch changed makes the same of what was written before."""
    rng = random.Random(seed)
    expected, owners, kept = Ownership(), Owners(), Ownership()
    at, splits = START_MS, 0
    for sequence in range(90):
        at += rng.choice([500, 3_000, 9_000, 40_000 if rng.random() < 0.2 else 0])
        reports = []
        for broker in rng.sample("abcd", rng.choice([0, 1, 1, 2])):
            incarnation = f"i{rng.random() < 0.05}"
            key = ReportKey(at - rng.choice([0, 0, 2_000]), broker, incarnation, sequence)
            reports.append(ReportHeader(0, key, tuple(rng.sample(NAMES, rng.randrange(5)))))
        date = expected.date
        expected, rows = folded(expected, reports, at)
        change = owners.fold(reports, as_of=at, history_gap_ms=GAP_MS)
        written = [row for _, row in change.rows if _ == date_of(row)]
        assert sorted(written, key=repr) == sorted(rows, key=repr)
        splits += sum(row.ended == ENDED_SPLIT for row in rows)
        again = [row for of, row in change.rows if of != date_of(row)]
        assert bool(again) <= (date != utc_date(at))
        assert owners.record() == expected
        assert list(owners.record().holdings) == list(expected.holdings)
        steps = msgspec.json.decode(msgspec.json.encode(change.steps), type=OwnershipSteps)
        steps.apply(kept)
        assert kept == expected
        assert [list(holding.bundles) for holding in kept.holdings.values()] == [
            list(holding.bundles) for holding in expected.holdings.values()
        ]
        check_indexes(owners)
        if rng.random() < 0.1:
            owners = Owners(msgspec.json.decode(msgspec.json.encode(owners.record()), type=Ownership))
    assert splits > 0


def check_indexes(owners: Owners) -> None:
    """Nothing is kept of what is known no longer."""
    record = owners.record()
    for bundle in NAMES:
        of = [broker for broker, holding in record.holdings.items() if bundle in holding.bundles]
        assert sorted(owners.owners_of(bundle)) == sorted(of)
    known = {bundle for holding in record.holdings.values() for bundle in holding.bundles}
    known |= {interval.bundle for interval in record.ended}
    assert owners.starts_in("mn").keys() == {"m", "n"}
    assert set().union(*owners._names.values()) == known
    assert set().union(*owners._names_ended.values()) == {interval.bundle for interval in record.ended}
    assert owners._alone.keys() <= record.holdings.keys()
