"""The snapshots of a replay are those that a leader makes of the same reports, with the same reports due."""

import msgspec
import numpy as np
import pytest

from pulsar_barycenter.broker.load_manager.reporting.load_reporter import ReportRule, is_due
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLoadReportRule,
    BrokerLookupData,
    TopBundlesLoadData,
    is_broker_load_due,
)
from pulsar_barycenter.load.reports.load_report import BundleData, LocalBrokerData, default_bundle_data, sum_stats
from pulsar_barycenter.load.reports.weights import extensible_resource_weights, resource_weights
from pulsar_barycenter.load.reports.windows import LiveFold
from pulsar_barycenter.load.snapshot.builder import build_snapshot
from pulsar_barycenter.load.snapshot.extensible_snapshot import build_extensible_snapshot
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot, MessageColumns
from pulsar_barycenter.replay.bundles import NOBODY
from support.load_cases import bundles_of_namespace
from support.replayed_world import BROKERS, CONFIG, SHAPE, World


def assert_same_columns(found: MessageColumns, wanted: MessageColumns) -> None:
    for name in ("rate_in", "rate_out", "throughput_in", "throughput_out"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-12, err_msg=name)


def assert_same(found: LoadSnapshot, wanted: LoadSnapshot) -> None:
    assert list(found.bundles.names) == list(wanted.bundles.names)
    assert found.brokers.names == wanted.brokers.names
    assert found.namespaces == wanted.namespaces
    for name in ("owner", "namespace", "topics", "sessions", "listed", "sampled", "has_windows", "recently_unloaded"):
        np.testing.assert_array_equal(getattr(found.bundles, name), getattr(wanted.bundles, name), err_msg=name)
    for name in ("latest", "short", "long"):
        assert_same_columns(getattr(found.bundles, name), getattr(wanted.bundles, name))
        assert_same_columns(getattr(found.brokers, name), getattr(wanted.brokers, name))
    for name in ("usage", "limit"):
        np.testing.assert_allclose(getattr(found.brokers, name), getattr(wanted.brokers, name))
    for name in ("bundle_count", "topics", "class_names", "reported_at_ms"):
        np.testing.assert_array_equal(getattr(found.brokers, name), getattr(wanted.brokers, name), err_msg=name)


@pytest.mark.parametrize("seed", range(4))
def test_the_modular_leader_would_know_the_same(seed: int) -> None:
    world, fold = World(seed, ManagerKind.MODULAR), LiveFold()
    rule, written = ReportRule(weights=resource_weights(CONFIG)), dict[str, LocalBrokerData]()
    for step in range(SHAPE.steps):
        world.step(step)
        wanted_due = []
        for row, broker in enumerate(BROKERS):
            current = world.report(row, step + 1)
            due = broker not in written or is_due(written[broker], current, world.now_ms, rule)
            wanted_due.append(due)
            if due:
                written[broker] = current
                fold.accept(broker, current)
        grace_ms = CONFIG.load_balancer_shedding_grace_period_minutes * 60_000
        wanted = build_snapshot(
            fold.reports,
            fold.bundles,
            fold.averages(),
            preallocated=preallocated(world, fold),
            recently_unloaded=[name for name, at in world.recently.items() if at >= world.now_ms - grace_ms],
        )
        found_due, found = world.told()
        assert found_due.tolist() == wanted_due
        assert_same(found, wanted)
        np.testing.assert_allclose(found.preallocated_long_rate, wanted.preallocated_long_rate)
        np.testing.assert_array_equal(found.preallocated_topics, wanted.preallocated_topics)
        for namespace in found.namespaces:
            np.testing.assert_array_equal(
                bundles_of_namespace(found, namespace), bundles_of_namespace(wanted, namespace)
            )
        world.move_some()


def preallocated(world: World, fold: LiveFold) -> dict[str, dict[str, BundleData]]:
    """Every bundle that its owner does not report, with its known values."""
    found: dict[str, dict[str, BundleData]] = {}
    for row, owner in enumerate(world.bundles.owner.tolist()):
        name, broker = world.bundles.names[row], BROKERS[owner]
        if owner != NOBODY and name not in fold.reports[broker].last_stats:
            data = fold.bundles.get(name, default_bundle_data())
            found.setdefault(broker, {})[name] = msgspec.structs.replace(data, topics=int(world.bundles.topics[row]))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_leader_of_the_extensible_load_manager_would_know_the_same(seed: int) -> None:
    world = World(seed, ManagerKind.EXTENSIBLE)
    weights, rule = extensible_resource_weights(CONFIG), BrokerLoadReportRule.of(CONFIG)
    each_s = CONFIG.load_balancer_report_update_min_interval_millis
    measured = dict.fromkeys(BROKERS, BrokerLoadData())
    told = dict[str, BrokerLoadData]()
    before = [set[str]() for _ in BROKERS]
    for step in range(SHAPE.steps):
        world.step(step)
        tops = {}
        for row, broker in enumerate(BROKERS):
            stats = world.stats(row)
            if set(stats) != before[row]:
                measured[broker] = BrokerLoadData()
                told.pop(broker, None)
            before[row] = set(stats)
            for _ in range(SHAPE.step_ms // int(each_s)):
                measured[broker] = measured[broker].updated(
                    world.usage(row),
                    sum_stats(stats.values()),
                    bundle_count=len(stats),
                    weights=weights,
                    history_weight=CONFIG.load_balancer_history_resource_percentage,
                    now_ms=world.now_ms,
                )
            if broker not in told or is_broker_load_due(told[broker], measured[broker], world.now_ms, rule):
                measured[broker] = msgspec.structs.replace(measured[broker], reported_at=world.now_ms)
                told[broker] = measured[broker]
            tops[broker] = TopBundlesLoadData.of(stats, 10)
        _, found = world.told()
        lookup = BrokerLookupData(load_manager_class_name=ManagerKind.EXTENSIBLE.class_name)
        owners = {
            name: BROKERS[owner] for name, owner in zip(world.bundles.names, world.bundles.owner.tolist(), strict=True)
        }
        wanted = build_extensible_snapshot(
            told,
            tops,
            dict.fromkeys(BROKERS, lookup),
            owners,
            taken_at_ms=world.now_ms,
            recently_unloaded=[name for name, at in world.recently.items() if at >= world.now_ms - 1_800_000],
        )
        assert_same(found, wanted)
        assert found.extensible is not None
        assert wanted.extensible is not None
        np.testing.assert_array_equal(found.extensible.top, wanted.extensible.top)
        np.testing.assert_array_equal(found.extensible.owned, wanted.extensible.owned)
        for name in ("weighted_max_ema", "throughput_ema", "max_usage"):
            np.testing.assert_allclose(
                getattr(found.extensible, name), getattr(wanted.extensible, name), rtol=1e-7, err_msg=name
            )
        np.testing.assert_array_equal(found.extensible.updated_at_ms, wanted.extensible.updated_at_ms)
        world.move_some()


def test_a_broker_that_went_is_not_averaged() -> None:
    world = World(0, ManagerKind.MODULAR)
    world.step(0)
    live = np.array([True, False, True, True])
    world.reports.measure(world.measured(), world.bundles, live, CONFIG, world.now_ms, ManagerKind.MODULAR)
    found = world.reports.snapshot(world.bundles, live, CONFIG, world.now_ms, ManagerKind.MODULAR)
    assert found.brokers.names == (BROKERS[0], BROKERS[2], BROKERS[3])
    listed = {name for name, owner in zip(world.bundles.names, world.bundles.owner.tolist(), strict=True) if owner != 1}
    assert set(found.bundles.names) == listed


def test_the_average_of_a_broker_is_the_sum_of_its_windows() -> None:
    world = World(1, ManagerKind.MODULAR)
    world.step(0)
    _, found = world.told()
    assert_same_columns(found.brokers.long, found.brokers.latest)
