"""Isolation policies, failure domains and anti-affinity groups beside Pulsar's.

Driven: `NamespaceIsolationDataImpl.validate`, `NamespaceIsolationPolicyImpl`, `NamespaceIsolationPolicies`,
`SimpleResourceAllocationPolicies`, `BundleRangeCache` and the functions of `LoadManagerShared`. Mocks give them the
stored records. Not driven: `ClustersBase`, whose choice of namespaces to unload is private and needs an admin client.

Regexes have no colon here, as Pulsar 4.2 does not hold them against `host:port`, and say the same in Java and Python.
Where ours differ nothing is drawn: a missing `secondary`, an unknown `unload_scope`, `namespaces` that do not compile,
regexes that take more than linear time (`load.regexes` refuses them).
"""

import random
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from pulsar_barycenter.load.filters.anti_affinity import anti_affinity, anti_affinity_veto
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.policies import (
    ClusterPolicies,
    FailureDomain,
    IsolationPolicies,
    IsolationPolicy,
    PolicyError,
    domains_of_brokers,
    group_key,
    isolation_data,
)
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, default_bundle_data
from pulsar_barycenter.load.snapshot.load_snapshot import ExtensibleLoad, LoadSnapshot
from support.load_cases import Cluster, bundle_name
from support.peer_cases import drawn
from support.pulsar_peer import PulsarPeer

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("peer"), pytest.mark.timeout(3600)]

NAMESPACES: Final = ("t/a", "t/b", "u/a", "u/ns-1", "pulsar/system")
HOSTS: Final = ("b1", "b2", "b10", "broker-1.east", "broker-2.west", "10.0.0.1", "B1", "[::1]")
BROKER_REGEXES: Final = (
    "b1",
    "b.*",
    "b[12]",
    "b1|b2",
    ".*",
    "",
    "broker-.\\.east",
    "\\Qbroker-1.east\\E",
    "(?i)b1",
    "b\\d+",
    "b\\d{2}",
    "[a-z]\\d",
    "\\w+",
    ".*(east|west)",
    "[^b].*",
    "10\\.0\\.0\\.\\d",
    "none",
    "\\[.*\\]",
)
NAMESPACE_REGEXES: Final = ("t/.*", "t/a", ".*", "[tu]/a", "u/ns-\\d", ".*/a", "t", "pulsar/.*", "none", "")
GROUPS: Final = ("g", "g", "G", "h", "\u00df", "SS", "\u1e9e", "\u03c3", "\u03c2", "\u0130", "i", "I", " ", "", None)
STATES: Final = ("Owned", "Owned", "Assigning", "Releasing", "Splitting", "Free", "Deleted")


def isolation(rng: random.Random) -> dict[str, Any]:
    def some(regexes: tuple[str, ...], least: int) -> list[str]:
        return rng.choices(regexes, k=rng.randint(least, 2))

    return {
        "namespaces": some(NAMESPACE_REGEXES, 1),
        "primary": some(BROKER_REGEXES, 1),
        "secondary": some(BROKER_REGEXES, 0),
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": str(rng.randint(-1, 4)), "usage_threshold": str(rng.choice((0, 80, 100)))},
        },
    }


# ---- isolation policies ----


@dataclass
class PolicyCase:
    stored: dict[str, Any]
    recorded: bool
    brokers: dict[str, tuple[bool, bool]]
    namespace: str
    non_persistent: bool

    def kept(self) -> list[str]:
        policies, errors = IsolationPolicies.decode(self.stored if self.recorded else {})
        assert not errors
        cluster = Cluster(policies=ClusterPolicies(policies))
        for name, (persistent, non_persistent) in self.brokers.items():
            cluster.add(name)
            cluster.reports[name] = msgspec.structs.replace(
                cluster.reports[name],
                persistent_topics_enabled=persistent,
                non_persistent_topics_enabled=non_persistent,
            )
        snapshot = cluster.snapshot()
        request = PlacementRequest(bundle_name(0, self.namespace), self.non_persistent)
        return named(snapshot, policy_candidates(snapshot, request).kept)

    def document(self) -> dict[str, Any]:
        return {
            "policies": self.stored,
            "recorded": self.recorded,
            "brokers": self.brokers,
            "namespace": self.namespace,
            "nonPersistent": self.non_persistent,
        }


def named(snapshot: LoadSnapshot, flags: "np.ndarray[Any, np.dtype[np.bool_]]") -> list[str]:
    return [snapshot.brokers.names[row] for row in np.flatnonzero(flags)]


def draw_policies(rng: random.Random) -> PolicyCase:
    hosts = rng.sample(HOSTS, rng.randint(0, len(HOSTS)))
    names = rng.sample(("p", "q", "zz", "a1"), rng.randint(0, 3))
    return PolicyCase(
        stored={name: isolation(rng) for name in names},
        recorded=rng.random() < 0.95,
        brokers={f"{host}:{rng.choice((8080, 80))}": (rng.random() < 0.8, rng.random() < 0.5) for host in hosts},
        namespace=rng.choice(NAMESPACES),
        non_persistent=rng.random() < 0.3,
    )


def test_policies_allow_the_same_brokers_as_pulsars(complete_peer: PulsarPeer, cases: int, seed: int) -> None:
    """An IPv6 host keeps its brackets there; regexes that match it without them differ and are not drawn."""
    questions = drawn(random.Random(f"policies {seed}"), cases, draw_policies)
    narrowed, disagreements = 0, []
    for (number, case), (there, later) in complete_peer.ask(
        "Policies", "candidates", questions, lambda pair: pair[1].document()
    ):
        assert there == later
        narrowed += 0 < len(there) < len(case.brokers)
        if case.kept() != there:
            disagreements.append((number, case, there))
    print(f"{cases} cases, {narrowed} of them narrowed, {len(disagreements)} differ")
    assert disagreements == []
    assert narrowed > cases // 10


def draw_one(rng: random.Random) -> dict[str, Any]:
    """Draw a policy, mostly with something missing or odd."""
    policy = isolation(rng)
    failover = policy["auto_failover_policy"]
    odd: list[dict[str, Any]] = [
        {},
        {"namespaces": []},
        {"namespaces": None},
        {"primary": []},
        {"primary": None},
        {"primary": ["b1", "("]},
        {"secondary": ["b["]},
        {"secondary": ["*"]},
        {"auto_failover_policy": None},
        {"auto_failover_policy": {**failover, "policy_type": None}},
        {"auto_failover_policy": {**failover, "parameters": {"min_limit": "1"}}},
        {"auto_failover_policy": {**failover, "parameters": {"usage_threshold": "1"}}},
        {"unload_scope": rng.choice(("all_matching", "changed", "none", None))},
    ]
    limits = ("0", "+1", "-1", "1.5", "", "x", " 1", "2147483647", "2147483648", 2, 3)
    for key in ("min_limit", "usage_threshold"):
        parameters = {**failover["parameters"], key: rng.choice(limits)}
        odd.append({"auto_failover_policy": {**failover, "parameters": parameters}})
    return {**policy, **rng.choice(odd)}


def said(policy: dict[str, Any]) -> Any:
    """Return what Policies.java says of a policy, by ours."""
    try:
        checked = IsolationPolicy.of("p", isolation_data("p", policy))
    except PolicyError:
        return "refused"
    hosts = {host: [checked.is_primary(f"{host}:8080"), checked.is_secondary(f"{host}:8080")] for host in HOSTS}
    found = IsolationPolicies((checked,))
    covered = {namespace: found.of_namespace(namespace) is not None for namespace in NAMESPACES}
    return {**hosts, **covered, **{str(count): count < checked.min_limit for count in range(5)}}


def test_a_policy_is_accepted_or_refused_and_matches_as_pulsars(peer: PulsarPeer, cases: int, seed: int) -> None:
    questions = drawn(random.Random(f"one policy {seed}"), cases, draw_one)
    refused, disagreements = 0, []
    for (number, policy), there in peer.ask(
        "Policies",
        "policy",
        questions,
        lambda pair: {"policy": pair[1], "hosts": HOSTS, "namespaces": NAMESPACES},
    ):
        refused += there == "refused"
        if said(policy) != there:
            disagreements.append((number, policy, there))
    print(f"{cases} cases, {refused} refused, {len(disagreements)} differ")
    assert disagreements == []
    assert cases // 10 < refused < cases


# ---- anti-affinity groups and failure domains ----


@dataclass
class GroupCase:
    load: Cluster
    groups: dict[str, str | None]
    domains: dict[str, str]
    candidates: list[str]
    bundle: str
    failure_domains: bool
    states: dict[str, tuple[str, str]] | None = None

    @property
    def namespace(self) -> str:
        return self.bundle.rpartition("/")[0]

    @cached_property
    def snapshot(self) -> LoadSnapshot:
        keys = {name: key for name, group in self.groups.items() if (key := group_key(group)) is not None}
        made = replace(self.load.snapshot(), policies=ClusterPolicies(domains=self.domains, groups=keys))
        return made if self.states is None else replace(made, extensible=owned_by(made, self.states))

    def answer(self) -> list[Any]:
        snapshot = self.snapshot
        candidates = np.array([name in self.candidates for name in snapshot.brokers.names], bool)
        kept = candidates
        for step in anti_affinity(snapshot, candidates, self.namespace, failure_domains=self.failure_domains):
            kept = step.kept
        leaves = anti_affinity_veto(snapshot, candidates, self.namespace) is None
        return [named(snapshot, kept), dict.fromkeys(snapshot.brokers.names, leaves)]

    def document(self) -> dict[str, Any]:
        held = {
            name: sorted({*report.bundles, *self.load.preallocated.get(name, {})})
            for name, report in self.load.reports.items()
        }
        document: dict[str, Any] = {
            "configuration": {"failureDomainsEnabled": self.failure_domains},
            "groups": self.groups,
            "domains": self.domains,
            "candidates": self.candidates,
            "sources": list(self.load.reports),
            "bundle": self.bundle,
            "held": held,
        }
        return document if self.states is None else {**document, "states": self.states}


def owned_by(snapshot: LoadSnapshot, states: dict[str, tuple[str, str]]) -> ExtensibleLoad:
    """Return the flags of the bundles that the channel says are owned; nothing else of it counts here."""
    brokers, bundles = np.zeros(len(snapshot.brokers)), snapshot.bundles
    owned = [
        states[name] == (snapshot.brokers.names[owner], "Owned")
        for name, owner in zip(bundles.names, bundles.owner, strict=True)
    ]
    return ExtensibleLoad(
        weighted_max_ema=brokers,
        throughput_ema=brokers,
        max_usage=brokers,
        updated_at_ms=brokers.astype(np.int64),
        has_load=np.ones(len(brokers), bool),
        live=np.ones(len(brokers), bool),
        top=np.full(len(bundles), -1),
        owned=np.array(owned, bool),
    )


def draw_groups(rng: random.Random, *, extensible: bool) -> GroupCase:
    load, count = Cluster(), rng.randint(1, 8)
    brokers = [f"b{number}:8080" for number in rng.sample(range(20), count)]
    namespaces = [f"t/n{number}" for number in range(rng.randint(1, 8))]
    states: dict[str, tuple[str, str]] = {}
    density, free = rng.choice((1, 2, 5)), rng.sample(range(400), 400)
    for broker in brokers:
        names = [bundle_name(free.pop(), rng.choice(namespaces)) for _ in range(rng.randint(0, density))]
        load.add(broker, bundles=dict.fromkeys(names, NamespaceBundleStats()))
        if extensible:
            states.update({name: (broker, rng.choice(STATES)) for name in names})
        elif rng.random() < 0.3:
            arriving = [bundle_name(rng.randint(0, 400), rng.choice(namespaces)) for _ in range(2)]
            load.preallocated[broker] = {name: default_bundle_data() for name in arriving}
    chosen = rng.sample(GROUPS, 2)
    return GroupCase(
        load=load,
        groups={name: rng.choice((*chosen, *GROUPS[:3])) for name in namespaces if rng.random() < 0.9},
        domains={name: rng.choice(("d1", "d2", "default")) for name in brokers if rng.random() < 0.8}
        if rng.random() < 0.8
        else {},
        candidates=rng.sample(brokers, rng.choice((count, count, rng.randint(0, count)))),
        bundle=bundle_name(999, rng.choice(namespaces)),
        failure_domains=rng.random() < 0.6,
        states=states if extensible else None,
    )


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_anti_affinity_keeps_and_lets_go_as_pulsars(peer: PulsarPeer, cases: int, seed: int, manager: str) -> None:
    questions = drawn(
        random.Random(f"groups {manager} {seed}"),
        cases,
        lambda rng: draw_groups(rng, extensible=manager == "extensible"),
    )
    narrowed, vetoed, disagreements = 0, 0, []
    for (number, case), there in peer.ask("Policies", "antiAffinity", questions, lambda pair: pair[1].document()):
        narrowed += len(there[0]) < len(case.candidates)
        vetoed += not all(there[1].values())
        if case.answer() != there:
            disagreements.append((number, case, there))
    print(f"{cases} cases, {narrowed} narrowed, {vetoed} vetoed, {len(disagreements)} differ")
    assert disagreements == []
    assert narrowed > cases // 10
    assert vetoed > cases // 100


def draw_domains(rng: random.Random) -> dict[str, Any]:
    return {
        name: {"brokers": rng.sample(["b1:80", "b2:80", "b3:80", "b4:80"], rng.randint(0, 3))}
        for name in sorted(rng.sample(["d1", "d2", "d3", "default"], rng.randint(0, 4)))
    }


def test_brokers_are_in_the_same_failure_domains_as_pulsars(peer: PulsarPeer, cases: int, seed: int) -> None:
    """A broker in several domains, which REST refuses, is in the last by name."""
    questions = drawn(random.Random(f"domains {seed}"), cases, draw_domains)
    disagreements = []
    for (number, stored), there in peer.ask("Policies", "domains", questions, lambda pair: pair[1]):
        domains = {name: msgspec.convert(each, FailureDomain) for name, each in stored.items()}
        if domains_of_brokers(domains) != there:
            disagreements.append((number, stored, there))
    assert disagreements == []
