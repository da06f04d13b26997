"""A round with a bound on unloads, or on splits, does a part of what it would do without the bound."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.decisions import ROUND_KEY
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.shedding.avg_shedder import HitCounts
from pulsar_barycenter.load.shedding.plan import ShedPlan
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.bundle_splitter import BundleSplitterTask
from pulsar_barycenter.load.splitting.split_plan import BundleLimits
from pulsar_barycenter.load.splitting.splitter import no_boundaries
from pulsar_barycenter.load.strategies import SHEDDER_NAMES, Role, strategy
from support.load_cases import Cluster, clusters, equal_bundles

EAGER = msgspec.structs.replace(
    BrokerConfig(),
    load_balancer_broker_overloaded_threshold_percentage=30,
    load_balancer_broker_threshold_shedder_percentage=5,
    load_balancer_bundle_unload_min_throughput_threshold=0.0,
    load_balancer_avg_shedder_low_threshold=1,
    load_balancer_avg_shedder_hit_count_low_threshold=1,
    load_balancer_msg_rate_difference_shedder_threshold=1.0,
    min_unload_message=0,
    min_unload_message_throughput=0,
    max_unload_percentage=1.0,
)
DIVIDED = {"ThresholdShedder", "OverloadShedder", "RangeThresholdShedder"}
"""Shedders whose brokers share a full round; the others go by what is most urgent."""
CHOOSING_AGAIN = {"LeastDisturbance"}
"""It makes an exchange whole or not at all, so a full round may have one move less than its bound. It looks one move
further than the round, and chooses among what it saw: the same brokers give, but perhaps other bundles (see
test_least_disturbance.py)."""
FORESEEN = set(SHEDDER_NAMES) - {"DeviationShedder"} - CHOOSING_AGAIN
"""Shedders that know who is to give something before anybody gives."""


def shed(name: str, snapshot: LoadSnapshot, most: int, memory: object = None) -> tuple[ShedPlan, object]:
    """Return the plan of a round with at most this number of bundles (0: no bound), and the memory afterwards."""
    config = msgspec.structs.replace(EAGER, barycenter_max_bundles_per_round=most)
    shedder = strategy(ManagerKind.MODULAR, Role.SHEDDING, name).of(config)
    plan, after = shedder.decide(snapshot, shedder.start() if memory is None else memory)
    return plan, after


def crowded(usages: list[float], bundles: list[int]) -> Cluster:
    """Return brokers with these CPU usages in percent and the same number of equal bundles each."""
    cluster = Cluster()
    for number, (usage, count) in enumerate(zip(usages, bundles, strict=False)):
        load = equal_bundles(count, throughput=usage * 1e7, first=100 * number, rate=usage * 100) if count else {}
        cluster.add(f"b{number}:8080", cpu=usage, bundles=load)
    return cluster


many = st.builds(
    crowded, st.lists(st.floats(0, 140), min_size=2, max_size=5), st.lists(st.integers(0, 12), min_size=5, max_size=5)
)


@pytest.mark.parametrize("name", sorted(SHEDDER_NAMES))
@settings(max_examples=50)
@given(clusters() | many, st.integers(1, 12))
def test_a_full_round_unloads_a_part_of_what_would_leave_and_says_so(name: str, cluster: Cluster, most: int) -> None:
    """For each broker the first bundles, in the same order, for the same reasons."""
    snapshot = cluster.snapshot()
    whole, _ = shed(name, snapshot, 0)
    cut, _ = shed(name, snapshot, most)
    just_enough, _ = shed(name, snapshot, len(whole))
    assert whole.waiting is None
    assert just_enough.waiting is None
    assert min(most, len(whole)) - len(cut) in ((0, 1) if name in CHOOSING_AGAIN and len(whole) > most else (0,))
    if len(whole) <= most:
        assert cut.waiting is None
        assert (list(cut), list(cut.refusals()), cut.reason) == (list(whole), list(whole.refusals()), whole.reason)
        return
    assert cut.waiting is not None
    assert cut.waiting.any()
    assert cut.reason.code is Code.ROUND_FULL
    assert cut.reason.cause == whole.reason
    assert cut.reason.settings == (ROUND_KEY,)
    assert render(cut.reason)
    owner = snapshot.bundles.owner
    if name in CHOOSING_AGAIN:
        assert owner[cut.rows].tolist() == owner[whole.rows][: len(cut)].tolist()
    else:
        places = np.flatnonzero(np.isin(whole.rows, cut.rows))
        assert whole.rows[places].tolist() == cut.rows.tolist()
        assert whole.before[places].tolist() == cut.before.tolist()
        assert [whole.unload(place) for place in places.tolist()] == list(cut)
        if name not in DIVIDED:
            assert places.tolist() == list(range(most))
    for broker in range(len(snapshot.brokers)):
        mine, all_of_mine = cut.rows[owner[cut.rows] == broker], whole.rows[owner[whole.rows] == broker]
        if name not in CHOOSING_AGAIN:
            assert all_of_mine[: len(mine)].tolist() == mine.tolist()
        told, why = cut.broker_reason(broker), whole.broker_reason(broker)
        assert (told.code is Code.ROUND_FULL) == (cut.waiting[broker] and not len(mine))
        if len(mine) or (told.code is not Code.ROUND_FULL and name in FORESEEN):
            assert told == why
        if name in FORESEEN:
            assert cut.waiting[broker] == (len(mine) < len(all_of_mine))
            assert (told.code is Code.ROUND_FULL) == (len(all_of_mine) > len(mine) == 0)
        if told.code is Code.ROUND_FULL:
            assert told.subject == snapshot.brokers.names[broker]
            assert told.cause is not None


@pytest.mark.parametrize("name", sorted(SHEDDER_NAMES))
@settings(max_examples=50)
@given(clusters() | many, st.integers(1, 12))
def test_what_is_remembered_does_not_depend_on_the_bound(name: str, cluster: Cluster, most: int) -> None:
    """Except that pairs of the AvgShedder whose bundles wait are not complete, and keep their counts."""
    snapshot = cluster.snapshot()
    first, remembered = shed(name, snapshot, 0)
    cut, after = shed(name, snapshot, most)
    if isinstance(remembered, HitCounts) and cut.waiting is not None:
        assert isinstance(after, HitCounts)
        sources = {snapshot.brokers.names[row] for row in np.flatnonzero(cut.waiting)}
        goals = {unload.destination for unload in first if unload.source in sources}
        assert after.low.keys() == remembered.low.keys() | sources | goals
        again, _ = shed(name, snapshot, 0, after)
        assert {unload.source for unload in again} >= sources
    else:
        assert after == remembered


@settings(max_examples=50)
@given(many, st.integers(1, 30))
def test_brokers_share_a_full_round_in_proportion(cluster: Cluster, most: int) -> None:
    snapshot = cluster.snapshot()
    whole, _ = shed("OverloadShedder", snapshot, 0)
    cut, _ = shed("OverloadShedder", snapshot, most)
    if cut.waiting is None:
        return
    brokers, owner = len(snapshot.brokers), snapshot.bundles.owner
    wanted = np.minimum(np.bincount(owner[whole.rows], minlength=brokers), most + 1)
    given = np.bincount(owner[cut.rows], minlength=brokers)
    assert (np.abs(given - wanted * most / wanted.sum()) < 1).all()


@settings(max_examples=50)
@given(clusters() | many, st.integers(1, 8), st.sampled_from([4, 20, 128]), st.booleans())
def test_a_full_check_splits_the_first_by_name(cluster: Cluster, most: int, max_bundles: int, counted: bool) -> None:
    snapshot = cluster.snapshot()
    counts = dict.fromkeys(snapshot.namespaces, 3) if counted else {}
    limits = {"max_topics": 1, "max_rate": 10.0, "max_bundles": max_bundles}
    whole = BundleSplitterTask(BundleLimits(**limits)).decide(snapshot, counts, no_boundaries, None)[0]  # type: ignore[arg-type]
    cut = BundleSplitterTask(BundleLimits(**limits, most=most)).decide(snapshot, counts, no_boundaries, None)[0]  # type: ignore[arg-type]
    assert list(cut) == list(whole)[:most]
    assert cut.namespaces() == {split.bundle.rpartition("/")[0] for split in cut}
    waiting = [one for one in cut.refusals() if one.reason.code is Code.CYCLE_FULL]
    assert bool(waiting) == (len(whole) > most)
    assert {one.subject for one in waiting} >= {one.bundle for one in list(whole)[most:]}
    assert all(one.reason.settings == (ROUND_KEY,) and one.subject > list(cut)[-1].bundle for one in waiting)
    # of a bundle that two brokers report one may speak for a split, the other against it
    both = {one.subject for one in waiting}
    others = [one for one in cut.refusals() if one.subject not in both]
    assert set(map(str, others)) <= set(map(str, whole.refusals()))
