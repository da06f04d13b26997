"""`clusters` and `tenants`. Source: Pulsar's `CmdClusters`, `CmdTenants`."""

from typing import Any, Final

from pulsar_barycenter.admin.commands.output import Form
from pulsar_barycenter.admin.commands.table import (
    CLUSTER,
    FORCE,
    TENANT,
    Flag,
    Kind,
    Resource,
    Session,
    Values,
    command,
    fields,
    request,
    send,
)
from pulsar_barycenter.admin.routes import brokers, clusters, tenants

_DOMAIN = Flag("--domain-name", "domain", "The failure domain.", required=True)
_BROKERS = Flag("--broker-list", "brokers", "Ids of brokers, separated by commas.", Kind.NAMES)
_FIELDS: Final = {
    "serviceUrl": ("--url", "The web address."),
    "serviceUrlTls": ("--url-secure", "The web address with TLS."),
    "brokerServiceUrl": ("--broker-url", "The address for clients."),
    "brokerServiceUrlTls": ("--broker-url-secure", "The address for clients with TLS."),
    "proxyServiceUrl": ("--proxy-url", "The address of a proxy."),
    "proxyProtocol": ("--proxy-protocol", "The protocol of that proxy, such as SNI."),
    "authenticationPlugin": ("--auth-plugin", "The class with which other clusters authenticate."),
    "authenticationParameters": ("--auth-parameters", "The parameters of that class."),
    "listenerName": ("--listener-name", "The name of the listener that other clusters use."),
}
_CLUSTER_FLAGS = tuple(Flag(spelling, field, effect) for field, (spelling, effect) in _FIELDS.items())
_ROLES = Flag("-r --admin-roles", "roles", "The roles of the tenant's administrators, separated by commas.", Kind.NAMES)
_ALLOWED = Flag("-c --allowed-clusters", "allowed", "Clusters that the tenant may use; default: all.", Kind.NAMES)


def _cluster_body(values: Values) -> dict[str, Any]:
    return fields(values, {field: field for field in _FIELDS})


async def _list(session: Session, values: Values) -> Any:
    names = await send(session, clusters.LIST_CLUSTERS)
    if not values["current"]:
        return names
    own = (await send(session, brokers.GET_RUNTIME_CONFIGURATION))["clusterName"]
    return [f"{name}(*)" if name == own else name for name in names]


async def _create_tenant(session: Session, values: Values) -> None:
    allowed = values["allowed"] or await send(session, clusters.LIST_CLUSTERS)
    body = {"adminRoles": values["roles"] or [], "allowedClusters": allowed}
    await send(session, tenants.CREATE_TENANT, values, body=body)


async def _update_tenant(session: Session, values: Values) -> None:
    """Change the fields of the tenant for which the user gave options, and keep the others."""
    known = await send(session, tenants.GET_TENANT, values)
    typed = fields(values, {"adminRoles": "roles", "allowedClusters": "allowed"})
    await send(session, tenants.UPDATE_TENANT, values, body={**known, **typed})


def _domain_body(values: Values) -> dict[str, Any]:
    return {"brokers": values["brokers"] or []}


CLUSTERS: Final = Resource(
    "clusters",
    "Clusters, their peers and failure domains.",
    (
        command(
            "list",
            "List the clusters.",
            _list,
            Flag("-c --current", "current", "Mark the cluster of the broker.", Kind.SWITCH),
        ),
        command("get", "Show a cluster.", request(clusters.GET_CLUSTER), CLUSTER),
        command(
            "create",
            "Create a cluster.",
            request(clusters.CREATE_CLUSTER, body=_cluster_body),
            CLUSTER,
            *_CLUSTER_FLAGS,
        ),
        command(
            "update",
            "Replace a cluster.",
            request(clusters.UPDATE_CLUSTER, body=_cluster_body),
            CLUSTER,
            *_CLUSTER_FLAGS,
        ),
        command("delete", "Delete a cluster that no tenant uses.", request(clusters.DELETE_CLUSTER), CLUSTER),
        command("get-peer-clusters", "List the peers.", request(clusters.GET_PEERS), CLUSTER, form=Form.JSON),
        command(
            "update-peer-clusters",
            "Set the peers.",
            request(clusters.SET_PEERS, body=lambda values: values["peers"]),
            CLUSTER,
            Flag(
                "--peer-clusters",
                "peers",
                'Names of clusters, separated by commas; "" for none.',
                Kind.NAMES,
                required=True,
            ),
        ),
        command(
            "create-failure-domain",
            "Create a failure domain.",
            request(clusters.SET_DOMAIN, body=_domain_body),
            CLUSTER,
            _DOMAIN,
            _BROKERS,
        ),
        command(
            "update-failure-domain",
            "Replace the brokers of a failure domain.",
            request(clusters.SET_DOMAIN, body=_domain_body),
            CLUSTER,
            _DOMAIN,
            _BROKERS,
        ),
        command("get-failure-domain", "Show a failure domain.", request(clusters.GET_DOMAIN), CLUSTER, _DOMAIN),
        command("delete-failure-domain", "Delete a failure domain.", request(clusters.DELETE_DOMAIN), CLUSTER, _DOMAIN),
        command(
            "list-failure-domains",
            "Show all failure domains.",
            request(clusters.LIST_DOMAINS),
            CLUSTER,
        ),
    ),
)

TENANTS: Final = Resource(
    "tenants",
    "Tenants: their administrators, and the clusters that they may use.",
    (
        command("list", "List the tenants.", request(tenants.LIST_TENANTS)),
        command("get", "Show a tenant.", request(tenants.GET_TENANT), TENANT),
        command("create", "Create a tenant.", _create_tenant, TENANT, _ROLES, _ALLOWED),
        command("update", "Change a tenant; values without a flag stay.", _update_tenant, TENANT, _ROLES, _ALLOWED),
        command(
            "delete",
            "Delete a tenant; with --force its namespaces, too.",
            request(tenants.DELETE_TENANT, query={"force": "force"}),
            TENANT,
            FORCE,
        ),
    ),
)
