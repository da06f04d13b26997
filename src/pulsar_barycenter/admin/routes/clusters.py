"""Clusters, isolation policies and failure domains. Source: Pulsar's `ClustersBase`."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import KNOWN_CALLER, SUPER_USER
from pulsar_barycenter.admin.routes.route import FLAG, RouteGroup

CLUSTERS: Final = RouteGroup("Clusters", "/admin/v2/clusters")

_WITHOUT_EFFECT: Final = "the migration of a cluster is stored without effect"

LIST_CLUSTERS: Final = CLUSTERS.route("GET", "", "names", KNOWN_CALLER, "List the clusters.")

GET_CLUSTER: Final = CLUSTERS.route("GET", "/{cluster}", "get", SUPER_USER, "Show a cluster.")

CREATE_CLUSTER: Final = CLUSTERS.route(
    "PUT", "/{cluster}", "create", SUPER_USER, "Create a cluster.", body="ClusterData", by_leader=True
)

UPDATE_CLUSTER: Final = CLUSTERS.route(
    "POST", "/{cluster}", "update", SUPER_USER, "Replace the record of a cluster.", body="ClusterData", by_leader=True
)

DELETE_CLUSTER: Final = CLUSTERS.route(
    "DELETE",
    "/{cluster}",
    "delete",
    SUPER_USER,
    "Delete a cluster that no tenant may use and that has no isolation policies; not the brokers' own cluster.",
    by_leader=True,
)

GET_PEERS: Final = CLUSTERS.route("GET", "/{cluster}/peers", "peers", SUPER_USER, "List the peer clusters.")

SET_PEERS: Final = CLUSTERS.route(
    "POST", "/{cluster}/peers", "set_peers", SUPER_USER, "Set the peer clusters.", body=list[str], by_leader=True
)

GET_MIGRATION: Final = CLUSTERS.route(
    "GET",
    "/{cluster}/migrate",
    "migration",
    SUPER_USER,
    "Show whether a cluster has migrated to another one; 404 if that was never set.",
    without_command=_WITHOUT_EFFECT,
)

SET_MIGRATION: Final = CLUSTERS.route(
    "POST",
    "/{cluster}/migrate",
    "set_migration",
    SUPER_USER,
    "Store whether another cluster has migrated, and where to; 405 for the brokers' own cluster, whose clients stay.",
    body="ClusterUrl",
    query={"migrated": FLAG},
    by_leader=True,
    without_command=_WITHOUT_EFFECT,
)


NAMESPACE_ISOLATION: Final = RouteGroup("NamespaceIsolation", "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies")

LIST_POLICIES: Final = NAMESPACE_ISOLATION.route(
    "GET", "", "all", SUPER_USER, "Show the isolation policies of a cluster by name."
)

LIST_POLICIES_OF_BROKERS: Final = NAMESPACE_ISOLATION.route(
    "GET",
    "/brokers",
    "brokers",
    SUPER_USER,
    "Show every registered broker with the regexes of the namespaces whose policies name it.",
)

GET_POLICIES_OF_BROKER: Final = NAMESPACE_ISOLATION.route(
    "GET",
    "/brokers/{broker}",
    "broker",
    SUPER_USER,
    "Show a broker with the regexes of the namespaces whose policies name it.",
)

GET_POLICY: Final = NAMESPACE_ISOLATION.route("GET", "/{policy}", "get", SUPER_USER, "Show an isolation policy.")

SET_POLICY: Final = NAMESPACE_ISOLATION.route(
    "POST",
    "/{policy}",
    "set",
    SUPER_USER,
    "Set an isolation policy and unload namespaces by its `unload_scope`: changed, all_matching or none.",
    body="NamespaceIsolationData",
    by_leader=True,
)

DELETE_POLICY: Final = NAMESPACE_ISOLATION.route(
    "DELETE", "/{policy}", "delete", SUPER_USER, "Delete an isolation policy.", by_leader=True
)


FAILURE_DOMAINS: Final = RouteGroup("FailureDomains", "/admin/v2/clusters/{cluster}/failureDomains")

LIST_DOMAINS: Final = FAILURE_DOMAINS.route(
    "GET", "", "all", SUPER_USER, "Show the failure domains of a cluster by name."
)

GET_DOMAIN: Final = FAILURE_DOMAINS.route("GET", "/{domain}", "get", SUPER_USER, "Show a failure domain.")

SET_DOMAIN: Final = FAILURE_DOMAINS.route(
    "POST",
    "/{domain}",
    "set",
    SUPER_USER,
    "Create or replace a failure domain; its brokers must not be in another domain.",
    body="FailureDomain",
    by_leader=True,
)

DELETE_DOMAIN: Final = FAILURE_DOMAINS.route(
    "DELETE",
    "/{domain}",
    "delete",
    SUPER_USER,
    "Delete a failure domain; its brokers are then in no domain.",
    by_leader=True,
)
