"""Clusters of the extensible load manager that has to choose a broker, and a slow, obvious version of the choice."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from pulsar_barycenter.load.filters.extensible_filters import ExtensibleFilterSettings
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.policies import ClusterPolicies, IsolationPolicies
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.load.snapshot.load_snapshot import ExtensibleLoad, LoadSnapshot
from support import policy_oracles
from support.load_cases import Cluster, bundle_name

EXTENSIBLE = ManagerKind.EXTENSIBLE.class_name
PLACES = ("t/a", "t/b", "t/c")


@dataclass
class ExtensibleCluster:
    """`ema` is the usage that each broker reports; a broker without it reports nothing. `gone` brokers are no longer
    registered. Other brokers than the reporting ones own the bundles in `unowned`."""

    cluster: Cluster = field(default_factory=Cluster)
    ema: dict[str, float] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    unowned: set[str] = field(default_factory=set)
    isolation: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)

    def add(
        self,
        broker: str,
        ema: float | None = None,
        *,
        topics: int = 0,
        bundles: Mapping[str, NamespaceBundleStats] | None = None,
        version: str | None = "4.0.0",
        class_name: str | None = EXTENSIBLE,
        persistent: bool = True,
    ) -> "ExtensibleCluster":
        held = bundles or {bundle_name(0, f"of/{broker.partition(':')[0]}"): NamespaceBundleStats(topics=topics)}
        self.cluster.add(broker, bundles=held, version=version)
        self.cluster.reports[broker] = msgspec.structs.replace(
            self.cluster.reports[broker], load_manager_class_name=class_name, persistent_topics_enabled=persistent
        )
        if ema is not None:
            self.ema[broker] = ema
        return self

    def snapshot(self) -> LoadSnapshot:
        plain = self.cluster.snapshot()
        names, bundles = plain.brokers.names, plain.bundles.names
        columns = ExtensibleLoad(
            weighted_max_ema=np.array([self.ema.get(name, 0.0) for name in names], float),
            throughput_ema=np.zeros(len(names)),
            max_usage=np.zeros(len(names)),
            updated_at_ms=np.zeros(len(names), np.int64),
            has_load=np.array([name in self.ema for name in names], bool),
            live=np.array([name not in self.gone for name in names], bool),
            top=np.full(len(bundles), -1, np.int64),
            owned=np.array([name not in self.unowned for name in bundles], bool),
        )
        isolation, errors = IsolationPolicies.decode(self.isolation)
        assert not errors
        policies = ClusterPolicies(isolation, self.domains, self.groups)
        return replace(plain, extensible=columns, policies=policies)


def policy(namespaces: str, primary: str, secondary: str = "", least: int = 1) -> dict[str, Any]:
    """Return an isolation policy in its stored form."""
    return {
        "namespaces": [namespaces],
        "primary": [primary],
        "secondary": [secondary] if secondary else [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": str(least), "usage_threshold": "100"},
        },
    }


# ---- once more, slow and obvious ----


def least_usage(candidates: Collection[str], ema: Mapping[str, float], difference: float) -> set[str]:
    """Return every broker that the placement may draw."""
    known = [broker for broker in sorted(candidates) if broker in ema]
    total = 0.0
    for broker in known:
        total += ema[broker]
    best = {broker for broker in known if ema[broker] + difference <= total / len(known)}
    return best or set(candidates)


def version_numbers(text: str | None) -> tuple[int, ...] | None:
    """Return the numbers of a version without its pre-release part; None if it is not a version."""
    parts = (text or "").split(".")
    return tuple(map(int, parts)) if len(parts) == 3 and all(part.isdigit() for part in parts) else None


def group_bundles(case: ExtensibleCluster, namespace: str) -> dict[str, int] | None:
    """Return the number of bundles of the group that each broker owns; None without a group."""
    if namespace not in case.groups:
        return None
    counts: dict[str, int] = {}
    for broker, report in case.cluster.reports.items():
        for bundle in report.last_stats:
            if bundle not in case.unowned and case.groups.get(bundle.rpartition("/")[0]) == case.groups[namespace]:
                counts[broker] = counts.get(broker, 0) + 1
    return counts


def narrowed(
    case: ExtensibleCluster,
    settings: ExtensibleFilterSettings,
    namespace: str,
    among: set[str],
    *,
    non_persistent: bool = False,
) -> tuple[set[str], bool]:
    """Return the brokers that the filters keep, and whether a filter could not decide."""
    reports, failed = case.cluster.reports, False
    left = {name for name in among if reports[name].load_manager_class_name == settings.load_manager_class_name}
    left = {name for name in left if not reports[name].num_topics >= settings.max_topics}
    if settings.prefer_later_versions and left:
        versions = {name: version_numbers(reports[name].broker_version_string) for name in left}
        numbers = [found for found in versions.values() if found is not None]
        if len(numbers) < len(left):
            failed = True
        else:
            left = {name for name in left if versions[name] == max(numbers)}
    counts = group_bundles(case, namespace)
    left = policy_oracles.keep_fewest(counts, left, case.domains, failure_domains=settings.failure_domains)
    rest = Cluster({name: reports[name] for name in left})
    return policy_oracles.candidates(rest, case.isolation, namespace, non_persistent=non_persistent), failed


def transferable(
    case: ExtensibleCluster, settings: ExtensibleFilterSettings, namespace: str, source: str, to: str | None
) -> bool:
    bound = policy_oracles.policy_of(case.isolation, namespace) is not None or namespace in case.groups
    if bound and not settings.move_with_policies:
        return False
    left, failed = narrowed(case, settings, namespace, set(case.cluster.reports) - case.gone)
    if failed or (to is not None and to not in left):
        return False
    left.discard(source)
    return bool(left) if to is None or not settings.transfer else to in left


# ---- drawn ----

usages = st.sampled_from([0.0, 0.1, 0.3, 0.4, 0.5, 0.8, 1.0]) | st.floats(0, 1.5)
difference_settings = st.sampled_from([0.0, 0.1, 0.3])
selection_settings = st.builds(
    ExtensibleFilterSettings,
    max_topics=st.sampled_from([10, 10, 10, 1]),
    prefer_later_versions=st.sampled_from([False, False, True]),
    failure_domains=st.booleans(),
    transfer=st.booleans(),
    move_with_policies=st.booleans(),
)
isolations = st.sampled_from(
    [
        {},
        {},
        {"p": policy("t/a", "b[01]", "b[23]", 2)},
        {"p": policy("t/.*", "b[0-2]", "b.*")},
        {"p": policy("t/a", "b0"), "q": policy("t/b", "b[1-3]", "b[45]", 3)},
    ]
)


# made once: to make and check a strategy takes longer than to draw from it
_GROUPS = st.dictionaries(st.sampled_from(PLACES), st.sampled_from("ggh"), max_size=3)
_DOMAINS = st.dictionaries(st.sampled_from([f"b{at}:8080" for at in range(6)]), st.sampled_from(["d1", "d2"]))
_NUMBERS = st.lists(st.integers(0, 5), unique=True, max_size=6)
_KEYS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(PLACES)), unique=True, max_size=3)
_USAGES = st.none() | usages
_TOPICS_OF_BUNDLES = st.sampled_from([0, 1, 1, 9])
_TOPICS = st.sampled_from([0, 0, 9, 10, 11])
_VERSIONS = st.sampled_from(["4.0.0", "4.1.0", "4.1.0", "4.2.0", "4.2.0", "weird", None])
_CLASSES = st.sampled_from([EXTENSIBLE, EXTENSIBLE, EXTENSIBLE, ManagerKind.MODULAR.class_name, None])
_PERSISTENT = st.sampled_from([True, True, True, False])


@st.composite
def extensible_clusters(draw: st.DrawFn) -> ExtensibleCluster:
    """Draw up to six brokers that differ in everything that a filter reads."""
    case = ExtensibleCluster(
        isolation=draw(isolations),
        groups=draw(_GROUPS),
        domains=draw(_DOMAINS),
    )
    for number in draw(_NUMBERS):
        broker = f"b{number}:8080"
        keys = draw(_KEYS)
        case.add(
            broker,
            draw(_USAGES),
            bundles={bundle_name(*key): NamespaceBundleStats(topics=draw(_TOPICS_OF_BUNDLES)) for key in keys},
            topics=draw(_TOPICS),
            version=draw(_VERSIONS),
            class_name=draw(_CLASSES),
            persistent=draw(_PERSISTENT),
        )
        if draw(st.integers(0, 5)) == 0:
            case.gone.add(broker)
        case.unowned.update(bundle_name(*key) for key in keys if draw(st.integers(0, 4)) == 0)
    return case
