"""The clusters and the properties of a namespace. Source: Pulsar's `Namespaces` and `NamespacesBase`."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import reads, writes
from pulsar_barycenter.admin.routes.route import RouteGroup

_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"

NAMESPACE_CLUSTERS: Final = RouteGroup("NamespaceClusters", _NAMESPACE)

GET_REPLICATION: Final = NAMESPACE_CLUSTERS.route(
    "GET", "/replication", "replication", reads("REPLICATION"), "List the clusters that have a namespace's messages."
)
SET_REPLICATION: Final = NAMESPACE_CLUSTERS.route(
    "POST",
    "/replication",
    "set_replication",
    writes("REPLICATION"),
    "Set the clusters that have a namespace's messages: this cluster alone.",
    body=list[str],
    by_leader=True,
)
GET_ALLOWED_CLUSTERS: Final = NAMESPACE_CLUSTERS.route(
    "GET",
    "/allowedClusters",
    "allowed_clusters",
    reads("ALLOW_CLUSTERS"),
    "List the clusters to which topics of a namespace may be limited.",
)
SET_ALLOWED_CLUSTERS: Final = NAMESPACE_CLUSTERS.route(
    "POST",
    "/allowedClusters",
    "set_allowed_clusters",
    writes("ALLOW_CLUSTERS"),
    "Set the clusters to which topics of a namespace may be limited; the replication clusters must be among them.",
    body=list[str],
    by_leader=True,
)


NAMESPACE_PROPERTIES: Final = RouteGroup("NamespaceProperties", _NAMESPACE)

_READS: Final = reads("PROPERTIES")
_WRITES: Final = writes("PROPERTIES")

GET_PROPERTIES: Final = NAMESPACE_PROPERTIES.route(
    "GET", "/properties", "show", _READS, "Show the properties of a namespace."
)
ADD_PROPERTIES: Final = NAMESPACE_PROPERTIES.route(
    "PUT",
    "/properties",
    "add",
    _WRITES,
    "Add or replace properties of a namespace.",
    body=dict[str, str],
    by_leader=True,
)
CLEAR_PROPERTIES: Final = NAMESPACE_PROPERTIES.route(
    "DELETE", "/properties", "clear", _WRITES, "Remove all properties of a namespace.", by_leader=True
)
GET_PROPERTY: Final = NAMESPACE_PROPERTIES.route(
    "GET", "/property/{key}", "show_one", _READS, "Show one property of a namespace as text; 404 if there is none."
)
SET_PROPERTY: Final = NAMESPACE_PROPERTIES.route(
    "PUT", "/property/{key}/{value}", "set_one", _WRITES, "Set one property of a namespace.", by_leader=True
)
REMOVE_PROPERTY: Final = NAMESPACE_PROPERTIES.route(
    "DELETE",
    "/property/{key}",
    "remove_one",
    _WRITES,
    "Remove one property of a namespace, and show what it was; 404 if there is none.",
    by_leader=True,
)
