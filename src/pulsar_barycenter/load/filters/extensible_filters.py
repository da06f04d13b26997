"""The filters of the extensible load manager, in order, and the transfers that they allow.

    live brokers ▸ load manager class ▸ maximum topics ▸ version ▸ anti-affinity ▸ isolation

Each filter narrows the candidates of the one before. Unlike with the modular load manager, no broker comes back: a
filter that fails leaves the candidates as they are, and if no candidate is left, no broker is chosen. For a namespace
with an isolation policy, the kinds of topics that brokers enable do not matter.

Drained brokers are not candidates. If no other broker is left, all filters run once more with the drained ones.

Source: Pulsar's `ExtensibleLoadManagerImpl.selectAsync`, `TransferShedder.isTransferable` (4.x). Where we differ:
brokers that run the same load manager may name its class in short.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from pulsar_barycenter.load.filters.anti_affinity import anti_affinity
from pulsar_barycenter.load.filters.broker_version import broker_version
from pulsar_barycenter.load.filters.load_manager_class import load_manager_class
from pulsar_barycenter.load.filters.max_topics import below_max_topics
from pulsar_barycenter.load.filters.namespace_policies import ONLY_DRAINED, policy_candidates
from pulsar_barycenter.load.filters.outcome import FilterFailedError, FilterOutcome, PlacementRequest, narrowed
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.policies import DRAINED_KEY
from pulsar_barycenter.load.reasons import Code
from pulsar_barycenter.load.snapshot.drained import drained_rows
from pulsar_barycenter.load.snapshot.load_snapshot import Flags, Integers, LoadSnapshot

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

_Filter = Callable[[Flags], Sequence[FilterOutcome]]
"""Returns the outcomes for candidates; the last one counts."""


@dataclass(frozen=True, slots=True)
class ExtensibleFilterSettings:
    """The settings of the filters of the extensible load manager.

    `transfer`: the load manager transfers unloaded bundles, so the shedder chooses a destination for each; False: it
    only unloads them, and the next lookup chooses the broker. `move_with_policies`: bundles may move even if their
    namespace has an isolation policy or an anti-affinity group.
    """

    load_manager_class_name: str = ManagerKind.EXTENSIBLE.class_name
    max_topics: int = 50_000
    prefer_later_versions: bool = False
    failure_domains: bool = False
    excluded_namespaces: Collection[str] = ()
    transfer: bool = True
    move_with_policies: bool = False

    @staticmethod
    def of(config: "BrokerConfig") -> "ExtensibleFilterSettings":
        return ExtensibleFilterSettings(
            max_topics=config.load_balancer_broker_max_topics,
            prefer_later_versions=config.prefer_later_versions,
            failure_domains=config.failure_domains_enabled,
            excluded_namespaces=frozenset(config.load_balancer_shedding_excluded_namespaces),
            transfer=config.load_balancer_transfer_enabled,
            move_with_policies=config.load_balancer_shedding_bundles_with_policies_enabled,
        )


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The result of all filters: the candidates that they kept, the outcome of each filter, and the reason of each
    filter that failed.
    """

    candidates: Flags
    outcomes: tuple[FilterOutcome, ...]
    failures: tuple[str, ...]


def narrow(
    snapshot: LoadSnapshot, request: PlacementRequest, settings: ExtensibleFilterSettings, candidates: Flags
) -> Narrowed:
    """Return which of `candidates` may own the bundle of `request`. The filters first examine the candidates that are
    not drained; if none of these remains, they examine all candidates, the drained ones included.
    """
    drained = drained_rows(snapshot)
    if drained is None or not (candidates & drained).any():
        return _narrowed(snapshot, request, settings, candidates)
    spared = narrowed(candidates, candidates & ~drained, Code.DRAINED, (DRAINED_KEY,))
    found = _narrowed(snapshot, request, settings, spared.kept)
    if found.candidates.any():
        return replace(found, outcomes=(spared, *found.outcomes))
    found = _narrowed(snapshot, request, settings, candidates)
    if not found.candidates.any():
        return found
    noted = narrowed(candidates, candidates, Code.DRAINED, (DRAINED_KEY,), note=ONLY_DRAINED)
    return replace(found, outcomes=(noted, *found.outcomes))


def _narrowed(
    snapshot: LoadSnapshot, request: PlacementRequest, settings: ExtensibleFilterSettings, candidates: Flags
) -> Narrowed:
    outcomes: list[FilterOutcome] = []
    failures: list[str] = []
    for judge in _filters(snapshot, request, settings):
        try:
            found = judge(candidates)
        except FilterFailedError as error:
            failures.append(str(error))
            continue
        outcomes.extend(found)
        candidates = found[-1].kept if found else candidates
    return Narrowed(candidates, tuple(outcomes), tuple(failures))


def _filters(
    snapshot: LoadSnapshot, request: PlacementRequest, settings: ExtensibleFilterSettings
) -> Iterator[_Filter]:
    yield lambda among: [load_manager_class(snapshot, among, settings.load_manager_class_name)]
    yield lambda among: [below_max_topics(snapshot, among, settings.max_topics)]
    if settings.prefer_later_versions:
        yield lambda among: [broker_version(snapshot, among)] if among.any() else []
    yield lambda among: anti_affinity(snapshot, among, request.namespace, failure_domains=settings.failure_domains)
    yield lambda among: [policy_candidates(snapshot, request, among)]


_Kind: TypeAlias = tuple[str | None, str | None]
"""The isolation policy and the anti-affinity group of a namespace."""

_FREE: Final[_Kind] = (None, None)


class AllowedTransfers:
    """Answers which transfers of bundles the filters allow in one snapshot: call the object with the rows of the
    bundles, their broker, and the destination.

    The result of the filters depends only on the isolation policy and the anti-affinity group of a namespace, so they
    run once for each pair of policy and group.
    """

    def __init__(self, snapshot: LoadSnapshot, settings: ExtensibleFilterSettings) -> None:
        self._snapshot, self._settings = snapshot, settings
        self._are_free = not snapshot.policies.isolation and not snapshot.policies.groups
        self._kinds: dict[int, _Kind] = {}
        self._left: dict[_Kind, list[bool]] = {}

    def __call__(self, bundles: Integers, source: int, destination: int | None) -> list[bool]:
        """Return for each bundle in `bundles` whether it may leave `source`: to `destination`, or to any broker if
        `destination` is None.

        Bundles and brokers are row numbers in the snapshot.

        A bundle may leave if no filter fails and all filters keep the destination. If there is no destination, or if
        bundles are only unloaded and not transferred, it is enough that the filters keep at least one broker other than
        `source`. Every bundle is treated as one with persistent topics: Pulsar's check also knows only the name of the
        bundle and not its topics.
        """
        if not len(bundles):
            return []
        if self._are_free:
            return [self._allows(_FREE, int(bundles[0]), source, destination)] * len(bundles)
        kinds = [self._kind(namespace) for namespace in self._snapshot.bundles.namespace[bundles].tolist()]
        one_of = dict(zip(kinds, bundles.tolist(), strict=True))
        allowed = {kind: self._allows(kind, row, source, destination) for kind, row in one_of.items()}
        return [allowed[kind] for kind in kinds]

    def _kind(self, namespace: int) -> _Kind:
        found = self._kinds.get(namespace)
        if found is None:
            name, policies = self._snapshot.namespaces[namespace], self._snapshot.policies
            policy = policies.isolation.of_namespace(name)
            found = self._kinds[namespace] = None if policy is None else policy.name, policies.groups.get(name)
        return found

    def _allows(self, kind: _Kind, bundle: int, source: int, destination: int | None) -> bool:
        """Return whether bundles of `kind` (a pair of isolation policy and anti-affinity group) may leave `source` for
        `destination`; `destination` None: for any other broker. `bundle` is the row of any bundle of this kind.
        """
        left = self._left.get(kind)
        if left is None:
            left = self._left[kind] = self._left_by_filters(kind, bundle)
        if destination is not None and not left[destination]:
            return False
        if destination is None or not self._settings.transfer:
            return left.count(True) > left[source]
        return destination != source

    def _left_by_filters(self, kind: _Kind, bundle: int) -> list[bool]:
        """Return one flag per broker: whether the filters let the broker take bundles of `kind`. If a filter fails, no
        flag is set. `bundle` is the row of any bundle of this kind.
        """
        if kind == _FREE or self._settings.move_with_policies:
            request = PlacementRequest(self._snapshot.bundles.names[bundle])
            narrowed = narrow(self._snapshot, request, self._settings, live_brokers(self._snapshot))
            if not narrowed.failures:
                left: list[bool] = narrowed.candidates.tolist()
                return left
        return [False] * len(self._snapshot.brokers)


def live_brokers(snapshot: LoadSnapshot) -> Flags:
    """Return one flag per broker of the snapshot, set if the broker is registered."""
    load = snapshot.extensible
    return snapshot.brokers.everyone if load is None else load.live
