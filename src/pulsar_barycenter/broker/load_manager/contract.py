"""The interface of a load manager.

The broker controls the life of its load manager. It calls `start` when its ports are known and everything else runs;
this registers the broker, and from then on bundles are assigned to it. In a graceful stop it calls `disable` first and
`stop` last. It calls `write_report` every `loadBalancerReportUpdateMinIntervalMillis`. Only while it is the leader, it
calls `shed` every `loadBalancerSheddingIntervalMinutes`, `check_splits` after each change under /loadbalance/brokers
(at most once a second), and `write_resource_quotas` every `loadBalancerResourceQuotaUpdateIntervalMinutes`.
`loadBalancerEnabled=false` stops these calls. The load manager itself checks `loadBalancerSheddingEnabled` and
`loadBalancerAutoBundleSplitEnabled`.

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
        """Whether only the leader chooses owners. Modular load manager: yes; no-op and extensible: no; simple: yes,
        except with the weighted random choice.
        """
        ...

    async def start(self) -> None:
        """Register this broker at /loadbalance/brokers/<id> with its first load report, and begin to read the reports
        of the other brokers.
        """
        ...

    async def disable(self) -> None:
        """Remove the registration of this broker, so that no bundle is assigned to it any more. Idempotent."""
        ...

    async def stop(self) -> None:
        """End every task of this load manager, and remove this broker's registration. Idempotent."""
        ...

    def available_brokers(self) -> frozenset[str]:
        """Return the ids of the registered brokers, as they were read last."""
        ...

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        """Choose an owner for a bundle that has none. If no broker qualifies, the result is None or a placement with
        `broker` None; both mean the same, but a placement also has the reason.
        """
        ...

    async def write_report(self, *, force: bool = False) -> bool:
        """Publish this broker's load if it changed enough, or if `force`. Return whether it was published; False also
        after a failure, which is logged and not raised.
        """
        ...

    async def shed(self) -> None:
        """Unload bundles from overloaded brokers. Called on the leader only."""
        ...

    async def check_splits(self) -> None:
        """Split bundles that are too large. Called on the leader only.

        The simple load manager does nothing here, because each of its brokers splits after its own report.
        """
        ...

    async def write_resource_quotas(self) -> None:
        """Store the averages of the loads of bundles and brokers in the metadata store; the simple load manager stores
        its quotas instead. Called on the leader only.
        """
        ...

    def load_report(self) -> LocalBrokerData | LoadReport:
        """Return this broker's present load, in the form of its load report. It is the answer to GET
        /admin/v2/broker-stats/load-report.
        """
        ...


@runtime_checkable
class KeepsSnapshot(Protocol):
    """A load manager that decides on a snapshot of the load."""

    async def snapshot_document(self) -> SnapshotDocument:
        """Return the snapshot on which this broker would decide now, as a document for a file or the REST API."""
        ...


@runtime_checkable
class KeepsDecisions(Protocol):
    """A load manager with a decision log."""

    @property
    def decisions(self) -> DecisionLog: ...


class Registered(Protocol):
    """An object whose Prometheus metrics are in a registry of their own, not in the broker's registry."""

    @property
    def registry(self) -> CollectorRegistry: ...


@runtime_checkable
class KeepsMetrics(Protocol):
    """A load manager with metrics."""

    @property
    def metrics(self) -> Registered: ...


@runtime_checkable
class ChoosesSuccessors(Protocol):
    """A load manager that unloads a bundle directly to a next owner, which it chooses before the unload
    (extensible).
    """

    async def select_successor(self, bundle: Bundle, without: Collection[str]) -> Placement | None:
        """Choose the next owner of a bundle, but none of the brokers `without`. If no broker qualifies, the result is
        None or a placement with `broker` None; both mean the same, but a placement also has the reason.
        """
        ...

    async def announce_leaving(self) -> None:
        """Announce to all brokers that this broker accepts no more bundles. It stays registered until it has
        transferred its own bundles.
        """
        ...

    async def leaving_brokers(self) -> set[str]:
        """Return the ids of the registered brokers that called `announce_leaving`, including this one."""
        ...


@runtime_checkable
class RanksBrokers(Protocol):
    """A load manager that ranks brokers by their load (simple)."""

    async def resource_availability(self, namespace: NamespaceName) -> dict[int, list[str]]:
        """Return the ids of the brokers that may serve a namespace, by rank, lowest rank first. The placement strategy
        examines brokers with a lower rank first.
        """
        ...


LoadManagerFactory = Callable[[LoadManagerContext], LoadManager]
