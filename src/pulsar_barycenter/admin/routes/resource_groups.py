"""Resource groups, and which namespaces are in them. Source: Pulsar's `ResourceGroups` and `Namespaces`."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import SUPER_USER, reads, writes
from pulsar_barycenter.admin.routes.route import RouteGroup

RESOURCE_GROUPS: Final = RouteGroup("ResourceGroups", "/admin/v2")

_GROUPS: Final = "/resourcegroups"
_OF_NAMESPACE: Final = "/namespaces/{tenant}/{namespace}/resourcegroup"

LIST_GROUPS: Final = RESOURCE_GROUPS.route("GET", _GROUPS, "names", SUPER_USER, "List the resource groups.")

GET_GROUP: Final = RESOURCE_GROUPS.route(
    "GET", _GROUPS + "/{group}", "get", SUPER_USER, "Show the rates of a resource group."
)

PUT_GROUP: Final = RESOURCE_GROUPS.route(
    "PUT",
    _GROUPS + "/{group}",
    "put",
    SUPER_USER,
    "Create a resource group, or change those of its rates that the body has; -1 is no limit.",
    body="ResourceGroup",
    by_leader=True,
)

DELETE_GROUP: Final = RESOURCE_GROUPS.route(
    "DELETE",
    _GROUPS + "/{group}",
    "delete",
    SUPER_USER,
    "Delete a resource group that no namespace is in.",
    by_leader=True,
)

GET_GROUP_OF_NAMESPACE: Final = RESOURCE_GROUPS.route(
    "GET",
    _OF_NAMESPACE,
    "of_namespace",
    reads("RESOURCEGROUP"),
    "Show the resource group of a namespace as plain text; 204 if it has none.",
)

SET_GROUP_OF_NAMESPACE: Final = RESOURCE_GROUPS.route(
    "POST",
    _OF_NAMESPACE + "/{group}",
    "set_of_namespace",
    writes("RESOURCEGROUP"),
    "Put a namespace into a resource group, whose publish rates its topics then share on each broker.",
    by_leader=True,
)

REMOVE_GROUP_OF_NAMESPACE: Final = RESOURCE_GROUPS.route(
    "DELETE",
    _OF_NAMESPACE,
    "remove_of_namespace",
    writes("RESOURCEGROUP"),
    "Remove a namespace from its resource group.",
    by_leader=True,
)
