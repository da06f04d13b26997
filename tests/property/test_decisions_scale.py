"""A decision takes about as many steps of Python for many bundles as for few: what grows is left to arrays.

Steps are instructions of the interpreter, counted, so that no clock is needed. The larger cluster has 32 times as
many bundles on the same brokers; a loop over bundles, a reason made for each, would show.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import pytest

from barycenter.config.broker_config import BrokerConfig
from barycenter.load.placement.bulk import BULK_PLACERS
from barycenter.load.reports.load_report import NamespaceBundleStats
from barycenter.load.snapshot.load_snapshot import LoadSnapshot
from barycenter.load.splitting.bundle_splitter import BundleSplitterSettings, bundle_splitter
from barycenter.load.strategies import SHEDDERS
from support.load_cases import Cluster, bundle_name

FEW, MANY, BROKERS = 50, 1600, 6

ONE_BY_ONE = {"DeviationShedder"}
"""Shedders that choose anew after each bundle that leaves."""

CONFIG = msgspec.structs.replace(
    BrokerConfig(),
    load_balancer_bundle_unload_min_throughput_threshold=0.0,
    load_balancer_avg_shedder_hit_count_high_threshold=1,
    min_unload_message=0,
    max_unload_percentage=0.5,
)


def steps(work: Callable[[], object]) -> int:
    """Return how many instructions of Python `work` runs, those of whatever it calls included."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def cluster(each: int, *, busy: int | None = None, brokers: int = BROKERS) -> LoadSnapshot:
    """Return brokers with `each` bundles, the first one overloaded; only `busy` of them carry anything, if given."""
    rng = random.Random(7)
    made = Cluster()
    for broker in range(brokers):
        scale = 1e6 if broker == 0 else 1e4
        figures = {
            bundle_name(broker * each + index): NamespaceBundleStats(msg_throughput_in=load, msg_rate_in=load / 100)
            for index in range(each)
            for load in [scale * rng.paretovariate(2) if busy is None or index < busy else 0.0]
        }
        made.add(f"b{broker}:8080", cpu=130.0 if broker == 0 else 20.0, bundles=figures)
    return made.snapshot()


def with_topics(snapshot: LoadSnapshot) -> LoadSnapshot:
    """Return the snapshot with two topics in each bundle."""
    bundles = snapshot.bundles
    return replace(snapshot, bundles=replace(bundles, topics=np.full(len(bundles), 2)))


@pytest.mark.parametrize("name", sorted(SHEDDERS))
def test_shedding_does_not_loop_over_bundles(name: str) -> None:
    """Where bundles are chosen one by one, those that stay take no steps: the larger cluster has more that are idle."""
    busy = FEW if name in ONE_BY_ONE else None
    shed = SHEDDERS[name](CONFIG)
    few, many = cluster(FEW, busy=busy), cluster(MANY, busy=busy)
    assert len(shed(cluster(FEW, busy=busy), None)[0]) > 3
    ratio = steps(lambda: shed(many, None)) / steps(lambda: shed(few, None))
    assert ratio < 2


@pytest.mark.parametrize("name", sorted(SHEDDERS))
def test_a_full_round_takes_as_many_steps_however_many_wait(name: str) -> None:
    shed = SHEDDERS[name](msgspec.structs.replace(CONFIG, barycenter_max_bundles_per_round=2))
    few, many = cluster(FEW), cluster(MANY)
    assert shed(cluster(FEW), None)[0].waiting is not None
    ratio = steps(lambda: shed(many, None)) / steps(lambda: shed(few, None))
    assert ratio < 2


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("max_bundles", [1, 1_000_000])
def test_a_full_split_check_takes_as_many_steps_however_many_wait(max_bundles: int, *, counted: bool) -> None:
    """All are too large. With a maximum of 1 their namespace is full before."""
    settings = BundleSplitterSettings(max_topics=0, max_rate=0, max_bundles=max_bundles, most=20)
    few, many = with_topics(cluster(FEW)), with_topics(cluster(MANY))
    counts = dict.fromkeys(few.namespaces, MANY * BROKERS) if counted else {}
    assert len(bundle_splitter(few, settings, counts)) == (0 if max_bundles == 1 else 20)
    ratio = steps(lambda: bundle_splitter(many, settings, counts)) / steps(
        lambda: bundle_splitter(few, settings, counts)
    )
    assert ratio < 2


def test_finding_bundles_to_split_does_not_loop_over_bundles() -> None:
    """None is too large, since each that is takes its steps."""
    settings = BundleSplitterSettings(max_rate=1e12, max_bandwidth=1e15)
    few, many = cluster(FEW), cluster(MANY)
    counts = dict.fromkeys(few.namespaces, MANY * BROKERS)
    ratio = steps(lambda: bundle_splitter(many, settings, counts)) / steps(
        lambda: bundle_splitter(few, settings, counts)
    )
    assert ratio < 2


@pytest.mark.parametrize("name", sorted(BULK_PLACERS))
def test_placing_many_does_not_loop_over_brokers_for_each(name: str) -> None:
    """With 42 brokers more, each of 1,200 bundles takes fewer than five steps more."""
    place, config = BULK_PLACERS[name], BrokerConfig()

    def placing(brokers: int) -> int:
        snapshot = cluster(1200 // brokers, brokers=brokers)
        candidates, rows = np.ones(brokers, bool), np.arange(1200)
        return steps(lambda: place(config)(snapshot, candidates, rows, random.Random(1), None))

    assert placing(48) - placing(6) < 5 * 1200
