"""From the reports of brokers of the extensible load manager to moves, placements and splits."""

import random
from collections.abc import Mapping

import pytest

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.filters.extensible_filters import AllowedTransfers, ExtensibleFilterSettings
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.policies import ClusterPolicies, IsolationPolicies
from pulsar_barycenter.load.reasons import Code, render
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.rounds.destinations import FilteredSelection
from pulsar_barycenter.load.rounds.round import RoundOutcome, UnloadOutcome, moves
from pulsar_barycenter.load.selection.extensible_selection import select_broker_extensible
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory
from pulsar_barycenter.load.shedding.transfer_plan import TransferShedderSettings
from pulsar_barycenter.load.shedding.transfer_shedder import TransferMemory, TransferShedder
from pulsar_barycenter.load.snapshot.extensible_snapshot import build_extensible_snapshot
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.default_split_strategy import DefaultSplitStrategy
from pulsar_barycenter.load.strategies import placer_of
from support.extensible_choices import policy
from support.load_cases import MEBIBYTE, bundle_name

NOW = 1_000_000
CONFIG = BrokerConfig()
LOOKUP = BrokerLookupData(load_manager_class_name=ManagerKind.EXTENSIBLE.class_name, broker_version="4.2.0")


def load(usage: float, mebibytes: float) -> BrokerLoadData:
    return BrokerLoadData(
        msg_throughput_in=mebibytes * MEBIBYTE,
        max_resource_usage=usage,
        weighted_max_ema=usage,
        msg_throughput_ema=mebibytes * MEBIBYTE,
        updated_at=NOW,
    )


SIZES = {"t/bound": 5.0, "t/free": 10.0, "t/large": 30.0, "t/larger": 55.0}


def cluster(sizes: Mapping[str, float] = SIZES, **policies: object) -> LoadSnapshot:
    """Return b1 with 100 MiB/s in four bundles and 90 % usage, b2 and b3 nearly idle."""
    bundles = {bundle_name(0, namespace): size for namespace, size in sizes.items()}
    top = TopBundlesLoadData(
        tuple(
            BundleLoadData(name, NamespaceBundleStats(msg_throughput_in=size * MEBIBYTE, msg_rate_in=40_000, topics=4))
            for name, size in bundles.items()
        )
    )
    isolation, errors = IsolationPolicies.decode(policies)
    assert not errors
    return build_extensible_snapshot(
        {"b1:1": load(0.9, 100), "b2:1": load(0.05, 1), "b3:1": load(0.1, 1)},
        {"b1:1": top},
        dict.fromkeys(("b1:1", "b2:1", "b3:1"), LOOKUP),
        dict.fromkeys(bundles, "b1:1"),
        taken_at_ms=NOW,
        policies=ClusterPolicies(isolation),
    )


def moved(snapshot: LoadSnapshot, settings: ExtensibleFilterSettings) -> dict[str, str | None]:
    plan, _ = TransferShedder(
        TransferShedderSettings.of(CONFIG), lambda _snapshot: AllowedTransfers(snapshot, settings)
    ).decide(snapshot, TransferMemory(hits=3))
    return {unload.bundle.rpartition("/")[0]: unload.destination for unload in plan}


def test_bundles_bound_by_policies_stay_where_they_are() -> None:
    """Half of the difference in usage is worth 47 MiB/s: the three smallest of 5, 10, 30 and 55 MiB/s."""
    settings = ExtensibleFilterSettings.of(CONFIG)
    assert moved(cluster(), settings) == dict.fromkeys(("t/bound", "t/free", "t/large"), "b2:1")
    assert "t/bound" not in moved(cluster(p=policy("t/bound", "b[12]")), settings)
    switched_on = ExtensibleFilterSettings(move_with_policies=True)
    assert moved(cluster(p=policy("t/bound", "b[12]")), switched_on)["t/bound"] == "b2:1"
    assert "t/bound" not in moved(cluster(p=policy("t/bound", "b1")), switched_on)


@pytest.mark.parametrize("later", [{}, {"t/a": 1.0, "t/another": 1.0, **SIZES}, {"t/free": 10.0}])
def test_what_left_is_marked_in_a_newer_load_that_has_other_rows(later: dict[str, float]) -> None:
    """Reports come while bundles are unloaded, brokers and bundles come and go."""
    snapshot = cluster()
    shedder = TransferShedder.of(CONFIG)
    plan, _ = shedder.decide(snapshot, TransferMemory(hits=3))
    selection = FilteredSelection.of(CONFIG, ManagerKind.EXTENSIBLE)
    steps = moves(plan, selection.destinations(plan, snapshot, selection.start(), random.Random(1)), shedder)
    next(steps)

    def go_on() -> None:
        while True:
            steps.send(UnloadOutcome(True, cluster(later)))

    with pytest.raises(StopIteration) as end:
        go_on()
    outcome: RoundOutcome = end.value.value
    marked, bundles = outcome.snapshot.bundles.recently_unloaded.tolist(), outcome.snapshot.bundles
    left = {move.bundle for move in outcome.moves}
    assert len(left) == 3
    assert [name for name, flag in zip(bundles.names, marked, strict=True) if flag] == sorted(left & {*bundles.names})


def test_nothing_is_transferred_to_brokers_that_would_not_be_chosen() -> None:
    assert moved(cluster(), ExtensibleFilterSettings(load_manager_class_name="Another")) == {}
    assert moved(cluster(p=policy("t/other", "b[23]")), ExtensibleFilterSettings.of(CONFIG)) == {}


def test_a_new_bundle_goes_to_a_broker_below_the_mean() -> None:
    placer, settings = placer_of(CONFIG, ManagerKind.EXTENSIBLE), ExtensibleFilterSettings.of(CONFIG)
    request = PlacementRequest(bundle_name(7))
    chosen = {
        select_broker_extensible(cluster(), request, settings, placer, random.Random(seed), SelectionMemory())[0].broker
        for seed in range(40)
    }
    assert chosen == {"b2:1", "b3:1"}


def test_the_owner_splits_what_stays_too_hot() -> None:
    """Each of the four carries 40 000 msg/s."""
    snapshot = cluster()
    hits = dict.fromkeys(snapshot.bundles.names, 3)
    plan, after = DefaultSplitStrategy.of(CONFIG).decide(snapshot, {}, lambda _: (0x8000,), hits)
    assert [(split.bundle, split.broker, split.boundary) for split in plan] == [
        (name, "b1:1", 0x8000) for name in snapshot.bundles.names
    ]
    assert after == {}
    assert {split.reason.code for split in plan} == {Code.BUNDLE_TOO_LARGE}
    assert "loadBalancerNamespaceBundleMaxMsgRate" in render(next(iter(plan)).reason)
