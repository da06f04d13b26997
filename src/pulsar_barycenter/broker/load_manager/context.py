"""What a broker gives to its load manager."""

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
"""Has a broker give a bundle up, for a certain other one if one is named; returns whether it did."""


class OwnershipChanges(Protocol):
    """What a load manager sees of ownership, and asks of it, beyond commands to the owners."""

    def on_record(self, listener: RecordListener) -> None:
        """Call `listener` with each change of an ownership record, of any broker."""
        ...

    def owners(self) -> list[tuple[Bundle, str]]:
        """Return every bundle that is owned by a record, with the id of its owner."""
        ...

    def properties(self) -> dict[str, str]:
        """Return what a broker's registration says of how it keeps ownership."""
        ...

    def mover(self, guard: Callable[[], Guard], by_command: Move) -> Move:
        """Return how bundles are moved: by records, with the `guard` of the leader's epoch, or `by_command`."""
        ...

    def table(self, local: Callable[[], T], in_topic: Callable[[SystemTopicClient], T]) -> T:
        """Return a table that all brokers share, made by `in_topic`, or one of this process where there is none."""
        ...


class NoOwnershipChanges:
    """Where bundles are owned by locks, of which a load manager sees nothing. Implements `OwnershipChanges`."""

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
    """Everything of a broker that its load manager may use.

    `bundle_stats` gives the figures of every bundle with loaded topics here, keyed by the bundle's text; bundles
    owned without topics are in `owned_bundles` alone. `is_leader` is asked at the moment of each decision.
    The leader's commands carry `leader_epoch`, which raises NotLeadingError where this broker does not lead; what only
    the leader writes goes to `leader_store`, which refuses it once another one leads.
    `policies` knows isolation policies and failure domains; ask it to learn the anti-affinity groups that matter.
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
    """The numbers of this incarnation's reports, one after the other, whichever load manager writes them."""
    boundaries: Callable[[str], Awaitable[Sequence[int]]] = _no_boundaries
    """Where the configured algorithm would split a bundle that is owned here, by its name."""
    ownership: OwnershipChanges = field(default_factory=NoOwnershipChanges)
    """What is to be seen of ownership where the brokers share records of it."""
    decisions: DecisionLog | None = None
    """Where the load manager of the moment tells what it decides; None: each has a log of its own."""
