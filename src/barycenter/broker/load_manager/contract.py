"""What a broker asks of its load manager, what it gives to one, and the manager that balances nothing.

The broker owns the life of its load manager: `start` once the ports are known and everything else runs (it
registers the broker, from then on bundles are assigned to it), `disable` first in a graceful stop, `stop` last.
The broker calls `write_report` every `loadBalancerReportUpdateMinIntervalMillis`, and, only while it leads,
`shed` every `loadBalancerSheddingIntervalMinutes`, `check_splits` after each change under /loadbalance/brokers
(at most once a second) and `write_resource_quotas` every `loadBalancerResourceQuotaUpdateIntervalMinutes`.
`loadBalancerEnabled=false` stops these calls; `loadBalancerSheddingEnabled` and
`loadBalancerAutoBundleSplitEnabled` are looked at by the manager itself.

Source: Pulsar's `LoadManager`, `ModularLoadManagerImpl`, `NoopLoadManager`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from barycenter.broker.environment import Environment
from barycenter.broker.load_manager.reporting.report_identity import identity_report
from barycenter.load.decisions import Placement
from barycenter.load.reasons import Code, Reason
from barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from barycenter.load.reports.simple_load_report import LoadReport
from barycenter.load.strategy_names import ManagerKind
from barycenter.naming.bundle import Bundle
from barycenter.naming.namespace import NamespaceName

if TYPE_CHECKING:
    from barycenter.broker.cluster.dynamic_configuration import ConfigHolder
    from barycenter.broker.cluster.registration import Registration
    from barycenter.broker.cluster.service_urls import ServiceUrls
    from barycenter.broker.namespaces.bundle_cache import BundleCache
    from barycenter.broker.namespaces.cluster_policies import ClusterPolicyWatch
    from barycenter.load.snapshot.document import SnapshotDocument
    from barycenter.logs.decision_log import DecisionLog


@dataclass(frozen=True, slots=True)
class LoadManagerContext:
    """Everything of a broker that its load manager may use.

    `bundle_stats` gives the figures of every bundle with loaded topics here, keyed by the bundle's text; bundles
    owned without topics are in `owned_bundles` alone. `is_leader` is asked at the moment of each decision.
    `policies` knows isolation policies and failure domains; ask it to learn the anti-affinity groups that matter.
    """

    config: "ConfigHolder"
    env: Environment
    urls: "ServiceUrls"
    incarnation: str
    started_at_ms: int
    registration: "Registration"
    bundles: "BundleCache"
    bundle_stats: Callable[[], Mapping[str, NamespaceBundleStats]]
    owned_bundles: Callable[[], Iterable[Bundle]]
    is_leader: Callable[[], bool]
    leader_web_url: Callable[[], str | None]
    policies: "ClusterPolicyWatch"
    sequences: Iterator[int] = field(default_factory=lambda: count(1))
    """The numbers of this incarnation's reports, one after the other, whichever load manager writes them."""
    decisions: "DecisionLog | None" = None
    """Where the load manager of the moment tells what it decides; None: each has a log of its own."""


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

    async def snapshot_document(self) -> "SnapshotDocument":
        """Return what this broker would decide upon now, for files and REST."""
        ...


@runtime_checkable
class RanksBrokers(Protocol):
    """A load manager that ranks brokers (simple)."""

    async def resource_availability(self, namespace: NamespaceName) -> dict[int, list[str]]:
        """Return the ids of the brokers that may serve a namespace, by their rank, least first."""
        ...


LoadManagerFactory = Callable[[LoadManagerContext], LoadManager]


class NoopLoadManager:
    """No-op load manager: registers this broker and gives every bundle to whoever is asked.

    Worked example: a client looks a topic up at b2, and nobody owns its bundle: b2 does from then on, however loaded it
    is.

    When to use it: a single broker, or brokers that a proxy spreads clients over. When not: as soon as load shall move;
    nothing is reported, shed or split, and each bundle stays where it was first asked for.

    Source: Pulsar's `NoopLoadManager`. Where we differ: it knows all registered brokers, not itself alone, so that the
    namespace of another broker's SLA monitor goes to that broker; and it leaves the list when it is disabled.
    """

    def __init__(self, context: LoadManagerContext) -> None:
        self._context = context

    @property
    def is_centralized(self) -> bool:
        return False

    async def start(self) -> None:
        await self._context.registration.register(self._context.urls.broker_id, self.load_report())

    async def disable(self) -> None:
        await self._context.registration.unregister()

    async def stop(self) -> None:
        await self.disable()

    def available_brokers(self) -> frozenset[str]:
        return self._context.registration.brokers

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        reason = Reason(
            code=Code.DISABLED,
            strategy="NoopLoadManager",
            subject=str(bundle),
            detail="without balancing the broker that is asked takes the bundle",
            settings=("loadManagerClassName",),
        )
        return Placement(str(bundle), self._context.urls.broker_id, reason)

    async def write_report(self, *, force: bool = False) -> bool:
        return False

    async def shed(self) -> None:
        pass

    async def check_splits(self) -> None:
        pass

    async def write_resource_quotas(self) -> None:
        pass

    def load_report(self) -> LocalBrokerData:
        return msgspec.structs.replace(
            identity_report(self._context),
            last_update=self._context.env.clock.now_ms(),
            load_manager_class_name=ManagerKind.NOOP.class_name,
        )
