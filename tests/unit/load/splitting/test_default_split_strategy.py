"""The extensible load manager's split check: hits in a row, one boundary, and why a large bundle is not split."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.algorithms import split_algorithm
from pulsar_barycenter.load.splitting.default_split_strategy import DefaultSplitStrategy
from pulsar_barycenter.load.splitting.request import SplitRefusedError, SplitRequest
from pulsar_barycenter.load.splitting.split_plan import SplitPlan
from pulsar_barycenter.naming.bundle import BundleRange
from support.extensible_choices import ExtensibleCluster
from support.load_cases import Cluster, bundle_name

HOT = NamespaceBundleStats(topics=5, msg_rate_in=40_000)
CALM = NamespaceBundleStats(topics=5, msg_rate_in=4_000)
NAME = bundle_name(0)


def halves(bundle: str) -> tuple[int, ...]:
    return split_algorithm("range_equally_divide")(SplitRequest(BundleRange.parse(bundle.rpartition("/")[2])))


def check(
    bundles: Mapping[str, NamespaceBundleStats],
    hits: Mapping[str, int],
    config: BrokerConfig | None = None,
    *,
    count: int = 4,
    splitting: tuple[str, ...] = (),
) -> tuple[SplitPlan, Mapping[str, int]]:
    settings = DefaultSplitStrategy.of(config or BrokerConfig())
    snapshot = Cluster().add("b1", bundles=bundles).snapshot()
    return settings.decide(snapshot, {"t/ns": count}, halves, hits, splitting)


def codes(plan: SplitPlan) -> list[Code]:
    return [refusal.reason.code for refusal in plan.refusals()]


def test_a_bundle_is_split_in_the_fourth_minute_in_a_row() -> None:
    hits: Mapping[str, int] = {}
    for expected in (1, 2, 3):
        plan, hits = check({NAME: HOT}, hits)
        assert (len(plan), hits, codes(plan)) == (0, {NAME: expected}, [Code.TOO_FEW_HITS])
    plan, hits = check({NAME: HOT}, hits)
    (split,) = plan
    assert (split.bundle, split.broker, split.boundary, hits) == (NAME, "b1", 0x8000, {})
    sentence = render(split.reason)
    assert "current rate in + out 40000 msg/s > limit 30000 msg/s" in sentence
    assert "runs in a row 4 > threshold 3" in sentence
    assert "loadBalancerNamespaceBundleSplitConditionHitCountThreshold" in sentence


def test_a_calm_minute_begins_the_count_anew_and_so_does_one_without_the_bundle() -> None:
    assert check({NAME: CALM}, {NAME: 3})[1] == {}
    assert check({}, {NAME: 3})[1] == {}
    assert check({NAME: NamespaceBundleStats(topics=1)}, {NAME: 3})[1] == {NAME: 3}, "not looked at"


def test_the_eleventh_keeps_its_count_and_is_split_a_minute_later() -> None:
    names = [bundle_name(at) for at in range(11)]
    plan, hits = check(dict.fromkeys(names, HOT), dict.fromkeys(names, 3))
    assert [split.bundle for split in plan] == names[:10]
    assert (hits, codes(plan)) == ({names[10]: 3}, [Code.CYCLE_FULL])
    plan, _ = check(dict.fromkeys(names, HOT), hits)
    assert [split.bundle for split in plan] == names[10:]


def test_a_namespace_never_gets_more_bundles_than_it_may_have() -> None:
    names = [bundle_name(at) for at in range(3)]
    config = BrokerConfig(load_balancer_namespace_maximum_bundles=6)
    plan, hits = check(dict.fromkeys(names, HOT), dict.fromkeys(names, 3), config)
    assert [split.bundle for split in plan] == names[:2]
    assert (hits, codes(plan)) == ({names[2]: 4}, [Code.NAMESPACE_FULL])


def test_a_child_waits_for_the_split_of_its_parent() -> None:
    whole = "t/ns/0x00000000_0x00020000"
    for name in (bundle_name(0), bundle_name(1)):
        plan, hits = check({name: HOT}, {name: 3}, splitting=(whole,))
        assert (codes(plan), hits) == ([Code.PARENT_SPLITTING], {name: 4})
    for other in ("t/n/0x00000000_0x00020000", "t/ns/0x00010000_0x00040000"):
        assert len(check({bundle_name(0): HOT}, {bundle_name(0): 3}, splitting=(other,))[0]) == 1


def test_anything_but_one_boundary_inside_leaves_the_bundle_whole() -> None:
    snapshot = Cluster().add("b1", bundles={NAME: HOT}).snapshot()

    def details(*cuts: int) -> str:
        plan, hits = DefaultSplitStrategy().decide(snapshot, {}, lambda _: cuts, {NAME: 3})
        (refusal,) = plan.refusals()
        assert (refusal.reason.code, hits) == (Code.NOT_ONE_BOUNDARY, {NAME: 4})
        assert "defaultNamespaceBundleSplitAlgorithm" in render(refusal.reason)
        return refusal.reason.detail

    assert details() == "it returned 0 boundaries"
    assert details(1, 2) == "it returned 2 boundaries"
    assert details(0x10000) == "0x00010000 is not inside the bundle"

    def refused(_bundle: str) -> tuple[int, ...]:
        raise SplitRefusedError("no positions")

    plan, _ = DefaultSplitStrategy().decide(snapshot, {}, refused, {NAME: 3})
    assert [refusal.reason.detail for refusal in plan.refusals()] == ["no positions"]


def test_a_range_of_one_hash_is_never_counted() -> None:
    name = "t/ns/0x00000004_0x00000005"
    plan, hits = check({name: HOT}, {})
    assert (codes(plan), hits) == ([Code.RANGE_NOT_DIVISIBLE], {})


def test_a_bundle_that_moves_is_split_by_its_owner_and_forgotten() -> None:
    """Two brokers report it, the channel names the second; no broker counts it afterwards."""
    case = ExtensibleCluster()
    case.cluster.add("b1", bundles={NAME: HOT}).add("b2", bundles={NAME: HOT})
    snapshot = case.snapshot()
    assert snapshot.extensible is not None
    owned = replace(snapshot, extensible=replace(snapshot.extensible, owned=np.array([False, True])))
    plan, hits = DefaultSplitStrategy().decide(owned, {}, halves, {NAME: 3})
    assert ([split.broker for split in plan], codes(plan), hits) == (["b2"], [Code.NOT_OWNED], {})
