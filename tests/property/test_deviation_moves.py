"""The moves of the DeviationShedder are those of its oracle, however few of a broker's bundles it sorts at once."""

from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.shedding import deviation_shedder as subject
from support import shedding_oracles
from support.load_cases import Cluster, bundle_name, clusters

MEMBER = subject.DeviationShedder.of(BrokerConfig())
weights = st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.0, 10.0]) | st.floats(0, 20), max_size=40)


@pytest.fixture(scope="module", autouse=True)
def _one_bundle_sorted_at_once() -> Iterator[None]:
    with mock.patch.object(subject, "_FIRST_LOOK", 1):
        yield


def check(cluster: Cluster, threshold: float) -> None:
    plan = replace(MEMBER, threshold=threshold).decide(cluster.snapshot(), None)[0]
    found = [(unload.source, unload.bundle) for unload in plan]
    assert found == shedding_oracles.deviation_shedding(cluster, threshold, receiver_gains=True)


@given(weights, st.lists(weights, max_size=6), st.sampled_from([0.0, 0.5, 1.0]))
def test_one_broker_far_above_the_others(many: list[float], others: list[list[float]], threshold: float) -> None:
    cluster = Cluster()
    for broker, figures in enumerate([[10 * figure for figure in many], *others]):
        bundles = {
            bundle_name(50 * broker + index): NamespaceBundleStats(msg_throughput_in=figure)
            for index, figure in enumerate(figures)
        }
        cluster.add(f"b{broker}", bundles=bundles)
    check(cluster, threshold)


@given(clusters(), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_any_cluster(cluster: Cluster, threshold: float) -> None:
    """Including bundles that two brokers report and values below zero."""
    check(cluster, threshold)


def test_a_bundle_that_two_brokers_report_leaves_once() -> None:
    """It is the heaviest of both, and the second broker becomes the greatest once the first has released it."""
    cluster = Cluster()
    shared = {bundle_name(0): NamespaceBundleStats(msg_throughput_in=30.0)}
    for broker, count in (("b0", 12), ("b1", 10), ("b2", 0), ("b3", 0), ("b4", 0)):
        first = 100 * (1 + int(broker[1]))
        own = {bundle_name(first + index): NamespaceBundleStats(msg_throughput_in=10.0) for index in range(count)}
        cluster.add(broker, bundles={**own, **shared} if count else {})
    check(cluster, 0.0)
