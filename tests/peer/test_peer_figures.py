"""Resource formulas and windows beside those of Pulsar's LocalBrokerData, ResourceUsage and BundleData."""

import math
import random
from typing import Any

import pytest

from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    LocalBrokerData,
    NamespaceBundleStats,
    ResourceUsage,
    ResourceWeights,
    max_resource_usage,
    weighted_resource_usage,
)
from pulsar_barycenter.load.reports.windows import fold_bundle
from pulsar_barycenter.load.snapshot.builder import build_snapshot
from support.peer_cases import bundle_data, drawn, stats, usage
from support.pulsar_peer import PulsarPeer, plain

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(1800)]

ODD = (0.0, -0.0, -1.0, 1e-46, 1e-38, 3.5e38, 1e300, 1 / 3, math.inf, -math.inf, math.nan, 2.0**31, 16_777_217.0)


def odd_usage(rng: random.Random) -> ResourceUsage:
    if rng.random() < 0.7:
        return usage(rng)
    return ResourceUsage(rng.choice(ODD), rng.choice(ODD))


def usage_case(rng: random.Random) -> tuple[LocalBrokerData, ResourceWeights]:
    report = LocalBrokerData(
        cpu=odd_usage(rng),
        memory=odd_usage(rng),
        direct_memory=odd_usage(rng),
        bandwidth_in=odd_usage(rng),
        bandwidth_out=odd_usage(rng),
    )
    return report, ResourceWeights(*(rng.choice((0.0, 0.5, 1.0, 1.0, 2.0, rng.random())) for _ in range(4)))


def same(ours: float, theirs: Any) -> bool:
    other = float(theirs)
    return ours == other or (math.isnan(ours) and math.isnan(other))


def test_resource_formulas_equal_pulsars(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Each percentage, the largest and the largest weighted one are Pulsar's to the last bit, NaN and infinity too."""

    def document(case: tuple[int, tuple[LocalBrokerData, ResourceWeights]]) -> Any:
        return {"report": plain(case[1][0]), "weights": case[1][1]}

    questions = drawn(random.Random(f"usage {seed}"), cases, usage_case)
    for (number, (report, weights)), answer in peer.ask("Figures", "usage", questions, document):
        five = (report.cpu, report.memory, report.direct_memory, report.bandwidth_in, report.bandwidth_out)
        assert all(same(one.percent, other) for one, other in zip(five, answer["percent"], strict=True)), number
        assert same(max_resource_usage(report), answer["max"]), number
        weighted = weighted_resource_usage(report, weights)
        assert same(weighted, answer["weighted"]), number
        brokers = build_snapshot({"b": report}, {}, {}).brokers
        if not brokers.suspect[0]:
            assert float(brokers.weighted_usage(weights)[0]) == weighted, number


def window_case(rng: random.Random) -> tuple[BundleData, list[NamespaceBundleStats]]:
    return bundle_data(rng), [stats(rng) for _ in range(rng.randint(1, 25))]


def test_windows_equal_pulsars(peer: PulsarPeer, cases: int, seed: int) -> None:
    """After every sample of a sequence both windows and the topics of a bundle are Pulsar's to the last bit."""

    def document(case: tuple[int, tuple[BundleData, list[NamespaceBundleStats]]]) -> Any:
        return {"before": case[1][0], "samples": case[1][1]}

    questions = drawn(random.Random(f"windows {seed}"), cases, window_case)
    for (number, (data, samples)), answer in peer.ask("Figures", "windows", questions, document):
        for sample, theirs in zip(samples, answer, strict=True):
            data = fold_bundle(data, sample)
            assert plain(data) == theirs, number
