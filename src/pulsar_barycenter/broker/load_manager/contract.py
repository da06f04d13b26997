"""What a broker asks of its load manager.

The broker owns the life of its load manager: `start` once the ports are known and everything else runs (it
registers the broker, from then on bundles are assigned to it), `disable` first in a graceful stop, `stop` last.
The broker calls `write_report` every `loadBalancerReportUpdateMinIntervalMillis`, and, only while it leads,
`shed` every `loadBalancerSheddingIntervalMinutes`, `check_splits` after each change under /loadbalance/brokers
(at most once a second) and `write_resource_quotas` every `loadBalancerResourceQuotaUpdateIntervalMinutes`.
`loadBalancerEnabled=false` stops these calls; `loadBalancerSheddingEnabled` and
`loadBalancerAutoBundleSplitEnabled` are looked at by the manager itself.

Source: Pulsar's `LoadManager`, `ModularLoadManagerImpl`.
"""

from collections.abc import Callable, Collection
from typing import Protocol, runtime_checkable

from prometheus_client import CollectorRegistry

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.reports.simple_load_report import LoadReport
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName


class LoadManager(Protocol):
    @property
    def is_centralized(self) -> bool:
        """Whether the leader alone chooses owners (modular: yes; no-op: no; simple: not with the weighted draw)."""
        ...

    async def start(self) -> None:
        """Register this broker at /loadbalance/brokers/<id> with its first report, and begin to watch others."""
        ...

    async def disable(self) -> None:
        """Remove the registration, so that no bundle is assigned here any more. Idempotent."""
        ...

    async def stop(self) -> None:
        """End every task; disables first. Idempotent."""
        ...

    def available_brokers(self) -> frozenset[str]:
        """Return the ids of the registered brokers, as last seen."""
        ...

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        """Choose the owner-to-be of an unowned bundle. None, or a placement without broker: no broker qualifies."""
        ...

    async def write_report(self, *, force: bool = False) -> bool:
        """Publish this broker's load if it changed enough or `force`; return whether it was written."""
        ...

    async def shed(self) -> None:
        """Leader: unload bundles from overloaded brokers."""
        ...

    async def check_splits(self) -> None:
        """Leader: split bundles that grew too large (simple: nothing, each broker does so after a report)."""
        ...

    async def write_resource_quotas(self) -> None:
        """Leader: persist bundle data and broker time averages (simple: quotas)."""
        ...

    def load_report(self) -> LocalBrokerData | LoadReport:
        """Return this broker's figures of now, as it reports them (GET /admin/v2/broker-stats/load-report)."""
        ...


@runtime_checkable
class KeepsSnapshot(Protocol):
    """A load manager that decides upon a snapshot."""

    async def snapshot_document(self) -> SnapshotDocument:
        """Return what this broker would decide upon now, for files and REST."""
        ...


@runtime_checkable
class KeepsDecisions(Protocol):
    """A load manager that keeps what it decided."""

    @property
    def decisions(self) -> DecisionLog: ...


class Registered(Protocol):
    """Metrics of Prometheus in a registry of their own."""

    @property
    def registry(self) -> CollectorRegistry: ...


@runtime_checkable
class KeepsMetrics(Protocol):
    """A load manager that has metrics."""

    @property
    def metrics(self) -> Registered: ...


@runtime_checkable
class ChoosesSuccessors(Protocol):
    """A load manager under which a bundle goes from one broker to the next (extensible)."""

    async def select_successor(self, bundle: Bundle, without: Collection[str]) -> Placement | None:
        """Choose who shall own a bundle, other than some brokers; the rest as of `LoadManager.select_broker`."""
        ...

    async def announce_leaving(self) -> None:
        """Tell the others that this broker, which stays registered until it has handed over, takes nothing more."""
        ...

    async def leaving_brokers(self) -> set[str]:
        """Return the ids of the registered brokers that told so, this one among them."""
        ...


@runtime_checkable
class RanksBrokers(Protocol):
    """A load manager that ranks brokers (simple)."""

    async def resource_availability(self, namespace: NamespaceName) -> dict[int, list[str]]:
        """Return the ids of the brokers that may serve a namespace, by their rank, least first."""
        ...


LoadManagerFactory = Callable[[LoadManagerContext], LoadManager]
