"""Writes the first records of a new cluster: its own, the tenants `public` and `pulsar`, and their first namespaces.

In Pulsar an operator runs `initialize-cluster-metadata`, and the standalone mode creates `public/default`. Here the
first broker does both.
"""

from contextlib import suppress
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.namespaces.policies import BundlesData, ClusterData, Policies, TenantInfo
from pulsar_barycenter.broker.namespaces.resources import Resources
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.metadata.errors import AlreadyExistsError
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import SYSTEM_NAMESPACE, NamespaceName

log = structlog.get_logger(__name__)

TENANTS: Final = ("public", "pulsar")


async def initialize_cluster(resources: Resources, config: BrokerConfig, urls: ServiceUrls) -> None:
    """Write the first records of a cluster, unless it was initialized before. Several brokers may do this at once.

    The cluster's own record is written last; it marks the cluster as initialized. So if a broker dies before that, the
    next broker completes the work. Records that an operator deletes later are not created again.
    """
    cluster = config.cluster_name
    if await resources.clusters.exists(cluster):
        return
    for tenant in TENANTS:
        with suppress(AlreadyExistsError):
            await resources.tenants.create(tenant, TenantInfo(allowed_clusters=(cluster,)))
    default = config.default_number_of_namespace_bundles
    counts = {"public/default": default, str(SYSTEM_NAMESPACE): config.default_number_of_system_namespace_bundles}
    for name, count in counts.items():
        bundles = NamespaceBundles.equal(NamespaceName.parse(name), count or default)
        policies = Policies(replication_clusters=(cluster,), bundles=BundlesData.from_bundles(bundles))
        with suppress(AlreadyExistsError):
            await resources.namespaces.create(name, policies)
    with suppress(AlreadyExistsError):
        record = ClusterData(
            service_url=urls.web_url,
            service_url_tls=urls.web_url_tls,
            broker_service_url=urls.broker_url,
            broker_service_url_tls=urls.broker_url_tls,
        )
        await resources.clusters.create(cluster, record)
        log.info("cluster_initialized", cluster=cluster)
