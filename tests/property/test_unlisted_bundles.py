"""The estimates of bundles that are outside their broker's list of top bundles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.shedding.least_disturbance.bundle_loads import BundleLoads, first_loads, next_loads
from pulsar_barycenter.load.shedding.least_disturbance.least_disturbance_settings import MINUTE_MS, Settings
from pulsar_barycenter.load.snapshot.extensible_snapshot import build_extensible_snapshot
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from support.load_cases import bundle_name

LISTED = 2
rates = st.lists(st.integers(1, 1_000), min_size=4, max_size=7)


def at(minute: int, held: list[int], *, reported: int | None = None) -> LoadSnapshot:
    """Return a snapshot of one broker with bundles of these msg/s, of which it lists the heaviest."""
    heaviest = sorted(range(len(held)), key=lambda number: (held[number], -number))[-LISTED:]
    top = tuple(BundleLoadData(bundle_name(each), NamespaceBundleStats(msg_rate_in=held[each])) for each in heaviest)
    updated_at = MINUTE_MS * (minute if reported is None else reported)
    load = BrokerLoadData(msg_rate_in=sum(held), updated_at=updated_at, reported_at=updated_at, bundle_count=len(held))
    owners = {bundle_name(number): "b1" for number in range(len(held))}
    tops = {"b1": TopBundlesLoadData(top)}
    return build_extensible_snapshot(
        {"b1": load},
        tops,
        {"b1": BrokerLookupData()},
        owners,
        taken_at_ms=MINUTE_MS * minute,
    )


def after(loads: BundleLoads, snapshots: list[LoadSnapshot]) -> BundleLoads:
    never = np.zeros(1, bool)
    for snapshot in snapshots:
        loads = next_loads(loads, snapshot, 1.0, snapshot.taken_at_ms, never, never, np.zeros(1), Settings())
    return loads


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(6)), st.lists(st.integers(1, 1_000), min_size=6, max_size=6))
def test_the_estimates_of_a_broker_come_to_its_load(order: list[int], held: list[int]) -> None:
    """Whatever was on the list before: a bundle that drops off it does not keep the load that it had there."""
    before, later = [held[place] for place in order], held
    loads = after(first_loads(at(0, before)), [at(1, before)])
    loads = after(loads, [at(minute, later) for minute in range(2, 60)])
    work = loads.units.of_rate * sum(later)
    for estimates in (loads.recent, loads.settled):
        assert float(estimates.sum()) == pytest.approx(work, rel=0.02)


@settings(max_examples=60, deadline=None)
@given(rates)
def test_without_a_new_load_of_the_broker_the_estimates_stay(held: list[int]) -> None:
    """A list may be newer than the load of its broker, so the difference of the two would be wrong."""
    loads = first_loads(at(0, held))
    later = after(loads, [at(minute, [2 * rate for rate in held], reported=0) for minute in range(1, 5)])
    unlisted = ~at(0, held).bundles.sampled
    assert later.recent[unlisted].tolist() == loads.recent[unlisted].tolist()
