"""The extensible load manager's placement and split check beside Pulsar's."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from pulsar_barycenter.load.decisions import Split
from pulsar_barycenter.load.placement.least_resource_usage_with_weight_extensible import (
    LeastResourceUsageWithWeight,
)
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.splitting.default_split_strategy import DefaultSplitStrategy
from pulsar_barycenter.load.splitting.request import SplitRefusedError
from pulsar_barycenter.naming.bundle import BundleRange
from support.extensible_choices import ExtensibleCluster
from support.peer_cases import configuration, drawn, pick, stats
from support.pulsar_peer import PulsarPeer
from support.scripted_random import every_outcome

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

PLACEMENT = "org.apache.pulsar.broker.loadbalance.extensions.strategy.LeastResourceUsageWithWeight"
DRAWS_A_BROKER = 24
"""So often for each broker in the set that to miss one of k has a chance of k × exp(-24)."""


@dataclass
class Case:
    load: ExtensibleCluster
    candidates: list[str]
    overrides: dict[str, Any]
    overloaded_from: int

    @cached_property
    def ours(self) -> list[str]:
        """Every broker that ours can choose, by name."""
        snapshot = self.load.snapshot()
        names = snapshot.brokers.names
        settings = LeastResourceUsageWithWeight.of(configuration(self.overrides))
        flags = np.array([name in self.candidates for name in names], bool)
        choices = every_outcome(lambda rng: settings.decide(snapshot, flags, "", rng, None)[0])
        return sorted(names[choice.broker] for choice in choices if choice.broker is not None)

    def document(self) -> dict[str, Any]:
        return {
            "configuration": self.overrides | {"loadBalancerBrokerOverloadedThresholdPercentage": self.overloaded_from},
            "load": {name: {"weightedMaxEMA": ema} for name, ema in self.load.ema.items()},
            "candidates": self.candidates,
            "draws": DRAWS_A_BROKER * max(1, len(self.ours)),
        }


def draw_case(rng: random.Random) -> Case:
    load = ExtensibleCluster()
    silent = rng.choice((0.0, 0.0, 0.2, 0.9))
    alike = rng.random() if rng.random() < 0.1 else None
    for number in sorted(rng.sample(range(60), rng.choice((0, 1, 2, 3, rng.randint(0, 8), rng.randint(0, 50))))):
        usage = pick(rng, (0.0, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0), 0, 1.3) if alike is None else alike
        load.add(f"b{number:02}:8080", None if rng.random() < silent else usage)
    names = sorted(load.cluster.reports)
    candidates = sorted(rng.sample(names, rng.choice((len(names), len(names), rng.randint(0, len(names))))))
    difference = rng.choice((0, 1, 10, 10, 30))
    overrides = {"loadBalancerAverageResourceUsageDifferenceThresholdPercentage": difference}
    # Pulsar writes a long line about each broker that is overloaded, which takes its time and decides nothing
    return Case(load, candidates, overrides, rng.choice((85, *[10_000] * 9)))


def test_the_extensible_placement_draws_between_pulsars_brokers(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Brokers of unknown load included; usages are added in the order of names."""
    questions = drawn(random.Random(f"extensible placement {seed}"), cases, draw_case)
    below = unknown = 0
    for (number, case), there in peer.ask("Extensible", "draws", questions, lambda case: case[1].document(), PLACEMENT):
        assert case.ours == there, number
        below += len(there) < len(case.candidates)
        unknown += any(name not in case.load.ema for name in there)
    print(f"{cases} cases, {below} with brokers below the mean, {unknown} that might choose one of unknown load")
    assert below > cases // 10
    assert unknown > cases // 10


@dataclass
class Run:
    """What one broker sees in one run; `cuts` are what the algorithm names for each bundle, a text why it refuses."""

    stats: dict[str, NamespaceBundleStats]
    unowned: list[str]
    splitting: list[str]
    cuts: dict[str, list[int] | str | None]

    def boundaries(self, bundle: str) -> tuple[int, ...]:
        found = self.cuts[bundle]
        if isinstance(found, str):
            raise SplitRefusedError(found)
        return tuple(found or ())

    def document(self) -> dict[str, Any]:
        return {
            "bundles": [{"name": name, "stats": self.stats[name]} for name in sorted(self.stats)],
            "unowned": self.unowned,
            "splitting": self.splitting,
            "boundaries": self.cuts,
        }


@dataclass
class Runs:
    overrides: dict[str, Any]
    counts: dict[str, int]
    runs: list[Run]

    def document(self) -> dict[str, Any]:
        return {
            "configuration": self.overrides,
            "bundleCounts": self.counts,
            "runs": [run.document() for run in self.runs],
        }

    def ours(self) -> list[dict[str, Any]]:
        """Return for each run the splits, how many bundles could not be cut, and the counts remembered."""
        settings = DefaultSplitStrategy.of(configuration(self.overrides))
        hits: Mapping[str, int] = {}
        told = []
        for run in self.runs:
            case = ExtensibleCluster(unowned=set(run.unowned))
            case.cluster.add("b1:8080", bundles=run.stats)
            plan, hits = settings.decide(case.snapshot(), self.counts, run.boundaries, hits, run.splitting)
            failed = sum(refusal.reason.code is Code.NOT_ONE_BOUNDARY for refusal in plan.refusals())
            # Pulsar counts each range that cannot be divided as it comes by, too large or not
            last = [split.bundle for split in plan][-1:] if len(plan) == settings.most else [max(run.stats, default="")]
            failed += sum(
                each.topics >= 2 and name not in run.unowned and name.endswith(INDIVISIBLE) and [name] <= last
                for name, each in run.stats.items()
            )
            told.append({"splits": [self._split(split) for split in plan], "failures": failed, "hits": dict(hits)})
        return told

    @staticmethod
    def _split(split: Split) -> list[Any]:
        assert split.boundary is not None
        parent = BundleRange.parse(split.bundle.rpartition("/")[2])
        children = BundleRange(parent.lower, split.boundary), BundleRange(split.boundary, parent.upper)
        return [split.bundle, REASONS[split.reason.settings[0]], sorted(map(str, children))]


INDIVISIBLE = "/0x00000000_0x00000001"
REASONS = {
    "loadBalancerNamespaceBundleMaxTopics": "Topics",
    "loadBalancerNamespaceBundleMaxSessions": "Sessions",
    "loadBalancerNamespaceBundleMaxMsgRate": "MsgRate",
    "loadBalancerNamespaceBundleMaxBandwidthMbytes": "Bandwidth",
}
PLACES = ("t/a", "t/b", "u/a")
EDGES = (0, 1, 0x1000, 0x4000, 0x8000, 0x40000000, 0x80000000, 0xC0000000, 0xFFFFFFFF)


def draw_cuts(rng: random.Random, name: str) -> list[int] | str | None:
    found = BundleRange.parse(name.rpartition("/")[2])
    inside = [rng.randint(found.lower + 1, found.upper - 1) for _ in range(3)] if found.width > 1 else [found.lower] * 3
    kind = rng.random()
    return inside[:1] if kind < 0.85 else rng.choice(([], sorted(set(inside[1:])) * 2, "no positions", None))


def draw_runs(rng: random.Random) -> Runs:
    """Draw bundles that are hot for some runs in a row, calm now and then, and come and go."""
    names = [f"{place}/{BundleRange(*edges)}" for place in PLACES for edges in pairwise(EDGES)]
    mine = rng.sample(names, rng.randint(1, 10))
    hot = {name: stats(rng) for name in mine}
    runs = []
    for _ in range(rng.randint(1, 5)):
        present = {name: each for name, each in hot.items() if rng.random() < 0.95}
        changed = {name: stats(rng) if rng.random() < 0.1 else each for name, each in present.items()}
        unowned = [name for name in names if rng.random() < 0.03]
        splitting = [f"{rng.choice(PLACES)}/{BundleRange(*sorted(rng.sample(EDGES, 2)))}"] if rng.random() < 0.2 else []
        runs.append(Run(changed, unowned, splitting, {name: draw_cuts(rng, name) for name in changed}))
    overrides = {
        "loadBalancerNamespaceBundleMaxTopics": rng.choice((1, 999, 1000)),
        "loadBalancerNamespaceBundleMaxSessions": rng.choice((-1, 0, 500, 1000)),
        "loadBalancerNamespaceBundleMaxMsgRate": rng.choice((100, 30_000, 45_000)),
        "loadBalancerNamespaceBundleMaxBandwidthMbytes": rng.choice((1, 20, 100)),
        "loadBalancerNamespaceMaximumBundles": rng.choice((4, 16, 128, 128)),
        "loadBalancerNamespaceBundleSplitConditionHitCountThreshold": rng.choice((0, 1, 3)),
        "loadBalancerMaxNumberOfBundlesToSplitPerCycle": rng.choice((1, 2, 10)),
    }
    return Runs(overrides, {place: rng.choice((1, 3, 14)) for place in PLACES}, runs)


def test_the_split_check_decides_and_remembers_what_pulsars_does(
    complete_peer: PulsarPeer, cases: int, seed: int
) -> None:
    """Bundles come in the order of names. No namespace's name begins as another's, which Pulsar would mix up."""
    questions = drawn(random.Random(f"extensible splits {seed}"), cases, draw_runs)
    splits = failures = counting = 0
    for (number, case), answer in complete_peer.ask("Extensible", "splits", questions, lambda case: case[1].document()):
        there = [run | {"splits": sorted(run["splits"])} for run in answer]
        assert case.ours() == there, number
        splits += any(run["splits"] for run in there)
        failures += any(run["failures"] for run in there)
        counting += any(run["hits"] for run in there)
    print(f"{cases} cases, {splits} that split, {failures} with bundles that cannot be cut, {counting} that count on")
    assert min(splits, failures, counting) > cases // 10
