"""The filters of the modular and of the extensible load manager beside Pulsar's: the same brokers are kept."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pulsar_barycenter.load.filters.broker_version import broker_version
from pulsar_barycenter.load.filters.load_manager_class import load_manager_class
from pulsar_barycenter.load.filters.max_topics import below_max_topics
from pulsar_barycenter.load.filters.outcome import FilterFailedError, FilterOutcome
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from support.extensible_choices import ExtensibleCluster
from support.filter_outcomes import assert_narrows
from support.load_cases import bundle_name
from support.peer_cases import drawn, load_document
from support.pulsar_peer import PulsarPeer

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

ROOT = "org.apache.pulsar.broker.loadbalance"
CLASSES = [kind.class_name for kind in ManagerKind]


@dataclass
class Case:
    load: ExtensibleCluster
    candidates: list[str]
    overrides: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """Return what both managers' filters are asked."""
        reports = self.load.cluster.reports
        return {
            "configuration": self.overrides,
            "candidates": self.candidates,
            "load": load_document(self.load.cluster),
        } | {
            "brokers": {
                name: {
                    "brokerVersion": reports[name].broker_version_string,
                    "loadManagerClassName": reports[name].load_manager_class_name,
                    "persistentTopicsEnabled": True,
                    "nonPersistentTopicsEnabled": True,
                    "startTimestamp": 0,
                }
                for name in self.candidates
            },
        }

    def extensible_document(self) -> dict[str, Any]:
        reports = self.load.cluster.reports
        load = {
            name: {"weightedMaxEMA": ema, "topics": reports[name].num_topics} for name, ema in self.load.ema.items()
        }
        return self.document() | {"load": load}

    def ours(self, judge: Any, *arguments: object) -> list[str] | str:
        snapshot: LoadSnapshot = self.load.snapshot()
        flags = np.array([name in self.candidates for name in snapshot.brokers.names], bool)
        try:
            outcome: FilterOutcome = judge(snapshot, flags, *arguments)
        except FilterFailedError:
            return "failed"
        assert_narrows(snapshot, flags, outcome)
        return sorted(snapshot.brokers.names[row] for row in np.flatnonzero(outcome.kept).tolist())


def identifier(rng: random.Random) -> str:
    """Return a part of a pre-release; not those words that Pulsar's library orders against the standard."""
    return rng.choice(("0", "1", "2", "10", "01", "rc", "rc1", "SNAPSHOT", "alpha", "Alpha", "a-b", "a--", "", "ü"))


def version(rng: random.Random) -> str | None:
    """Return a version: mostly semantic ones that are near each other, some that are none."""
    kind = rng.random()
    if kind < 0.03:
        return rng.choice(
            (None, "", " ", "4", "4.1", "4.1.0.0", "v4.1.0", "4.01.0", "4.1.0 ", "4.-1.0", "٤.1.0", "4.1.x")
        )
    text = rng.choice(("4.0.0", "4.1.0", "4.1.0", "4.1.1", "4.10.0", "4.2.0", "10.0.0", "4.2147483647.0"))
    if rng.random() < 0.4:
        text += "-" + ".".join(identifier(rng) for _ in range(rng.choice((1, 1, 2, 3))))
    if rng.random() < 0.2:
        text += "+" + ".".join(rng.choice((identifier(rng), "-", "1a", "007")) for _ in range(rng.choice((1, 2))))
    return text


def draw_case(rng: random.Random) -> Case:
    load = ExtensibleCluster()
    same = version(rng) if rng.random() < 0.3 else None
    for number in sorted(rng.sample(range(30), rng.choice((0, 1, 2, 3, rng.randint(0, 12))))):
        topics = rng.choice((0, 1, 9, 10, 11, rng.randint(0, 20)))
        stats = NamespaceBundleStats(topics=topics)
        # without known load there are no topics known either
        known = rng.random() < 0.8
        load.add(
            f"b{number:02}:8080",
            rng.random() if known else None,
            bundles={bundle_name(0): stats if known else NamespaceBundleStats()},
            version=same if same is not None and rng.random() < 0.9 else version(rng),
            class_name=rng.choice((CLASSES[1], CLASSES[2], CLASSES[2], None, rng.choice(CLASSES))),
        )
    names = sorted(load.cluster.reports)
    candidates = sorted(rng.sample(names, rng.choice((len(names), len(names), rng.randint(0, len(names))))))
    overrides = {
        "loadManagerClassName": rng.choice(CLASSES),
        "loadBalancerBrokerMaxTopics": rng.choice((0, 1, 10, 10, 20)),
        "preferLaterVersions": True,
    }
    return Case(load, candidates, overrides)


def agreements(peer: PulsarPeer, cases: int, seed: int, subject: str, name: str, ours: Any) -> dict[str, int]:
    """Have both judge `cases` clusters alike; return how often nobody, some and all were kept, and both failed."""
    extensible = subject == "Extensible"
    questions = drawn(random.Random(f"{name} {seed}"), cases, draw_case)

    def document(case: tuple[int, Case]) -> Any:
        return case[1].extensible_document() if extensible else case[1].document()

    seen = {"nobody": 0, "some": 0, "all": 0, "failed": 0}
    for (number, case), there in peer.ask(subject, "filter", questions, document, name):
        kept = ours(case)
        assert kept == there, (number, case.document()["brokers"])
        if kept == "failed":
            seen["failed"] += 1
        elif case.candidates:
            seen["nobody" if not kept else "all" if kept == case.candidates else "some"] += 1
    print(f"{subject} {name.rpartition('.')[2]}: {cases} cases, {seen}")
    return seen


def test_the_modular_version_filter_keeps_whom_pulsars_keeps(peer: PulsarPeer, cases: int, seed: int) -> None:
    """It fails where Pulsar's fails: without candidates, or with a version that is none."""
    name = f"{ROOT}.impl.BrokerVersionFilter"
    seen = agreements(peer, cases, seed, "Placement", name, lambda case: case.ours(broker_version))
    assert min(seen["some"], seen["all"], seen["failed"]) > cases // 20


def test_the_extensible_version_filter_keeps_whom_pulsars_keeps(peer: PulsarPeer, cases: int, seed: int) -> None:
    """Without candidates it has nothing to do, so that ours is not asked then."""
    name = f"{ROOT}.extensions.filter.BrokerVersionFilter"
    seen = agreements(
        peer, cases, seed, "Extensible", name, lambda case: case.ours(broker_version) if case.candidates else []
    )
    assert min(seen["some"], seen["all"], seen["failed"]) > cases // 20


@pytest.mark.parametrize(("subject", "package"), [("Placement", "impl"), ("Extensible", "extensions.filter")])
def test_the_class_filters_keep_whom_pulsars_keep(
    peer: PulsarPeer, cases: int, seed: int, subject: str, package: str
) -> None:
    """Class names are given in full; Pulsar knows no short ones."""
    seen = agreements(
        peer,
        cases,
        seed,
        subject,
        f"{ROOT}.{package}.BrokerLoadManagerClassFilter",
        lambda case: case.ours(load_manager_class, case.overrides["loadManagerClassName"]),
    )
    assert min(seen["nobody"], seen["some"], seen["all"]) > cases // 50


def test_the_extensible_topic_filter_keeps_whom_pulsars_keeps(peer: PulsarPeer, cases: int, seed: int) -> None:
    name = f"{ROOT}.extensions.filter.BrokerMaxTopicCountFilter"
    seen = agreements(
        peer,
        cases,
        seed,
        "Extensible",
        name,
        lambda case: case.ours(below_max_topics, case.overrides["loadBalancerBrokerMaxTopics"]),
    )
    assert min(seen["nobody"], seen["some"], seen["all"]) > cases // 50
