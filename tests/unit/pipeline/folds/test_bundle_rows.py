"""Windows and sums that are changed in place, against those of all bundles computed at once: equal to the last bit."""

import random
from typing import Any

import pyarrow as pa
import pytest

from pulsar_barycenter.pipeline.folds.broker_sums import BrokerSums
from pulsar_barycenter.pipeline.folds.bundle_rows import BundleRows
from pulsar_barycenter.pipeline.folds.live_windows import average_brokers, fold_samples, no_bundles, without_silent
from pulsar_barycenter.pipeline.folds.owners import Owners
from pulsar_barycenter.pipeline.reports.acceptance import ReportHeader, ReportKey
from pulsar_barycenter.pipeline.tables.schemas import FIGURES, TABLES

SCHEMA = TABLES["bundle_samples"].arrow_schema
GAP_MS = 60_000
START_MS = 1_790_000_000_000
NAMES = [f"t/n/{number}" for number in range(40)]


def sampled(rng: random.Random, bundle: str, at_ms: int, sequence: int) -> dict[str, Any]:
    row: dict[str, Any] = {name: rng.choice((0.0, 1.7e308, rng.expovariate(1e-3))) for name in FIGURES}
    row |= {"bundle": bundle, "broker": "b:1", "incarnation": "i", "sequence": sequence, "consumers": 0, "producers": 0}
    return row | {"reported_at": at_ms * 1000, "topics": rng.randrange(9)}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(8))
def test_rows_are_those_of_a_fold_of_all_bundles(seed: int) -> None:
    """Bundles come and fall silent, some for just the gap; rows that left are used again."""
    rng = random.Random(seed)
    at, sequence, left = START_MS, 0, 0
    state, rows = no_bundles(), BundleRows(no_bundles())
    for _ in range(120):
        at += rng.choice([1, 900, 1_000, 7_000, GAP_MS // 2, GAP_MS if rng.random() < 0.1 else 1])
        batch = []
        for name in rng.sample(NAMES, rng.randrange(6)):
            for _ in range(rng.choice([1, 1, 3])):
                sequence += 1
                batch.append(sampled(rng, name, at - rng.choice([0, 0, 500, 3_000, GAP_MS, GAP_MS + 1]), sequence))
        samples = pa.Table.from_pylist(batch, SCHEMA)
        known = set(state.column("bundle").to_pylist())
        state, touched = fold_samples(state, samples, history_gap_ms=GAP_MS)
        all_of_them = set(state.column("bundle").to_pylist())
        state = without_silent(state, as_of_ms=at, history_gap_ms=GAP_MS)
        before = rows.of(samples.column("bundle").to_pylist())
        assert set(before.column("bundle").to_pylist()) == known & {row["bundle"] for row in batch}
        _, found = fold_samples(before, samples, history_gap_ms=GAP_MS)
        assert found.equals(touched)
        rows.put(found)
        dropped = rows.drop_silent(as_of_ms=at, history_gap_ms=GAP_MS)
        left += len(dropped)
        assert sorted(dropped) == sorted(all_of_them - set(state.column("bundle").to_pylist()))
        assert rows.table().equals(state)
        assert len(rows) == len(state)
        if rng.random() < 0.1:
            rows = BundleRows(rows.table())
    assert left > 10


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_touched_brokers_are_those_of_a_sum_over_all(seed: int) -> None:
    """Bundles move, are listed by two brokers, lose their data and get it again; brokers leave."""
    rng = random.Random(seed)
    rows, owners = BundleRows(no_bundles()), Owners()
    sums = BrokerSums(owners, rows)
    at = START_MS
    for sequence in range(80):
        at += rng.choice([100, 5_000, 25_000])
        broker, listed = f"b:{rng.randrange(4)}", rng.sample(NAMES, rng.randrange(8))
        with_data = [sampled(rng, name, at, sequence) for name in listed if rng.random() < 0.7]
        _, found = fold_samples(rows.of(listed), pa.Table.from_pylist(with_data, SCHEMA), history_gap_ms=GAP_MS)
        rows.put(found)
        silent = rows.drop_silent(as_of_ms=at, history_gap_ms=GAP_MS)
        header = ReportHeader(0, ReportKey(at, broker, "i", sequence), tuple(listed))
        change = owners.fold([header], as_of=at, history_gap_ms=GAP_MS)
        touched = [*found.column("bundle").to_pylist(), *silent]
        sums.update(change.brokers.union(*map(owners.owners_of, touched)), owners, rows)
        members = [
            (name, bundle) for name in sorted(owners.holdings) for bundle in owners.holdings[name].bundles or (None,)
        ]
        state = rows.table()
        for name in owners.holdings:
            own = [member for member in members if member[0] == name]
            assert sums.table([name]).equals(average_brokers(own, state)), name
        assert sums.table().column("broker").to_pylist() == sorted(owners.holdings)
        assert sums.table().equals(BrokerSums(owners, rows).table())
