"""A decision takes about the same number of Python steps for many bundles as for few: only array operations grow.

Steps are instructions of the interpreter, counted, so that no clock is needed. The larger cluster has 32 times as
many bundles on the same brokers; a loop over bundles, or a reason made for each, would show.
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

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.bundle_splitter import BundleSplitterTask
from pulsar_barycenter.load.splitting.split_plan import BundleLimits, SplitPlan
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from pulsar_barycenter.load.strategies import PLACER_NAMES, SHEDDER_NAMES, Role, strategy
from support.load_cases import Cluster, bundle_name

FEW, MANY, BROKERS = 50, 1600, 6

ONE_BY_ONE = {"DeviationShedder", "LeastDisturbance"}
"""Shedders that choose anew after each bundle that leaves."""

CONFIG = msgspec.structs.replace(
    BrokerConfig(),
    load_balancer_bundle_unload_min_throughput_threshold=0.0,
    load_balancer_avg_shedder_hit_count_high_threshold=1,
    min_unload_message=0,
    max_unload_percentage=0.5,
)


def steps(work: Callable[[], object]) -> int:
    """Return how many Python instructions `work` runs, including those of everything it calls."""
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
    """Return brokers with `each` bundles, the first one overloaded; only `busy` of them have load, if given."""
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


def shed(name: str, snapshot: LoadSnapshot, config: BrokerConfig = CONFIG) -> ShedPlan:
    shedder = strategy(ManagerKind.MODULAR, Role.SHEDDING, name).of(config)
    plan: ShedPlan = shedder.decide(snapshot, shedder.start())[0]
    return plan


def split(splitter: BundleSplitterTask, snapshot: LoadSnapshot, counts: dict[str, int]) -> SplitPlan:
    return splitter.decide(snapshot, counts, no_boundaries, None)[0]


@pytest.mark.parametrize("name", sorted(SHEDDER_NAMES))
def test_shedding_does_not_loop_over_bundles(name: str) -> None:
    """Where bundles are chosen one by one, bundles that stay take no steps: the larger cluster has more idle
    bundles."""
    busy = FEW if name in ONE_BY_ONE else None
    few, many = cluster(FEW, busy=busy), cluster(MANY, busy=busy)
    assert len(shed(name, cluster(FEW, busy=busy))) > 3
    ratio = steps(lambda: shed(name, many)) / steps(lambda: shed(name, few))
    assert ratio < 2


def with_topics(snapshot: LoadSnapshot) -> LoadSnapshot:
    """Return the snapshot with two topics in each bundle."""
    bundles = snapshot.bundles
    return replace(snapshot, bundles=replace(bundles, topics=np.full(len(bundles), 2)))


@pytest.mark.parametrize("name", sorted(SHEDDER_NAMES))
def test_a_full_round_takes_as_many_steps_however_many_wait(name: str) -> None:
    config = msgspec.structs.replace(CONFIG, barycenter_max_bundles_per_round=2)
    few, many = cluster(FEW), cluster(MANY)
    assert shed(name, cluster(FEW), config).waiting is not None
    ratio = steps(lambda: shed(name, many, config)) / steps(lambda: shed(name, few, config))
    assert ratio < 2


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("max_bundles", [1, 1_000_000])
def test_a_full_split_check_takes_as_many_steps_however_many_wait(max_bundles: int, *, counted: bool) -> None:
    """All are too large. With a maximum of 1 their namespace is full already."""
    splitter = BundleSplitterTask(BundleLimits(max_topics=0, max_rate=0, max_bundles=max_bundles, most=20))
    few, many = with_topics(cluster(FEW)), with_topics(cluster(MANY))
    counts = dict.fromkeys(few.namespaces, MANY * BROKERS) if counted else {}
    assert len(split(splitter, few, counts)) == (0 if max_bundles == 1 else 20)
    ratio = steps(lambda: split(splitter, many, counts)) / steps(lambda: split(splitter, few, counts))
    assert ratio < 2


def test_finding_bundles_to_split_does_not_loop_over_bundles() -> None:
    """None is too large, because each such bundle takes steps."""
    splitter = BundleSplitterTask(BundleLimits(max_rate=1e12, max_bandwidth=1e15))
    few, many = cluster(FEW), cluster(MANY)
    counts = dict.fromkeys(few.namespaces, MANY * BROKERS)
    ratio = steps(lambda: split(splitter, many, counts)) / steps(lambda: split(splitter, few, counts))
    assert ratio < 2


@pytest.mark.parametrize("name", sorted(PLACER_NAMES))
def test_placing_does_not_loop_over_brokers(name: str) -> None:
    """More candidates than a reason names: ten times the candidates take hardly more steps."""
    placer = strategy(ManagerKind.MODULAR, Role.PLACEMENT, name).of(BrokerConfig())

    def placing(brokers: int) -> int:
        snapshot, candidates = cluster(1200 // brokers, brokers=brokers), np.ones(brokers, bool)
        rng = random.Random(1)
        memory = placer.start()
        for bundle in ("t/ns/first", "t/ns/second"):
            _, memory = placer.decide(snapshot, candidates, bundle, rng, memory)
        return steps(lambda: placer.decide(snapshot, candidates, "t/ns/other", rng, memory))

    assert placing(600) < 1.5 * placing(60)
