"""The columns of all bundles, folded batch by batch, compared with the recurrence sample by sample."""

import random
from typing import Any

import pyarrow as pa
import pytest

from pulsar_barycenter.load.reports.load_report import BundleData, NamespaceBundleStats, default_bundle_data
from pulsar_barycenter.load.reports.windows import HISTORY_GAP_MS, LARGEST_RATE, broker_averages, fold_bundle
from pulsar_barycenter.pipeline.folds.live_windows import (
    average_brokers,
    fold_samples,
    no_bundles,
    overtaken_reports,
    without_silent,
)
from pulsar_barycenter.pipeline.tables.schemas import FIGURES, TABLES

SCHEMA = TABLES["bundle_samples"].arrow_schema
START_MS = 1_790_000_000_000


def sample(rng: random.Random, bundle: str, at_ms: int, sequence: int) -> dict[str, Any]:
    row: dict[str, Any] = {name: rng.choice((0.0, rng.expovariate(1e-3))) for name in FIGURES}
    row |= {"bundle": bundle, "broker": f"b:{rng.randrange(3)}", "incarnation": "i", "sequence": sequence}
    return row | {"reported_at": at_ms * 1000, "topics": rng.randrange(9), "consumers": 0, "producers": 0}


def sequentially(samples: list[dict[str, Any]]) -> dict[str, tuple[int, BundleData]]:
    found: dict[str, tuple[int, BundleData]] = {}
    for row in sorted(samples, key=lambda row: (row["reported_at"], row["broker"], row["sequence"])):
        at_ms = row["reported_at"] // 1000
        known_at, data = found.get(row["bundle"], (0, default_bundle_data()))
        if at_ms - known_at > HISTORY_GAP_MS:
            data = default_bundle_data()
        stats = NamespaceBundleStats(**{name: row[name] for name in (*FIGURES, "topics")})
        found[row["bundle"]] = at_ms, fold_bundle(data, stats)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_columns_agree_with_the_recurrence(seed: int) -> None:
    """Bundles come and go, some with more than 1,000 samples, some silent for just the gap and some for longer."""
    rng = random.Random(seed)
    samples, at = [], dict.fromkeys("abcdef", START_MS)
    for sequence in range(5_000):
        bundle = rng.choices("abcdef", (60, 20, 10, 5, 1, 1))[0]
        rare = HISTORY_GAP_MS + rng.choice((0, 1)) if rng.random() < 0.002 else rng.randrange(2, 900)
        at[bundle] += rare
        samples.append(sample(rng, bundle, at[bundle], sequence))
    state, batches = no_bundles(), 7
    cuts = sorted(rng.sample(range(len(samples)), batches))
    for start, end in zip([0, *cuts], [*cuts, len(samples)], strict=True):
        batch = rng.sample(samples[start:end], end - start)
        state, touched = fold_samples(state, pa.Table.from_pylist(batch, SCHEMA), history_gap_ms=HISTORY_GAP_MS)
        assert touched.column("bundle").to_pylist() == sorted({row["bundle"] for row in batch})
    expected = sequentially(samples)
    assert state.column("bundle").to_pylist() == sorted(expected)
    for row in state.to_pylist():
        at_ms, data = expected[row["bundle"]]
        assert (row["as_of"].timestamp(), row["topics"]) == (at_ms / 1000, data.topics)
        for window, average in (("short", data.short_term_data), ("long", data.long_term_data)):
            assert row[f"{window}_num_samples"] == average.num_samples
            for name in FIGURES:
                assert row[f"{window}_{name}"] == pytest.approx(getattr(average, name), rel=1e-12, abs=0)
    check_broker_sums(state, {name: data for name, (_, data) in expected.items()})


def check_broker_sums(state: pa.Table, data: dict[str, BundleData]) -> None:
    """Bundles without data count with the default, a broker without bundles has zeros."""
    owned: dict[str, list[str]] = {"x:1": ["a", "unknown", "c"], "y:1": [], "z:1": ["b", "also-unknown"]}
    members: list[tuple[str, str | None]] = [(broker, bundle) for broker, own in owned.items() for bundle in own]
    members.insert(3, ("y:1", None))
    rows = average_brokers(members, state).to_pylist()
    assert [row.pop("broker") for row in rows] == list(owned)
    for row, bundles in zip(rows, owned.values(), strict=True):
        sums = broker_averages(bundles, data)
        assert row == pytest.approx({name: getattr(sums, name) for name in row}, rel=1e-12)


def test_silent_bundles_are_dropped_after_exactly_the_gap() -> None:
    rng = random.Random(1)
    rows = [sample(rng, "a", START_MS, 1), sample(rng, "b", START_MS + 1, 1)]
    state, _ = fold_samples(no_bundles(), pa.Table.from_pylist(rows, SCHEMA), history_gap_ms=HISTORY_GAP_MS)
    for as_of, kept in ((HISTORY_GAP_MS, ["a", "b"]), (HISTORY_GAP_MS + 1, ["b"]), (HISTORY_GAP_MS + 2, [])):
        left = without_silent(state, as_of_ms=START_MS + as_of, history_gap_ms=HISTORY_GAP_MS)
        assert left.column("bundle").to_pylist() == kept


def test_figures_near_the_largest_number_give_averages_as_the_live_fold_does() -> None:
    """Sums of them would be infinite; those of brokers are bounded, too."""
    rng, huge = random.Random(2), 1.7e308
    samples = [sample(rng, "a", START_MS + number, number) | {"msg_rate_in": huge} for number in range(1, 4)]
    samples.append(sample(rng, "b", START_MS, 9) | {"msg_rate_in": huge})
    state = no_bundles()
    for row in samples:
        state, _ = fold_samples(state, pa.Table.from_pylist([row], SCHEMA), history_gap_ms=HISTORY_GAP_MS)
    expected = sequentially(samples)
    for row in state.to_pylist():
        _, data = expected[row["bundle"]]
        assert row["short_msg_rate_in"] == pytest.approx(data.short_term_data.msg_rate_in, rel=1e-12)
    (sums,) = average_brokers([("x:1", "a"), ("x:1", "b")], state).to_pylist()
    assert sums["short_term_msg_rate_in"] == pytest.approx(2 * LARGEST_RATE)


def test_reports_with_samples_that_are_not_the_newest_are_named() -> None:
    """A new bundle has none before; a sample of the same moment may belong before the one that was folded."""
    rng = random.Random(3)
    first = [sample(rng, name, START_MS + at, 1) | {"broker": "b:1"} for name, at in (("a", 5), ("b", 9))]
    state, _ = fold_samples(no_bundles(), pa.Table.from_pylist(first, SCHEMA), history_gap_ms=HISTORY_GAP_MS)
    assert overtaken_reports(no_bundles(), pa.Table.from_pylist(first, SCHEMA)) == []
    rows = [("a", 6, 2), ("b", 8, 3), ("c", 1, 3), ("b", 9, 4), ("a", 4, 5), ("b", 4, 5)]
    later = [sample(rng, name, START_MS + at, sequence) | {"broker": "c:1"} for name, at, sequence in rows]
    found = overtaken_reports(state, pa.Table.from_pylist(later, SCHEMA))
    assert sorted(found) == [("c:1", "i", 3), ("c:1", "i", 4), ("c:1", "i", 5)]
