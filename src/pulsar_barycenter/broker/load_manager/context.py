"""What a broker gives to its load manager."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.namespaces.cluster_policies import ClusterPolicyWatch
from pulsar_barycenter.broker.ownership.channel.channel_ownership import ChannelOwnership
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats
from pulsar_barycenter.metadata.coordination.epochs import Epoch
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle


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
    channel: ChannelOwnership | None = None
    """Where bundles are owned by records: the channel."""
    system_topics: SystemTopicClient | None = None
    """How the internal topics are read and written, where the leader serves them."""
    decisions: DecisionLog | None = None
    """Where the load manager of the moment tells what it decides; None: each has a log of its own."""
