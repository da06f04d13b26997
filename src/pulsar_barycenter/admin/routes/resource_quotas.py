"""Resource quotas of bundles. Source: Pulsar's `ResourceQuotas`."""

from typing import Final

from pulsar_barycenter.admin.routes.rights import SUPER_USER
from pulsar_barycenter.admin.routes.route import RouteGroup

RESOURCE_QUOTAS: Final = RouteGroup("ResourceQuotas", "/admin/v2/resource-quotas")

GET_DEFAULT_QUOTA: Final = RESOURCE_QUOTAS.route(
    "GET", "", "default", SUPER_USER, "Show the default quota, of bundles without their own."
)

SET_DEFAULT_QUOTA: Final = RESOURCE_QUOTAS.route(
    "POST",
    "",
    "set_default",
    SUPER_USER,
    "Set the default quota, of bundles without their own; the simple load manager continues to adapt it.",
    body="ResourceQuota",
    by_leader=True,
)

GET_QUOTA: Final = RESOURCE_QUOTAS.route(
    "GET",
    "/{tenant}/{namespace}/{range}",
    "get",
    SUPER_USER,
    "Show the quota of a bundle, or the default quota if it has none.",
)

SET_QUOTA: Final = RESOURCE_QUOTAS.route(
    "POST",
    "/{tenant}/{namespace}/{range}",
    "set",
    SUPER_USER,
    "Set the quota of a bundle.",
    body="ResourceQuota",
    by_leader=True,
)

DELETE_QUOTA: Final = RESOURCE_QUOTAS.route(
    "DELETE",
    "/{tenant}/{namespace}/{range}",
    "delete",
    SUPER_USER,
    "Remove the quota of a bundle; the default quota then applies.",
    by_leader=True,
)
