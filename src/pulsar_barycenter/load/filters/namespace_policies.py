"""Which brokers the policies of a namespace allow: the candidates that every selection starts from.

| the namespace           | candidates                                                                           |
|-------------------------|--------------------------------------------------------------------------------------|
| has an isolation policy | its primary brokers; while fewer than `min_limit` of them live, the secondary ones too |
| has none                | brokers that are primary in no policy and enable the kind of topics in the bundle    |

A drained broker is a candidate only if there is no other one. With an isolation policy it does not count as live, so
that secondary brokers take its place. If policies allow only drained brokers, these serve the namespace all the same.

With an isolation policy, the kinds of topics that brokers enable do not matter. Without any policies only the kind
counts: non-persistent if the bundle has such topics, else persistent. A broker id without a port matches no policy, and
such a broker is removed as soon as there are policies.

Source: Pulsar's `LoadManagerShared.applyNamespacePolicies`, `SimpleResourceAllocationPolicies`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import msgspec
import numpy as np

from pulsar_barycenter.load.filters.outcome import FilterOutcome, PlacementRequest, narrowed
from pulsar_barycenter.load.policies import DRAINED_KEY, BrokerHosts, IsolationPolicies, IsolationPolicy, host_of_broker
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.snapshot.drained import drained_rows
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot

ISOLATION_SETTING = "namespaceIsolationPolicies"
ONLY_DRAINED = "only drained brokers may serve it, so a drained broker is used"


@dataclass(frozen=True, eq=False)
class IsolationColumns:
    """Which brokers the isolation policies match, as one flag per broker. The regexes of a policy are matched with the
    brokers only when the policy is first asked for.
    """

    brokers: tuple[str, ...]
    isolation: IsolationPolicies

    def of(self, policy: IsolationPolicy) -> tuple[Flags, Flags]:
        """Return two flags per broker: whether a regex for primary brokers of the policy matches it; and whether only a
        regex for secondary brokers matches it.
        """
        found = self._found.get(policy.name)
        if found is None:
            primary = self._matching(policy.primary)
            found = self._found[policy.name] = primary, self._matching(policy.secondary) & ~primary
        return found

    @cached_property
    def _found(self) -> dict[str, tuple[Flags, Flags]]:
        return {}

    @cached_property
    def shared(self) -> Flags:
        """One flag per broker, set if the broker is primary in no isolation policy."""
        return ~self._matching(self.isolation.primary)

    @cached_property
    def without_port(self) -> Flags:
        nameless = (host_of_broker(broker) is None for broker in self.brokers)
        return np.fromiter(nameless, bool, len(self.brokers))

    @cached_property
    def _hosts(self) -> BrokerHosts:
        return self.isolation.hosts(self.brokers)

    def _matching(self, regexes: Iterable[str]) -> Flags:
        flags = np.zeros(len(self.brokers), bool)
        flags[list(self._hosts.matching(regexes))] = True
        return flags


@lru_cache(maxsize=4)
def _isolation_columns(brokers: tuple[str, ...], isolation: IsolationPolicies) -> IsolationColumns:
    return IsolationColumns(brokers, isolation)


def isolation_columns(snapshot: LoadSnapshot) -> IsolationColumns:
    """Return which brokers of a snapshot the isolation policies match. The result is cached as long as brokers and
    policies are the same, because matching is expensive.
    """
    memo, isolation = snapshot.brokers.memo, snapshot.policies.isolation
    found: IsolationColumns | None = memo.get(("isolation columns", None))
    if found is None or found.isolation is not isolation:
        found = memo["isolation columns", None] = _isolation_columns(snapshot.brokers.names, isolation)
    return found


def policy_candidates(snapshot: LoadSnapshot, request: PlacementRequest, among: Flags | None = None) -> FilterOutcome:
    """Return which live brokers may serve the bundle of `request`, by the isolation policy of its namespace; without a
    policy, by the kind of its topics as well. Drained brokers are among them only if there is no other such broker.

    With `among`, only the brokers that it flags count as live, and drained brokers are treated as all others, because
    the caller has already removed those that must not be used.
    """
    isolation = snapshot.policies.isolation
    policy = isolation.of_namespace(request.namespace)
    if policy is not None or among is not None:
        return _candidates(snapshot, request, policy, among)
    memo, key = snapshot.brokers.memo, ("without policy", request.non_persistent)
    found: tuple[IsolationPolicies, frozenset[str], FilterOutcome] | None = memo.get(key)
    if found is None or found[0] is not isolation or found[1] != snapshot.policies.drained:
        outcome = _candidates(snapshot, request, None, None)
        found = memo[key] = isolation, snapshot.policies.drained, outcome
    return found[2]


def _candidates(
    snapshot: LoadSnapshot, request: PlacementRequest, policy: IsolationPolicy | None, among: Flags | None
) -> FilterOutcome:
    def judged(live: Flags) -> FilterOutcome:
        if policy is None:
            return _without_policy(snapshot, request, live)
        return _of_policy(isolation_columns(snapshot), policy, request.namespace, live)

    if among is not None:
        return judged(among)
    everyone, drained = snapshot.brokers.everyone, drained_rows(snapshot)
    return judged(everyone) if drained is None else sparing(everyone, drained, judged)


def sparing(live: Flags, drained: Flags, judge: Callable[[Flags], FilterOutcome]) -> FilterOutcome:
    """Return the result of a filter for the live brokers that are not drained; `judge` is the filter: a function from
    flags of brokers to an outcome.

    If the filter keeps none of them, return its outcome for all live brokers, the drained ones included, with a note
    about this.
    """
    found = judge(live & ~drained)
    if found.left:
        return narrowed(
            among=live,
            kept=found.kept,
            code=found.code,
            settings=(DRAINED_KEY, *found.settings),
            codes=((live & drained, Code.DRAINED), *found.codes),
            note=found.note,
        )
    found = judge(live)
    if not found.left:
        return found
    return msgspec.structs.replace(found, note="; ".join(filter(None, (ONLY_DRAINED, found.note))))


def _without_policy(snapshot: LoadSnapshot, request: PlacementRequest, live: Flags) -> FilterOutcome:
    enabled = snapshot.brokers.non_persistent if request.non_persistent else snapshot.brokers.persistent
    kind = narrowed(
        live,
        live & enabled,
        Code.TOPIC_KIND_DISABLED,
        ("enableNonPersistentTopics" if request.non_persistent else "enablePersistentTopics",),
    )
    isolation = snapshot.policies.isolation
    return kind if not isolation else _shared(isolation_columns(snapshot), kind)


def _of_policy(columns: IsolationColumns, policy: IsolationPolicy, namespace: str, live: Flags) -> FilterOutcome:
    primary, secondary = columns.of(policy)
    primary, secondary = live & primary, live & secondary
    count = int(np.count_nonzero(primary))
    fails_over = count < policy.min_limit
    note = f"isolation policy {policy.name} applies to {namespace}, live primary brokers {count}"
    if fails_over:
        note += f" < min_limit {policy.min_limit}, so secondary brokers are used as well"
    return narrowed(
        among=live,
        kept=primary | secondary if fails_over else primary,
        code=Code.NOT_IN_ISOLATION_POLICY,
        settings=(ISOLATION_SETTING,),
        codes=((columns.without_port, Code.ID_WITHOUT_PORT), (secondary, Code.SECONDARY_IN_RESERVE)),
        note=note,
    )


def _shared(columns: IsolationColumns, kind: FilterOutcome) -> FilterOutcome:
    """Return the outcome for a namespace without isolation policy: it removes from the brokers of `kind` those that are
    primary in a policy of other namespaces, and those whose id has no port.

    `kind` is the outcome of the filter before, which kept the brokers that serve this kind of topics (persistent or
    non-persistent).
    """
    others, nameless = kind.kept & ~columns.shared, kind.kept & columns.without_port
    gone = others | nameless
    return narrowed(
        among=kind.among,
        kept=kind.kept & ~gone,
        code=kind.code,
        settings=(ISOLATION_SETTING, *kind.settings) if gone.any() else kind.settings,
        codes=((nameless, Code.ID_WITHOUT_PORT), (others, Code.KEPT_FOR_OTHERS)),
    )
