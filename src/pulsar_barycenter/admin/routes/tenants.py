"""Tenants. Source: Pulsar's `TenantsBase`."""

from typing import Final

from pulsar_barycenter.admin.operations import TenantOperation
from pulsar_barycenter.admin.routes.rights import SUPER_USER, OnTenant
from pulsar_barycenter.admin.routes.route import FLAG, RouteGroup

TENANTS: Final = RouteGroup("Tenants", "/admin/v2/tenants")

LIST_TENANTS: Final = TENANTS.route("GET", "", "names", SUPER_USER, "List the tenants.")

GET_TENANT: Final = TENANTS.route("GET", "/{tenant}", "get", OnTenant(TenantOperation.GET_TENANT), "Show a tenant.")

CREATE_TENANT: Final = TENANTS.route(
    "PUT", "/{tenant}", "create", SUPER_USER, "Create a tenant.", body="TenantInfo", by_leader=True
)

UPDATE_TENANT: Final = TENANTS.route(
    "POST",
    "/{tenant}",
    "update",
    SUPER_USER,
    "Replace roles and clusters of a tenant.",
    body="TenantInfo",
    by_leader=True,
)

DELETE_TENANT: Final = TENANTS.route(
    "DELETE",
    "/{tenant}",
    "delete",
    SUPER_USER,
    "Delete a tenant; with `force` its namespaces too. `pulsar` cannot be deleted.",
    query={"force": FLAG},
    by_leader=True,
)
