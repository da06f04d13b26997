"""Names the load managers that are compared, and starts a cluster with each."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from benchmarks.cluster import running_cluster
from benchmarks.manager_comparison.publishers import Publishers
from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.config.pulsar_version import COMPATIBILITY_KEY
from pulsar_barycenter.load.managers import MANAGER_KEY, ManagerKind
from pulsar_barycenter.standalone.cluster import StandaloneCluster

Figures: TypeAlias = dict[str, float]
"""By what they are called; infinity is what did not happen in the time that it was given."""

NAMESPACE: Final = "public/comparison"
TOPIC: Final = f"persistent://{NAMESPACE}/topic"

FASTER: Final = 60
"""How much faster time runs where load is balanced: a minute of Pulsar's defaults lasts a second."""

BALANCING_KEYS: Final = {
    "statsUpdateFrequencyInSecs": f"{60 / FASTER:g}",
    "loadBalancerReportUpdateMinIntervalMillis": f"{5_000 / FASTER:.0f}",
    "loadBalancerReportUpdateMaxIntervalMinutes": f"{15 / FASTER:g}",
    "loadBalancerHostUsageCheckIntervalMinutes": f"{1 / FASTER:.6f}",
    "loadBalancerSheddingIntervalMinutes": f"{1 / FASTER:.6f}",
    "loadBalancerSheddingGracePeriodMinutes": f"{30 / FASTER:g}",
    "loadBalancerResourceQuotaUpdateIntervalMinutes": f"{15 / FASTER:g}",
    "loadBalancerSplitIntervalMinutes": f"{1 / FASTER:.6f}",
    "loadBalanceSheddingDelayInSeconds": f"{180 / FASTER:g}",
    "loadBalancerBrokerLoadDataTTLInSeconds": f"{1_800 / FASTER:g}",
}
"""Every interval of measuring, reporting, shedding and splitting, shortened alike for all that are compared."""


@dataclass(frozen=True, slots=True)
class Manager:
    name: str
    keys: Mapping[str, str] = field(default_factory=dict)


MODULAR: Final = Manager("modular")
"""With the strategies of Pulsar 5.x: AvgShedder."""
MODULAR_4: Final = Manager("modular, 4.x", {COMPATIBILITY_KEY: "4.x"})
"""With those of 4.x, and of 3.0, of which the published figures are: ThresholdShedder."""
EXTENSIBLE: Final = Manager("extensible", {MANAGER_KEY: ManagerKind.EXTENSIBLE.class_name})


@dataclass(frozen=True, slots=True)
class Compared:
    """A running cluster; its namespace has one partitioned topic, whose partitions are the topics of the load."""

    cluster: StandaloneCluster
    admin: AdminClient
    service_url: str
    """Of the brokers that run from the start."""
    partitions: int

    async def call(self, method: str, path: str, **others: Any) -> Any:
        """Ask the first broker's admin REST."""
        return await self.admin.call(method, self.cluster.brokers[0].web_url, f"/admin/v2/{path}", **others)

    async def set(self, key: str, value: str) -> None:
        """Set a key while brokers run."""
        await self.call("POST", f"brokers/configuration/{key}/{value}")

    async def owners(self) -> dict[str, str]:
        """Return the broker of each bundle of the namespace, as brokers say; one that does not answer owns none."""
        owners = {}
        for broker in self.cluster.brokers:
            if broker.is_running:
                path = f"/admin/v2/brokers/standalone/{broker.broker_id}/ownedNamespaces"
                with suppress(AdminRequestError):
                    owned = await self.admin.call("GET", broker.web_url, path)
                    owners.update({name: broker.broker_id for name in owned if name.startswith(NAMESPACE)})
        return owners

    def publishers(self, payload_bytes: int) -> Publishers:
        """Connect a publisher to every partition; takes seconds."""
        return Publishers(self.service_url, TOPIC, self.partitions, payload_bytes)


@asynccontextmanager
async def compared(
    manager: Manager,
    *,
    brokers: int,
    bundles: int,
    partitions: int,
    keys: Mapping[str, str] | None = None,
    started: int | None = None,
) -> AsyncIterator[Compared]:
    """Run a cluster of that load manager; `started` of the brokers, all unless it is told, run from the start."""
    configuration = {**(keys or {}), **manager.keys}
    async with running_cluster(brokers, configuration, started=started) as cluster:
        addresses = (f"127.0.0.1:{broker.broker_port}" for broker in cluster.brokers[:started])
        system = Compared(cluster, AdminClient(), f"pulsar://{','.join(addresses)}", partitions)
        try:
            await system.call("PUT", f"namespaces/{NAMESPACE}", body={"bundles": {"numBundles": bundles}})
            await system.call("PUT", f"persistent/{NAMESPACE}/topic/partitions", body=partitions)
            yield system
            await cluster.kill()  # an end in order takes its time, and all was measured
        finally:
            await system.admin.close()
