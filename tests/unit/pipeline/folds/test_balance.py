"""Intervals of the balance compared with their definition, for any division of the reports into batches."""

import random
import statistics
from typing import Any

import pytest

from pulsar_barycenter.pipeline.folds.balance import BalanceMemory, BalanceSettings, BrokerFigures, settle_intervals
from pulsar_barycenter.pipeline.folds.owners import Owners
from pulsar_barycenter.pipeline.reports.acceptance import ReportHeader, ReportKey

SETTINGS = BalanceSettings(interval_ms=10, settle_ms=10, overload_threshold=0.5, history_gap_ms=25)
BUNDLE = "t/n/0x00000000_0xffffffff"


def figures(at: int, usage: float, sequence: int = 1) -> BrokerFigures:
    return BrokerFigures(at, "i", sequence, usage, 2 * usage, 3 * usage)


@pytest.mark.parametrize("seed", range(20))
def test_rows_do_not_depend_on_how_reports_are_cut(seed: int) -> None:
    """Random reports of three brokers with pauses, in one batch or many: the values at each settled end."""
    rng = random.Random(seed)
    at, reports = 1_003, []
    for sequence in range(60):
        at += rng.choice([1, 2, 3, 30] if rng.random() < 0.2 else [1, 2])
        reports.append((f"b{rng.randrange(3)}", figures(at, rng.random(), sequence)))
    decided = {kind: sorted(rng.sample(range(1_000, at), 9)) for kind in ("unload", "split")}
    expected = defined([*reports], decided, as_of=at)
    assert len(expected) > 5
    for size in (1, 7, 60):
        memory = BalanceMemory()
        rows: list[dict[str, float]] = []
        for start in range(0, 60, size):
            batch: dict[str, list[BrokerFigures]] = {}
            for broker, each in reports[start : start + size]:
                batch.setdefault(broker, []).append(each)
            newest = reports[: start + size][-1][1].reported_at
            told = decided if start == 0 else {}
            memory, settled = settle_intervals(memory, batch, told, Owners(), as_of=newest, settings=SETTINGS)
            rows += settled
        assert rows == expected
        assert sum(map(len, memory.figures.values())) < 40


def defined(
    reports: list[tuple[str, BrokerFigures]], decided: dict[str, list[int]], *, as_of: int
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for start in range(1_000, as_of - 19, 10):
        newest = {broker: each for broker, each in reports if each.reported_at < start + 10}
        known = [each for each in newest.values() if start + 10 - each.reported_at <= 25]
        if known:
            usages = [each.usage for each in known]
            row: dict[str, Any] = {"interval_start": start, "interval_end": start + 10, "brokers": len(known)}
            for name in ("usage", "msg_rate", "msg_throughput"):
                values = [getattr(each, name) for each in known]
                row |= {f"{name}_max": max(values), f"{name}_mean": pytest.approx(statistics.fmean(values))}
            row["usage_deviation"] = pytest.approx(statistics.pstdev(usages))
            row["brokers_over_threshold"] = sum(usage > 0.5 for usage in usages)
            for name, kind in (("unloads", "unload"), ("splits", "split")):
                row[name] = sum(start <= time < start + 10 for time in decided[kind])
            rows.append(row | {"bundles_without_owner": 0})
    return rows


def missing_at(*reports: tuple[int, str, str, tuple[str, ...]], ends: tuple[int, ...]) -> list[float]:
    """The bundles without owner at some ends, after reports of (time, broker, incarnation, bundles)."""
    memory, owners = BalanceMemory(), Owners()
    found: dict[float, float] = {}
    for row, (at, broker, incarnation, bundles) in enumerate(reports):
        header = ReportHeader(row, ReportKey(at, broker, incarnation, row), bundles)
        owners.fold([header], as_of=at, history_gap_ms=25)
        each = {broker: [figures(at, 0.1, row)]}
        memory, rows = settle_intervals(memory, each, {}, owners, as_of=at, settings=SETTINGS)
        found |= {row["interval_end"]: row["bundles_without_owner"] for row in rows}
    return [found[end] for end in ends]


def test_a_bundle_without_owner_is_missed_until_it_is_found_or_forgotten() -> None:
    """Lost at 112 and found at 125; lost at 112 and never found: missed until 137; split at 112, part seen at 125."""
    before = (101, "a", "i", (BUNDLE,)), (112, "a", "i", ())
    after = (148, "a", "i", ()), (170, "a", "i", ())
    found = missing_at(*before, (125, "b", "i", (BUNDLE,)), *after, ends=(110, 120, 130, 140))
    assert found == [0, 1, 0, 0]
    never = missing_at(*before, (125, "b", "i", ()), *after, ends=(110, 120, 130, 140))
    assert never == [0, 1, 1, 0]
    split = missing_at(*before, (125, "b", "i", ("t/n/0x00000000_0x80000000",)), *after, ends=(120, 130))
    assert split == [1, 0]


def test_a_restarted_broker_lost_its_bundles_when_it_is_back() -> None:
    """Its last report of the former incarnation was at 101; that they are gone is known from 113 on."""
    reports = (101, "a", "i", (BUNDLE,)), (113, "a", "j", ()), (124, "a", "j", ()), (145, "a", "j", ())
    assert missing_at(*reports, ends=(110, 120, 130)) == [0, 1, 1]
