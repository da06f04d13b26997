"""Which brokers the policies of a namespace allow: the candidates that every selection starts from.

| the namespace           | candidates                                                                           |
|-------------------------|--------------------------------------------------------------------------------------|
| has an isolation policy | its primary brokers; while fewer than `min_limit` of them live, the secondary ones too |
| has none                | brokers that are primary in no policy and enable the kind of topics the bundle holds |

A policy does not look at the kind of topics. Without policies at all only the kind counts: non-persistent topics if
the bundle holds any, else persistent ones. A broker id without a port fits no policy and is left out once there are
any.

Source: Pulsar's `LoadManagerShared.applyNamespacePolicies`, `SimpleResourceAllocationPolicies`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from barycenter.load.filters.outcome import FilterOutcome, PlacementRequest
from barycenter.load.policies import IsolationPolicies, IsolationPolicy, host_of_broker
from barycenter.load.reasons import Code
from barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

ISOLATION_SETTING = "namespaceIsolationPolicies"


@dataclass(frozen=True, slots=True, eq=False)
class IsolationColumns:
    """What each policy, by its name, says of each broker. `shared` brokers are primary in none of them."""

    primary: Mapping[str, Flags]
    secondary: Mapping[str, Flags]
    shared: Flags
    has_port: Flags


@lru_cache(maxsize=4)
def isolation_columns(brokers: tuple[str, ...], isolation: IsolationPolicies) -> IsolationColumns:
    """Match all brokers with all policies; remembered, so that each snapshot costs this once."""
    primary = {
        policy.name: np.array([policy.is_primary(broker) for broker in brokers], bool) for policy in isolation.policies
    }
    secondary = {
        policy.name: np.array([policy.is_secondary(broker) for broker in brokers], bool)
        for policy in isolation.policies
    }
    somewhere = np.logical_or.reduce([np.zeros(len(brokers), bool), *primary.values()])
    has_port = np.array([host_of_broker(broker) is not None for broker in brokers], bool)
    return IsolationColumns(primary, secondary, ~somewhere, has_port)


def policy_candidates(snapshot: LoadSnapshot, request: PlacementRequest, among: Flags | None = None) -> FilterOutcome:
    """Return which live brokers, or which `among` them, may serve the bundle; only those `among` count as live."""
    live = np.ones(len(snapshot.brokers), bool) if among is None else among
    isolation = snapshot.policies.isolation
    policy = isolation.of_namespace(request.namespace)
    if policy is not None:
        return _of_policy(isolation_columns(snapshot.brokers.names, isolation), policy, request.namespace, live)
    enabled = snapshot.brokers.non_persistent if request.non_persistent else snapshot.brokers.persistent
    kind = FilterOutcome(
        live & enabled,
        live & ~enabled,
        Code.TOPIC_KIND_DISABLED,
        ("enableNonPersistentTopics" if request.non_persistent else "enablePersistentTopics",),
    )
    return kind if not isolation else _shared(isolation_columns(snapshot.brokers.names, isolation), kind)


def _of_policy(columns: IsolationColumns, policy: IsolationPolicy, namespace: str, live: Flags) -> FilterOutcome:
    primary = live & columns.primary[policy.name]
    secondary = live & columns.secondary[policy.name] & ~primary
    count = int(primary.sum())
    fails_over = count < policy.min_limit
    note = f"{namespace} has isolation policy {policy.name}, {count} of whose primary brokers live"
    if fails_over:
        note += f", fewer than min_limit {policy.min_limit}, so the secondary ones help out"
    return FilterOutcome(
        kept=primary | secondary if fails_over else primary,
        removed=live & ~primary & ~(secondary & fails_over),
        code=Code.NOT_IN_ISOLATION_POLICY,
        settings=(ISOLATION_SETTING,),
        codes=((live & ~columns.has_port, Code.ID_WITHOUT_PORT), (secondary, Code.SECONDARY_IN_RESERVE)),
        note=note,
    )


def _shared(columns: IsolationColumns, kind: FilterOutcome) -> FilterOutcome:
    """Return what remains of the brokers of the right kind for a namespace that no policy is for."""
    others = kind.kept & ~columns.shared
    nameless = kind.kept & ~columns.has_port
    gone = others | nameless
    return FilterOutcome(
        kept=kind.kept & ~gone,
        removed=kind.removed | gone,
        code=kind.code,
        settings=(ISOLATION_SETTING, *kind.settings) if gone.any() else kind.settings,
        codes=((nameless, Code.ID_WITHOUT_PORT), (others, Code.KEPT_FOR_OTHERS)),
    )
