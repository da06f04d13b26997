"""The extensible load manager's selection as a whole, and which transfers it considers, beside Pulsar's.

Pulsar's own manager, filters, strategy and shedder decide; mocks answer what is in the stores. The anti-affinity filter
is not among them, since it reads the metadata store itself; namespaces may still be in a group without any bundles.
"""

import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pytest

from pulsar_barycenter.load.filters.extensible_filters import AllowedTransfers, ExtensibleFilterSettings
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.selection.extensible_selection import select_broker_extensible
from pulsar_barycenter.load.selection.modular_selection import SelectionMemory
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.strategies import placer_of
from support.extensible_choices import EXTENSIBLE, ExtensibleCluster, policy
from support.peer_cases import configuration, drawn
from support.pulsar_peer import PulsarPeer
from support.scripted_random import every_outcome

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

RANGE = "0x00000000_0x40000000"
BUNDLE = f"t/ns/{RANGE}"
DRAWS_A_BROKER = 24
"""So often for each broker in the set that to miss one of k has a chance of k × exp(-24)."""


@dataclass
class Isolation:
    primary: list[str]
    secondary: list[str]
    least: int

    def stored(self) -> dict[str, Any]:
        return policy("t/ns", "|".join(self.primary) or "nobody", "|".join(self.secondary), self.least)


@dataclass
class Case:
    load: ExtensibleCluster
    isolation: Isolation | None
    overrides: dict[str, Any]
    without: list[str]
    transfers: list[tuple[str, str | None]]

    @cached_property
    def snapshot(self) -> LoadSnapshot:
        return self.load.snapshot()

    @cached_property
    def ours(self) -> list[str]:
        """Every broker that ours can choose, by name."""
        config = configuration(self.overrides)
        settings, placer = ExtensibleFilterSettings.of(config), placer_of(config, ManagerKind.EXTENSIBLE)
        request, memory = PlacementRequest(BUNDLE), SelectionMemory()
        found = every_outcome(
            lambda rng: select_broker_extensible(
                self.snapshot, request, settings, placer, rng, memory, without=self.without
            )
        )
        return sorted(placement.broker for placement, _ in found if placement.broker is not None)

    def allowed(self) -> list[bool]:
        """For each transfer whether ours may be."""
        settings, index = ExtensibleFilterSettings.of(configuration(self.overrides)), self.snapshot.brokers.index
        rows = np.flatnonzero([name == BUNDLE for name in self.snapshot.bundles.names])[:1]
        allowed = AllowedTransfers(self.snapshot, settings)
        return [allowed(rows, index[source], None if to is None else index[to])[0] for source, to in self.transfers]

    def document(self) -> dict[str, Any]:
        reports = self.load.cluster.reports
        return {
            "configuration": self.overrides,
            "brokers": {
                name: {
                    "brokerVersion": report.broker_version_string,
                    "loadManagerClassName": report.load_manager_class_name,
                    "persistentTopicsEnabled": report.persistent_topics_enabled,
                    "nonPersistentTopicsEnabled": True,
                    "startTimestamp": 0,
                }
                for name, report in reports.items()
                if name not in self.load.gone
            },
            "load": {
                name: {"weightedMaxEMA": ema, "topics": reports[name].num_topics} for name, ema in self.load.ema.items()
            },
            "policy": None if self.isolation is None else msgspec.to_builtins(self.isolation),
            "grouped": "t/ns" in self.load.groups,
            "without": self.without,
            "range": RANGE,
            "draws": DRAWS_A_BROKER * max(1, len(self.ours)),
            "transfers": self.transfers,
        }


def draw_case(rng: random.Random) -> Case:
    """Draw few brokers, most of which pass most filters; the first reports the bundle."""
    hosts = [f"b{number}" for number in sorted(rng.sample(range(8), rng.choice((0, 1, 2, 3, 4, 5, 5))))]
    load = ExtensibleCluster(unowned={BUNDLE}, groups={"t/ns": "g"} if rng.random() < 0.1 else {})
    strange = rng.random() < 0.1
    for at, host in enumerate(hosts):
        known = rng.random() < 0.85
        topics = rng.choice((0, 0, 1, 9, 10, 11)) if known else 0
        load.add(
            f"{host}:8080",
            rng.choice((0.1, 0.3, 0.5, 0.9, rng.random())) if known else None,
            bundles={BUNDLE if at == 0 else f"of/{host}/{RANGE}": NamespaceBundleStats(topics=topics)},
            version="weird" if strange and rng.random() < 0.5 else rng.choice(("4.1.0", "4.2.0", "4.2.0", "4.2.0+x")),
            class_name=rng.choice((*[EXTENSIBLE] * 16, ManagerKind.MODULAR.class_name, None)),
            persistent=rng.random() < 0.85,
        )
    names = [f"{host}:8080" for host in hosts]
    load.gone = {name for name in names if rng.random() < 0.1}
    isolation = None
    if rng.random() < 0.4:
        isolation = Isolation(
            [host for host in hosts if rng.random() < 0.5],
            [host for host in hosts if rng.random() < 0.5],
            rng.choice((0, 1, 1, 2, 3)),
        )
        load.isolation = {"p": isolation.stored()}
    overrides = {
        "loadManagerClassName": EXTENSIBLE,
        "loadBalancerBrokerMaxTopics": rng.choice((10, 11, 11, 12, 1)),
        "preferLaterVersions": rng.random() < 0.4,
        "loadBalancerTransferEnabled": rng.random() < 0.7,
        "loadBalancerSheddingBundlesWithPoliciesEnabled": rng.random() < 0.6,
        "loadBalancerAverageResourceUsageDifferenceThresholdPercentage": rng.choice((0, 10, 10, 30)),
    }
    live = [name for name in names if name not in load.gone]
    transfers = [(rng.choice(live), rng.choice((None, *live))) for _ in range(3)] if live else []
    return Case(load, isolation, overrides, [name for name in names if rng.random() < 0.1], transfers)


def test_selections_fall_on_pulsars_brokers_and_transfers_are_pulsars(
    complete_peer: PulsarPeer, cases: int, seed: int
) -> None:
    questions = drawn(random.Random(f"extensible selection {seed}"), cases, draw_case)
    several = nobody = allowed = refused = 0
    for (number, case), there in complete_peer.ask(
        "Extensible", "selections", questions, lambda case: case[1].document()
    ):
        assert case.ours == there["drawn"], number
        assert case.allowed() == there["transfers"], number
        several += len(case.ours) > 1
        nobody += bool(case.load.cluster.reports) and not case.ours
        allowed += any(there["transfers"])
        refused += not all(there["transfers"])
    print(
        f"{cases} cases, {several} with a draw, {nobody} without anybody, {allowed} may and {refused} may not transfer"
    )
    assert min(several, nobody, allowed, refused) > cases // 20
