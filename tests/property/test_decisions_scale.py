"""A decision takes about as many steps of Python for many bundles as for few: what grows is left to arrays.

Steps are instructions of the interpreter, counted, so that no clock is needed. The larger cluster has 32 times as
many bundles on the same brokers; a loop over bundles, a reason made for each, would show.
"""

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import pytest

from barycenter.config.broker_config import BrokerConfig
from barycenter.load.managers import ManagerKind
from barycenter.load.reports.load_report import NamespaceBundleStats
from barycenter.load.shedding.plan import ShedPlan
from barycenter.load.snapshot.load_snapshot import LoadSnapshot
from barycenter.load.splitting.bundle_splitter import BundleSplitterTask
from barycenter.load.splitting.split_plan import BundleLimits
from barycenter.load.splitting.splitter import no_boundaries
from barycenter.load.strategies import PLACER_NAMES, SHEDDER_NAMES, Role, strategy
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


@pytest.mark.parametrize("name", sorted(SHEDDER_NAMES))
def test_shedding_does_not_loop_over_bundles(name: str) -> None:
    """Where bundles are chosen one by one, those that stay take no steps: the larger cluster has more that are idle."""
    busy = FEW if name in ONE_BY_ONE else None
    shedder = strategy(ManagerKind.MODULAR, Role.SHEDDING, name).of(CONFIG)

    def shed(snapshot: LoadSnapshot) -> ShedPlan:
        plan: ShedPlan = shedder.decide(snapshot, shedder.start())[0]
        return plan

    few, many = cluster(FEW, busy=busy), cluster(MANY, busy=busy)
    assert len(shed(cluster(FEW, busy=busy))) > 3
    ratio = steps(lambda: shed(many)) / steps(lambda: shed(few))
    assert ratio < 2


def test_finding_bundles_to_split_does_not_loop_over_bundles() -> None:
    """None is too large, since each that is takes its steps."""
    settings = BundleLimits(max_rate=1e12, max_bandwidth=1e15)
    few, many = cluster(FEW), cluster(MANY)
    counts = dict.fromkeys(few.namespaces, MANY * BROKERS)
    ratio = steps(lambda: BundleSplitterTask(settings).decide(many, counts, no_boundaries, None)[0]) / steps(
        lambda: BundleSplitterTask(settings).decide(few, counts, no_boundaries, None)[0]
    )
    assert ratio < 2


@pytest.mark.parametrize("name", sorted(PLACER_NAMES))
def test_placing_does_not_loop_over_brokers(name: str) -> None:
    """More candidates than a reason names: ten times as many of them take hardly more steps."""
    placer = strategy(ManagerKind.MODULAR, Role.PLACEMENT, name).of(BrokerConfig())

    def placing(brokers: int) -> int:
        snapshot, candidates = cluster(1200 // brokers, brokers=brokers), np.ones(brokers, bool)
        rng = random.Random(1)
        _, memory = placer.decide(snapshot, candidates, "t/ns/new", rng, placer.start())
        return steps(lambda: placer.decide(snapshot, candidates, "t/ns/other", rng, memory))

    assert placing(600) < 1.5 * placing(60)
