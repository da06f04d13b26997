"""What a load manager gets from its broker."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, TypeAlias, TypeVar

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.namespaces.cluster_policies import ClusterPolicyWatch
from pulsar_barycenter.broker.ownership.channel.records import RecordListener
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.metadata.coordination.epochs import Epoch
from pulsar_barycenter.metadata.store import Guard, MetadataStore
from pulsar_barycenter.naming.bundle import Bundle

T = TypeVar("T")

Move: TypeAlias = Callable[[Bundle, str, str | None], Awaitable[bool]]
"""A function that makes a source broker unload a bundle for a destination, or for any broker (None). It returns True
after the unload, and False if nothing was unloaded because the source is not registered, or does not own the bundle.
"""


class OwnershipChanges(Protocol):
    """Notifies a load manager of changes of bundle ownership, and gives it the means to change ownership. With
    ownership locks nothing is notified, and the only means is a command to the owner.
    """

    def on_record(self, listener: RecordListener) -> None:
        """Call `listener` with each change of an ownership record, whichever broker owns the bundle."""
        ...

    def owners(self) -> list[tuple[Bundle, str]]:
        """Return every bundle whose ownership record names an owner, with the id of that broker. With ownership locks
        the list is empty.
        """
        ...

    def properties(self) -> dict[str, str]:
        """Return properties that this broker's registration has to contain, so that other brokers know how it owns
        bundles.
        """
        ...

    def mover(self, guard: Callable[[], Guard], by_command: Move) -> Move:
        """Return the function by which the load manager makes an owner unload a bundle.

        With ownership records, the returned function writes to the record of the bundle. The write fails if another
        leader has a later epoch: `guard` is called before each write and returns the condition to check. With ownership
        locks, the result is `by_command`, which sends a command to the owner.
        """
        ...

    def table(self, local: Callable[[], T], in_topic: Callable[[SystemTopicClient], T]) -> T:
        """Return a table in which brokers publish their loads. With ownership records, `in_topic` creates it, in a
        topic that all brokers share. With ownership locks, `local` creates it, in this process only.
        """
        ...


class NoOwnershipChanges:
    """Implements `OwnershipChanges` for brokers that own bundles by locks: no changes are notified, and bundles are
    unloaded by commands to their owners.
    """

    def on_record(self, listener: RecordListener) -> None:
        return

    def owners(self) -> list[tuple[Bundle, str]]:
        return []

    def properties(self) -> dict[str, str]:
        return {}

    def mover(self, guard: Callable[[], Guard], by_command: Move) -> Move:
        return by_command

    def table(self, local: Callable[[], T], in_topic: Callable[[SystemTopicClient], T]) -> T:
        return local()


async def _no_boundaries(_bundle: str) -> Sequence[int]:
    return ()


@dataclass(frozen=True, slots=True)
class LoadManagerContext:
    """The parts of a broker that its load manager may use.

    `bundle_stats` returns the stats of those bundles with at least one topic that is loaded on this broker; the keys
    are the bundles as text. `owned_bundles` returns all bundles of this broker, also those without loaded topics.
    `is_leader` returns whether this broker may act as leader at the moment of the call. `leader_epoch` returns the
    epoch that the commands of this broker as leader contain; it raises NotLeadingError if this broker is not the
    leader. `leader_store` is the store for the leader's writes; it refuses writes of a former leader. `policies` has
    isolation policies and failure domains; before a decision that needs anti-affinity groups, call its `learn_groups`,
    which reads them.
    """

    config: ConfigHolder
    env: Environment
    urls: ServiceUrls
    incarnation: str
    started_at_ms: int
    registration: Registration
    bundles: BundleCache
    bundle_stats: Callable[[], Mapping[str, NamespaceBundleStats]]
    owned_bundles: Callable[[], Iterable[Bundle]]
    is_leader: Callable[[], bool]
    leader_epoch: Callable[[], Epoch]
    leader_store: MetadataStore
    policies: ClusterPolicyWatch
    sequences: Iterator[int] = field(default_factory=lambda: count(1))
    """The sequence numbers of the load reports of this run of the broker. All load managers that write reports share
    them.
    """
    boundaries: Callable[[str], Awaitable[Sequence[int]]] = _no_boundaries
    """A function that returns where the configured algorithm would split a bundle that this broker owns, by the
    bundle's name.
    """
    ownership: OwnershipChanges = field(default_factory=NoOwnershipChanges)
    """How the load manager sees and changes ownership, if the brokers own bundles by records."""
    balances: bool = True
    """Whether this broker can shed, split and compare loads. Without numpy it only assigns bundles, by the number that
    each broker has.
    """
    decisions: DecisionLog | None = None
    """The decision log that all load managers of this broker share; None: each load manager opens its own."""
