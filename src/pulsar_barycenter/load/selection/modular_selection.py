"""Which broker owns a bundle, as the modular load manager chooses it: policies, filters, then the placement strategy.

    policies ▸ maximum topics ▸ anti-affinity ▸ even distribution ▸ load manager class ▸ version ▸ placement
    ▸ second choice

Each filter narrows the candidates of the one before. If no candidate is left, all brokers that the policies allow come
back. If the chosen broker is overloaded, the strategy chooses once more, among all brokers that the policies allow.

Source: Pulsar's `ModularLoadManagerImpl.selectBroker` (4.x).
"""

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import msgspec

from pulsar_barycenter.load.decisions import OVERLOAD_KEY, Placement
from pulsar_barycenter.load.filters.anti_affinity import anti_affinity
from pulsar_barycenter.load.filters.broker_version import broker_version
from pulsar_barycenter.load.filters.even_distribution import even_distribution
from pulsar_barycenter.load.filters.load_manager_class import load_manager_class
from pulsar_barycenter.load.filters.max_topics import max_topics
from pulsar_barycenter.load.filters.namespace_policies import policy_candidates
from pulsar_barycenter.load.filters.outcome import FilterFailedError, FilterOutcome, PlacementRequest
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.placement.placer import PlacementChoice, Placer
from pulsar_barycenter.load.placement.round_robin_broker_selector import RoundRobinBrokerSelector, RoundRobinMemory
from pulsar_barycenter.load.reasons import Code, Compared, Reason
from pulsar_barycenter.load.reports.load_report import DEFAULT_WEIGHTS, ResourceWeights
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.load.selection.selection_reason import explained
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, LoadSnapshot
from pulsar_barycenter.load.strategy import NOTHING_REMEMBERED, Remembered
from pulsar_barycenter.naming.namespace import SYSTEM_NAMESPACE

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

_Memory = TypeVar("_Memory")

_SYSTEM: Final = str(SYSTEM_NAMESPACE)
_IN_TURN: Final = RoundRobinBrokerSelector()


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """The settings by which the modular load manager chooses an owner. `overload_limit` is a usage as a fraction."""

    load_manager_class_name: str
    max_topics: int = 50_000
    distribute_evenly: bool = True
    prefer_later_versions: bool = False
    failure_domains: bool = False
    excluded_namespaces: Collection[str] = ()
    overload_limit: float = 0.85
    weights: ResourceWeights = DEFAULT_WEIGHTS

    @staticmethod
    def of(config: "BrokerConfig") -> "SelectionSettings":
        return SelectionSettings(
            load_manager_class_name=ManagerKind.MODULAR.class_name,
            max_topics=config.load_balancer_broker_max_topics,
            distribute_evenly=config.load_balancer_distribute_bundles_evenly_enabled,
            prefer_later_versions=config.prefer_later_versions,
            failure_domains=config.failure_domains_enabled,
            excluded_namespaces=frozenset(config.load_balancer_shedding_excluded_namespaces),
            overload_limit=config.load_balancer_broker_overloaded_threshold_percentage / 100.0,
            weights=resource_weights(config),
        )


class SelectionMemory(msgspec.Struct, frozen=True):
    """What is carried from one choice of an owner to the next: the memory of the placement strategy, and that of the
    choice of brokers in turn (`next_in_turn`).
    """

    placement: Remembered = NOTHING_REMEMBERED
    round_robin: RoundRobinMemory = msgspec.field(default_factory=RoundRobinMemory)

    def updated(self, placer: Placer[_Memory], change: Callable[[Placer[_Memory], _Memory], _Memory]) -> Self:
        """Return the memories after the function `change` was applied to the memory of `placer`."""
        after = self.placement.then(placer, change(placer, self.placement.of(placer)))
        return self if after is self.placement else msgspec.structs.replace(self, placement=after)


def select_broker(
    snapshot: LoadSnapshot,
    request: PlacementRequest,
    settings: SelectionSettings,
    placer: Placer[Any],
    rng: random.Random,
    memory: SelectionMemory,
) -> tuple[Placement, SelectionMemory]:
    """Return the owner that the modular load manager chooses for the bundle, with the reason, and the memory for the
    next choice. The caller then records that the bundle is on its way to that broker.
    """
    policies = policy_candidates(snapshot, request)
    outcomes, notes, left = _narrowed(snapshot, request, settings, policies)
    chosen_by = next_in_turn if request.namespace in settings.excluded_namespaces else choose
    if not left and policies.left:
        notes.append("no broker passed the filters, so the filters were ignored")
        outcomes = [policies]
    choice, memory = chosen_by(snapshot, outcomes[-1].kept, request, placer, rng, memory)
    overload: Compared | None = None
    if choice.broker is not None:
        usage = float(snapshot.brokers.weighted_usage(settings.weights)[choice.broker])
        if usage > settings.overload_limit:
            what = f"usage of {snapshot.brokers.names[choice.broker]}"
            outcomes = [policies]
            overload = Compared(what, usage, ">", "overload limit", settings.overload_limit, "%")
            again, memory = choose(snapshot, policies.kept, request, placer, rng, memory)
            choice = choice if again.broker is None else again
    placement = explained(snapshot, request.bundle, choice, outcomes, notes)
    return (placement if overload is None else _chosen_again(placement, overload)), memory


def choose(
    snapshot: LoadSnapshot,
    candidates: Flags,
    request: PlacementRequest,
    placer: Placer[Any],
    rng: random.Random,
    memory: SelectionMemory,
) -> tuple[PlacementChoice, SelectionMemory]:
    """Return the placement strategy's choice among the brokers `candidates`, and the memory for the next choice."""
    before = memory.placement
    choice, placement = placer.decide(snapshot, candidates, request.bundle, rng, before.of(placer))
    after = before.then(placer, placement)
    return choice, memory if after is before else SelectionMemory(after, memory.round_robin)


def next_in_turn(
    snapshot: LoadSnapshot,
    candidates: Flags,
    request: PlacementRequest,
    placer: Placer[Any],
    rng: random.Random,
    memory: SelectionMemory,
) -> tuple[PlacementChoice, SelectionMemory]:
    """Return the next one of `candidates` in a fixed order, and the memory for the next choice. This is for bundles of
    namespaces that are excluded from shedding; the placement strategy `placer` is not used.
    """
    choice, round_robin = _IN_TURN.decide(snapshot, candidates, request.bundle, rng, memory.round_robin)
    return choice, SelectionMemory(memory.placement, round_robin)


def _narrowed(
    snapshot: LoadSnapshot, request: PlacementRequest, settings: SelectionSettings, policies: FilterOutcome
) -> tuple[list[FilterOutcome], list[str], int]:
    """Return the outcome of each filter that was applied, beginning with `policies`; notes on filters that failed or
    were ignored; and the number of brokers that remain.
    """
    outcomes, notes = [policies, max_topics(snapshot, policies.kept, settings.max_topics)], []
    if policies.note:
        notes.append(policies.note)
    if outcomes[-1].ignored:
        notes.append(f"all candidates exceed {outcomes[-1].settings[0]}, so this limit was ignored")
    candidates = outcomes[-1].kept
    outcomes += anti_affinity(snapshot, candidates, request.namespace, failure_domains=settings.failure_domains)
    if settings.distribute_evenly or request.namespace == _SYSTEM:
        outcomes.append(even_distribution(snapshot, outcomes[-1].kept, request.namespace))
    outcomes.append(load_manager_class(snapshot, outcomes[-1].kept, settings.load_manager_class_name))
    if settings.prefer_later_versions:
        try:
            outcomes.append(broker_version(snapshot, outcomes[-1].kept))
        except FilterFailedError as error:
            notes.append(f"versions could not be compared, so the filters were ignored: {error}")
            outcomes = [policies]
    left = policies.left
    for outcome in outcomes:
        if outcome is not policies:
            left -= outcome.gone
    return outcomes, notes, left


def _chosen_again(placement: Placement, overload: Compared) -> Placement:
    def why() -> Reason:
        reason = placement.reason
        cause = msgspec.structs.replace(reason, subject="")
        subject, settings = reason.subject, (OVERLOAD_KEY,)
        return Reason(code=Code.CHOSEN_AGAIN, subject=subject, compared=(overload,), settings=settings, cause=cause)

    return Placement(placement.bundle, placement.broker, why)
