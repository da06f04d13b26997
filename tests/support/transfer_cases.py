"""Random clusters of the extensible load manager for the TransferShedder, round after round.

Half of the values are drawn from a few round numbers, so that ties and thresholds occur often, half freely.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    BundleLoadData,
    TopBundlesLoadData,
)
from pulsar_barycenter.load.reports.load_report import BundleData, NamespaceBundleStats, TimeAverageMessageData
from pulsar_barycenter.load.shedding.transfer_plan import UNLOAD_REASONS, TransferPlan
from pulsar_barycenter.load.snapshot.extensible_document import ExtensibleDocument, TrafficFigures
from pulsar_barycenter.load.snapshot.extensible_snapshot import build_extensible_snapshot, windows_of_owners
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from support.load_cases import bundle_name
from support.peer_cases import configuration, pick

NOW_MS: Final = 1_700_000_000_000
NAMESPACES: Final = ("t/a", "t/a", "t/b", "t/c", "other/c")


def unload_reason(plan: TransferPlan) -> str:
    """Return the reason of the cycle in Pulsar's metrics."""
    return UNLOAD_REASONS[plan.reason.code]


@dataclass
class TransferRound:
    """The load data of one moment; `unloaded_at_ms` are the brokers that bundles left since the previous round."""

    loads: dict[str, BrokerLoadData] = field(default_factory=dict)
    tops: dict[str, TopBundlesLoadData] = field(default_factory=dict)
    lookups: dict[str, BrokerLookupData] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    recently_unloaded: set[str] = field(default_factory=set)
    unloaded_at_ms: dict[str, int] = field(default_factory=dict)

    def add(
        self,
        broker: str,
        usage: float,
        *traffics: float,
        throughput: float | None = None,
        throughput_ema: float | None = None,
        updated_at: int = NOW_MS,
        namespace: str = "t/a",
    ) -> "TransferRound":
        """Add a registered broker that owns a bundle for each of `traffics`, all listed in that order."""
        first = sum(len(top.top_bundles_load_data) for top in self.tops.values())
        bundles = tuple(
            BundleLoadData(bundle_name(first + index, namespace), NamespaceBundleStats(msg_throughput_in=traffic))
            for index, traffic in enumerate(traffics)
        )
        total = sum(traffics) if throughput is None else throughput
        self.loads[broker] = BrokerLoadData(
            weighted_max_ema=usage,
            msg_throughput_in=total,
            msg_throughput_ema=total if throughput_ema is None else throughput_ema,
            updated_at=updated_at,
        )
        self.lookups[broker] = BrokerLookupData()
        self.tops[broker] = TopBundlesLoadData(bundles)
        self.owners.update({bundle.bundle_name: broker for bundle in bundles})
        return self

    def turned(self) -> "TransferRound":
        """Return the same cluster, listed in another order."""
        return replace(
            self,
            loads=dict(reversed(self.loads.items())),
            tops=dict(reversed(self.tops.items())),
            lookups=dict(reversed(self.lookups.items())),
            owners=dict(reversed(self.owners.items())),
        )

    def by_windows(self, short: Mapping[str, float]) -> LoadSnapshot:
        """Return the load data with the pipeline's short-term windows, bytes/s by bundle."""
        known = ExtensibleDocument(loads=self.loads, top_bundles=self.tops, lookups=self.lookups, owners=self.owners)
        windows = {name: TimeAverageMessageData(num_samples=1, msg_throughput_in=each) for name, each in short.items()}
        published = {name: BundleData(short_term_data=one, long_term_data=one) for name, one in windows.items()}
        return build_extensible_snapshot(
            self.loads,
            self.tops,
            self.lookups,
            self.owners,
            taken_at_ms=NOW_MS,
            traffic=TrafficFigures.WINDOWS,
            windows=windows_of_owners(known, published),
        )

    def snapshot(self) -> LoadSnapshot:
        return build_extensible_snapshot(
            self.loads,
            self.tops,
            self.lookups,
            self.owners,
            taken_at_ms=NOW_MS,
            recently_unloaded=self.recently_unloaded,
        )


@dataclass(frozen=True)
class TransferCase:
    """Pulsar's keys that differ from their defaults, and the successive load data."""

    overrides: dict[str, Any]
    rounds: list[TransferRound]

    def document(self) -> dict[str, Any]:
        """Return the case for the JVM side, with all times relative to `now`."""
        return {
            "configuration": self.overrides,
            "now": NOW_MS,
            "rounds": [
                {
                    "loads": dict(sorted(one.loads.items())),
                    "tops": one.tops,
                    "available": sorted(one.lookups),
                    "owners": one.owners,
                    "recentlyUnloadedBundles": sorted(one.recently_unloaded),
                    "recentlyUnloadedBrokers": one.unloaded_at_ms,
                }
                for one in self.rounds
            ],
        }


def our_configuration(overrides: Mapping[str, Any]) -> Any:
    texts = {key: ",".join(value) if isinstance(value, list) else value for key, value in overrides.items()}
    return configuration(texts)


def draw_overrides(rng: random.Random) -> dict[str, Any]:
    return {
        "loadBalancerBrokerLoadTargetStd": rng.choice((0.0, 0.05, 0.1, 0.25, 0.25, 0.5, 1.2)),
        "loadBalancerSheddingConditionHitCountThreshold": rng.choice((0, 0, 0, 0, 1, 3)),
        "loadBalancerTransferEnabled": rng.random() < 0.85,
        "loadBalancerMaxNumberOfBrokerSheddingPerCycle": rng.choice((1, 2, 3, 3, 10)),
        "loadBalanceSheddingDelayInSeconds": rng.choice((0, 60, 180)),
        "loadBalancerBrokerLoadDataTTLInSeconds": rng.choice((300, 1800)),
        "loadBalancerBrokerOverloadedThresholdPercentage": rng.choice((0, 30, 60, 85, 85, 100)),
        "loadBalancerSheddingExcludedNamespaces": rng.choice(([], [], [], ["other/c"], ["t/b", "t/c"])),
        "loadBalancerDebugModeEnabled": rng.random() < 0.3,
    }


def draw_case(rng: random.Random) -> TransferCase:
    rounds = [draw_round(rng)]
    while len(rounds) < 6 and rng.random() < 0.55:
        rounds.append(next_round(rng, rounds[-1]) if rng.random() < 0.8 else draw_round(rng))
    return TransferCase(draw_overrides(rng), rounds)


def _sizes(rng: random.Random) -> tuple[int, int]:
    """Return how many brokers and how many top bundles at most."""
    kind = rng.random()
    if kind < 0.75:
        return rng.randint(1, 5), rng.randint(0, 6)
    if kind < 0.97:
        return rng.randint(2, 12), rng.randint(0, 12)
    return rng.randint(2, 40), rng.randint(0, 25)


def draw_round(rng: random.Random) -> TransferRound:
    """Return a cluster: mostly complete, with ascending lists; sometimes with anything that can be wrong."""
    made, (broker_count, most) = TransferRound(), _sizes(rng)
    brokers = [f"broker-{number}:8080" for number in rng.sample(range(1000), broker_count)]
    whole, by_traffic, number = rng.random() < 0.6, rng.random() < 0.6, 0
    for broker in brokers:
        bundles = []
        for _ in range(rng.choice((most, rng.randint(0, most)))):
            name = bundle_name(number, rng.choice(NAMESPACES))
            bundles.append(BundleLoadData(name, _stats(rng)))
            number += 1
        others = [one for top in made.tops.values() for one in top.top_bundles_load_data]
        if others and rng.random() < 0.03:  # it is moving, and both brokers list it
            bundles.append(rng.choice(others))
        if rng.random() < 0.9:
            bundles.sort(key=lambda bundle: bundle.stats.msg_throughput_in + bundle.stats.msg_throughput_out)
        for bundle in bundles:
            owned = rng.random()
            if owned < 0.95 or whole:
                made.owners[bundle.bundle_name] = broker
            elif owned < 0.98:
                made.owners[bundle.bundle_name] = rng.choice(brokers)
            if rng.random() < (0.01 if whole else 0.1):
                made.recently_unloaded.add(bundle.bundle_name)
        if whole or rng.random() < 0.95:
            made.tops[broker] = TopBundlesLoadData(tuple(bundles))
        if whole or rng.random() < 0.99:
            made.lookups[broker] = BrokerLookupData()
        if whole or rng.random() < 0.99:
            made.loads[broker] = _load(rng, bundles, by_traffic=by_traffic, fresh=whole)
        if rng.random() < 0.03:
            made.unloaded_at_ms[broker] = NOW_MS - rng.choice((1_000, 59_000, 60_000, 120_000, 180_000, 600_000))
    return made


def next_round(rng: random.Random, before: TransferRound) -> TransferRound:
    """Return the cluster a minute later: mostly the same, with some loads drawn again."""
    loads = {
        name: load if rng.random() < 0.8 else msgspec.structs.replace(load, weighted_max_ema=_usage(rng))
        for name, load in before.loads.items()
    }
    unloaded = {name: NOW_MS - 600_000 for name in loads if rng.random() < 0.02}
    return TransferRound(loads, before.tops, before.lookups, before.owners, before.recently_unloaded, unloaded)


def _stats(rng: random.Random) -> NamespaceBundleStats:
    few = (0.0, 1.0, 10.0, 20.0, 30.0, 50.0, 100.0, 200.0)
    return NamespaceBundleStats(
        msg_throughput_in=pick(rng, few, 0, 150), msg_throughput_out=pick(rng, (0.0, 0.0, 10.0, 50.0), 0, 80)
    )


def _usage(rng: random.Random) -> float:
    return pick(rng, (0.05, 0.1, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.85, 0.9, 1.0, 1.3), 0.0, 1.1)


def _load(rng: random.Random, bundles: list[BundleLoadData], *, by_traffic: bool, fresh: bool) -> BrokerLoadData:
    into = sum(bundle.stats.msg_throughput_in for bundle in bundles) * rng.choice((1, 1, 1, 1.25, 2))
    out = sum(bundle.stats.msg_throughput_out for bundle in bundles)
    usage = _usage(rng)
    if by_traffic:
        usage = (into + out) / rng.choice((500, 1000, 1000))
    if rng.random() < 0.01:
        usage = rng.choice((0.0, -0.0))
    age_ms = (
        rng.choice((0, 1_000, 60_000, 240_000)) if fresh or rng.random() < 0.95 else rng.choice((400_000, 2_000_000))
    )
    return BrokerLoadData(
        weighted_max_ema=usage,
        msg_throughput_in=into,
        msg_throughput_out=out,
        msg_throughput_ema=(into + out) * rng.choice((1, 1, 0.9)),
        updated_at=NOW_MS - age_ms,
    )
