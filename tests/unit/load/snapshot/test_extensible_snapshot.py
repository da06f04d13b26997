"""The snapshot of the extensible load manager: the data of each broker, in the order of names."""

import math
import random
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.policies import ClusterPolicies
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    NamespaceBundleStats,
    ResourceUsage,
    TimeAverageBrokerData,
    TimeAverageMessageData,
)
from pulsar_barycenter.load.shedding.transfer_shedder import TransferMemory, TransferShedder
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument, TrafficFigures
from pulsar_barycenter.load.snapshot.extensible_snapshot import Windows, build_extensible_snapshot, windows_of_owners
from pulsar_barycenter.load.snapshot.load_snapshot import LARGEST_COUNT, LoadSnapshot
from support.load_cases import bundle_name
from support.snapshot_cases import assert_same_snapshot
from support.transfer_cases import NOW_MS, draw_round


def listing(*bundles: tuple[int, float]) -> TopBundlesLoadData:
    return TopBundlesLoadData(
        tuple(
            BundleLoadData(bundle_name(number), NamespaceBundleStats(msg_throughput_in=throughput, topics=number))
            for number, throughput in bundles
        )
    )


def test_brokers_are_all_that_are_registered_or_whose_load_is_known() -> None:
    load = BrokerLoadData(
        cpu=ResourceUsage(30, 100),
        weighted_max_ema=0.4,
        msg_throughput_ema=9,
        max_resource_usage=0.3,
        updated_at=70,
        reported_at=60,
        bundle_count=5,
        topics=8,
        msg_rate_in=2,
        msg_throughput_out=3,
    )
    lookup = BrokerLookupData(
        broker_version="4.2.4", load_manager_class_name="x.Y", start_timestamp=50, persistent_topics_enabled=False
    )
    snapshot = build_extensible_snapshot(
        {"known": load, "gone": load}, {}, {"silent": BrokerLookupData(), "known": lookup}, {}, taken_at_ms=99
    )
    brokers, extensible = snapshot.brokers, snapshot.extensible
    assert extensible is not None
    assert (snapshot.taken_at_ms, brokers.names) == (99, ("gone", "known", "silent"))
    assert extensible.has_load.tolist() == [True, True, False]
    assert extensible.live.tolist() == [False, True, True]
    assert extensible.weighted_max_ema.tolist() == [0.4, 0.4, 0]
    assert extensible.max_usage.tolist() == [0.3, 0.3, 0]
    assert extensible.throughput_ema.tolist() == [9, 9, 0]
    assert extensible.updated_at_ms.tolist() == [70, 70, 0]
    assert brokers.percent[0].round(4).tolist() == [30, 30, 0]
    assert brokers.reported_at_ms.tolist() == [60, 60, 0]
    assert (brokers.bundle_count.tolist(), brokers.topics.tolist()) == ([5, 5, 0], [8, 8, 0])
    assert (brokers.versions[1], brokers.class_names, brokers.started_at_ms[1]) == ("4.2.4", (None, "x.Y", None), 50)
    assert brokers.persistent.tolist() == [True, False, True]
    for columns in (brokers.latest, brokers.short, brokers.long):
        assert (columns.rate.tolist(), columns.throughput.tolist()) == ([2, 2, 0], [3, 3, 0])


def test_bundles_are_those_of_the_lists_and_those_that_the_channel_names() -> None:
    """1 moves: b still lists it, a owns it already. 4 is owned and in no list, 5 belongs to an unknown broker."""
    loads = {"a": BrokerLoadData(), "b": BrokerLoadData()}
    tops = {"a": listing((2, 20.0)), "b": listing((3, 5.0), (1, 7.0)), "nobody": listing((6, 1.0))}
    owners = {bundle_name(1): "a", bundle_name(2): "a", bundle_name(3): "b", bundle_name(4): "b", bundle_name(5): "c"}
    snapshot = build_extensible_snapshot(
        loads, tops, {}, owners, taken_at_ms=0, recently_unloaded=[bundle_name(3), "none/such/0x0_0x1"]
    )
    bundles, extensible = snapshot.bundles, snapshot.extensible
    assert extensible is not None
    assert list(bundles.names) == [bundle_name(number) for number in (1, 1, 2, 3, 4)]
    assert bundles.owner.tolist() == [0, 1, 0, 1, 1]
    assert extensible.top.tolist() == [-1, 1, 0, 0, -1]
    assert extensible.owned.tolist() == [True, False, True, True, True]
    assert bundles.sampled.tolist() == bundles.has_windows.tolist() == [False, True, True, True, False]
    assert bundles.recently_unloaded.tolist() == [False, False, False, True, False]
    assert bundles.topics.tolist() == [0, 1, 2, 3, 0]
    for columns in (bundles.latest, bundles.short, bundles.long):
        assert columns.throughput.tolist() == [0, 7, 20, 5, 0]


def test_of_a_bundle_that_is_listed_twice_the_first_place_counts() -> None:
    snapshot = build_extensible_snapshot(
        {"a": BrokerLoadData()}, {"a": listing((1, 3.0), (2, 4.0), (1, 5.0))}, {}, {}, taken_at_ms=0
    )
    assert snapshot.extensible is not None
    assert snapshot.extensible.top.tolist() == [0, 1]
    assert snapshot.bundles.latest.throughput.tolist() == [3, 4]


def test_figures_that_are_no_numbers_count_as_0_and_are_flagged() -> None:
    loads = {"good": BrokerLoadData(), "odd": BrokerLoadData(weighted_max_ema=math.nan, msg_throughput_ema=math.inf)}
    snapshot = build_extensible_snapshot(loads, {}, {}, {}, taken_at_ms=0)
    assert snapshot.extensible is not None
    assert snapshot.extensible.weighted_max_ema.tolist() == [1, 0]
    assert snapshot.extensible.throughput_ema.tolist() == [0, 0]
    assert snapshot.brokers.suspect.tolist() == [False, True]


def window(short: float, long: float = 0.0, topics: int = 1) -> BundleData:
    """Return windows of so many bytes/s in."""
    return BundleData(
        short_term_data=TimeAverageMessageData(max_samples=10, num_samples=3, msg_throughput_in=short),
        long_term_data=TimeAverageMessageData(max_samples=1000, num_samples=4, msg_throughput_in=long),
        topics=topics,
    )


def windowed(known: ExtensibleDocument, published: dict[str, BundleData]) -> LoadSnapshot:
    return build_extensible_snapshot(
        known.loads,
        known.top_bundles,
        known.lookups,
        known.owners,
        taken_at_ms=0,
        traffic=TrafficFigures.WINDOWS,
        windows=windows_of_owners(known, published),
    )


KNOWN = ExtensibleDocument(
    loads={"a": BrokerLoadData(msg_throughput_in=9e6, msg_throughput_ema=8e6, weighted_max_ema=0.5)},
    top_bundles={"a": listing((1, 1e6), (2, 2e6), (3, 3e6))},
    lookups={"a": BrokerLookupData(), "idle": BrokerLookupData()},
    owners={bundle_name(number): "a" for number in (1, 2, 3, 4)},
)
"""a lists three of its four bundles; nobody told how loaded idle is."""
PUBLISHED = {bundle_name(1): window(30e6, 31e6), bundle_name(2): window(20e6, 21e6), bundle_name(4): window(5e6, 6e6)}


def test_the_pipelines_windows_stand_beside_the_newest_figures_and_put_the_lists_in_order() -> None:
    """Of 3 the pipeline knows nothing; 4 is in no list. Lists begin with the least: 3 with 3 MB/s, then 2, then 1."""
    snapshot = windowed(KNOWN, PUBLISHED)
    bundles, load = snapshot.bundles, snapshot.extensible
    assert load is not None
    assert list(bundles.names) == [bundle_name(number) for number in (1, 2, 3, 4)]
    assert bundles.latest.throughput.tolist() == [1e6, 2e6, 3e6, 0]
    assert bundles.short.throughput.tolist() == [30e6, 20e6, 3e6, 5e6]
    assert bundles.long.throughput.tolist() == [31e6, 21e6, 3e6, 6e6]
    assert (bundles.short_samples.tolist(), bundles.long_samples.tolist()) == ([3, 3, 0, 3], [4, 4, 0, 4])
    assert (bundles.sampled.tolist(), bundles.has_windows.tolist()) == ([True, True, True, False], [True] * 4)
    assert load.top.tolist() == [2, 1, 0, -1]
    assert load.traffic is TrafficFigures.WINDOWS


def test_a_brokers_windows_are_the_sums_over_what_it_owns_now() -> None:
    """A bundle counts for its new owner at once, and one without windows with what its owner lists."""
    snapshot = windowed(KNOWN, PUBLISHED)
    brokers, load = snapshot.brokers, snapshot.extensible
    assert load is not None
    assert brokers.latest.throughput.tolist() == [9e6, 0]
    assert brokers.short.throughput.tolist() == [58e6, 0]
    assert brokers.long.throughput.tolist() == [61e6, 0]
    assert load.throughput_ema.tolist() == [58e6, 0]
    assert load.weighted_max_ema.tolist() == [0.5, 0], "the pipeline has no windows of usage"
    moved = msgspec.structs.replace(KNOWN, owners={**KNOWN.owners, bundle_name(1): "idle"})
    assert windowed(moved, PUBLISHED).brokers.short.throughput.tolist() == [28e6, 30e6]


def test_a_broker_without_sums_has_its_newest_figures() -> None:
    """As when a bundle is placed: then the sums are those that the pipeline published, of the brokers it knew."""
    loads = {name: BrokerLoadData(msg_throughput_in=1.0, msg_throughput_ema=2.0) for name in ("new", "old")}
    averages = {"old": TimeAverageBrokerData(short_term_msg_throughput_out=7.0, long_term_msg_throughput_out=8.0)}
    snapshot = build_extensible_snapshot(
        loads, {}, {}, {}, taken_at_ms=0, traffic=TrafficFigures.WINDOWS, windows=Windows(brokers=averages)
    )
    assert snapshot.extensible is not None
    assert snapshot.brokers.short.throughput.tolist() == [1, 7]
    assert snapshot.brokers.long.throughput.tolist() == [1, 8]
    assert snapshot.extensible.throughput_ema.tolist() == [2, 7]


@pytest.mark.parametrize("traffic", [TrafficFigures.NEWEST, TrafficFigures.LATE])
def test_windows_count_only_where_they_are_said_to(traffic: TrafficFigures) -> None:
    known = (KNOWN.loads, KNOWN.top_bundles, KNOWN.lookups, KNOWN.owners)
    windows = windows_of_owners(KNOWN, PUBLISHED)
    found = build_extensible_snapshot(*known, taken_at_ms=0, traffic=traffic, windows=windows)
    plain = build_extensible_snapshot(*known, taken_at_ms=0)
    assert plain.extensible is not None
    assert_same_snapshot(found, replace(plain, extensible=replace(plain.extensible, traffic=traffic)))


def test_policies_pass_through_and_nobody_is_a_cluster_too() -> None:
    policies = ClusterPolicies(groups={"t/ns": "g"})
    snapshot = build_extensible_snapshot({}, {}, {}, {bundle_name(0): "a"}, taken_at_ms=0, policies=policies)
    assert snapshot.policies is policies
    assert (len(snapshot.brokers), len(snapshot.bundles)) == (0, 0)
    assert snapshot.extensible is not None
    assert np.size(snapshot.extensible.top) == 0


@given(st.integers(0, 2**62))
def test_every_listed_and_every_owned_bundle_of_a_known_broker_has_one_row(seed: int) -> None:
    """Listed, owned, both or neither: the rows are those of a plain iteration, in the order of names."""
    rng = random.Random(seed)
    seen = draw_round(rng)
    for number in range(rng.randint(0, 8)):
        name = bundle_name(1000 + number, rng.choice(("t/a", "new/space", "pulsar/b:8080", "odd")))
        seen.owners[name] = rng.choice([*seen.loads, *seen.tops, "nobody"])
        seen.recently_unloaded.update([name] if rng.random() < 0.3 else [])
    expected: dict[tuple[str, str], tuple[int, float, bool]] = {}
    for broker in {*seen.loads, *seen.lookups}:
        listed = seen.tops[broker].top_bundles_load_data if broker in seen.tops else ()
        for place, one in enumerate(listed):
            traffic = one.stats.msg_throughput_in + one.stats.msg_throughput_out
            owned = seen.owners.get(one.bundle_name) == broker
            expected.setdefault((one.bundle_name, broker), (place, traffic, owned))
        for name, owner in seen.owners.items():
            if owner == broker:
                expected.setdefault((name, broker), (-1, 0.0, True))
    snapshot = seen.snapshot()
    bundles, extensible = snapshot.bundles, snapshot.extensible
    assert extensible is not None
    keys = [(name, snapshot.brokers.names[row]) for name, row in zip(bundles.names, bundles.owner, strict=True)]
    columns = zip(extensible.top.tolist(), bundles.latest.throughput.tolist(), extensible.owned.tolist(), strict=True)
    assert keys == sorted(keys)
    assert dict(zip(keys, columns, strict=True)) == expected
    spaces = [name.rpartition("/")[0] for name in bundles.names]
    assert list(snapshot.namespaces) == sorted(set(spaces))
    assert [snapshot.namespaces[row] for row in bundles.namespace] == spaces
    assert bundles.broker_bound.tolist() == [space == "pulsar/b:8080" for space in spaces]
    assert bundles.recently_unloaded.tolist() == [name in seen.recently_unloaded for name in bundles.names]
    assert bundles.listed.all()
    assert bundles.sampled.tolist() == (extensible.top >= 0).tolist()


def test_counts_and_times_beyond_all_bounds_are_bounded_and_such_a_time_is_old() -> None:
    wild = BrokerLoadData(bundle_count=2**63, topics=-(2**70), updated_at=-(2**63))
    snapshot = build_extensible_snapshot({"wild": wild}, {}, {"wild": BrokerLookupData()}, {}, taken_at_ms=NOW_MS)
    assert snapshot.brokers.bundle_count.tolist() == [LARGEST_COUNT]
    plan, _ = TransferShedder.of(BrokerConfig()).decide(snapshot, TransferMemory())
    assert plan.reason.code is Code.OUTDATED_LOAD_DATA
