"""`ns-isolation-policy` and `resource-quotas`. Source: Pulsar's `CmdNamespaceIsolationPolicy`, `CmdResourceQuotas`."""

from typing import Any, Final

from pulsar_barycenter.admin.commands.table import (
    CLUSTER,
    Argument,
    Flag,
    Kind,
    Resource,
    Session,
    Values,
    WrongUsageError,
    command,
    fields,
    request,
    send,
)
from pulsar_barycenter.admin.routes import clusters
from pulsar_barycenter.admin.routes import resource_quotas as quotas
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName

_POLICY = Argument("policy")
_LIMITS: Final = {"min_limit", "usage_threshold"}
_NAMED = Flag("-n --namespace", "of", "The namespace; requires --bundle.")
_BUNDLE = Flag("-b --bundle", "range", "The hash range; requires --namespace.")
_QUOTA: Final = {
    "msgRateIn": Flag("-mi --msgRateIn", "rate_in", "Incoming messages per second.", Kind.NUMBER, required=True),
    "msgRateOut": Flag("-mo --msgRateOut", "rate_out", "Outgoing messages per second.", Kind.NUMBER, required=True),
    "bandwidthIn": Flag("-bi --bandwidthIn", "bytes_in", "Incoming bytes per second.", Kind.NUMBER, required=True),
    "bandwidthOut": Flag("-bo --bandwidthOut", "bytes_out", "Outgoing bytes per second.", Kind.NUMBER, required=True),
    "memory": Flag("-mem --memory", "memory", "Megabytes of memory.", Kind.NUMBER, required=True),
    "dynamic": Flag("-d --dynamic", "dynamic", "The load manager may change the quota.", Kind.SWITCH),
}


def _isolation_body(values: Values) -> dict[str, Any]:
    limits = values["params"]
    if set(limits) != _LIMITS:
        raise WrongUsageError(
            "--auto-failover-policy-params needs exactly two values: give min_limit=N,usage_threshold=PERCENT"
        )
    body = {
        "namespaces": values["namespaces"],
        "primary": values["primary"],
        "secondary": values["secondary"] or [],
        "auto_failover_policy": {"policy_type": values["type"], "parameters": limits},
    }
    return {**body, "unload_scope": values["scope"]} if values["scope"] else body


def _of_bundle(values: Values) -> Values | None:
    """Return the values that the user gave, with the full name of the namespace; None if the user named no bundle,
    which means all bundles.
    """
    if (values["of"] is None) != (values["range"] is None):
        raise WrongUsageError("--namespace needs --bundle, and --bundle needs --namespace: give both or neither")
    if values["of"] is None:
        return None
    try:
        return {**values, "namespace": str(NamespaceName.parse(values["of"]))}
    except InvalidNameError as error:
        raise WrongUsageError(f"--namespace: {error}") from error


async def _get_quota(session: Session, values: Values) -> Any:
    bundle = _of_bundle(values)
    return await send(session, quotas.GET_DEFAULT_QUOTA if bundle is None else quotas.GET_QUOTA, bundle)


async def _set_quota(session: Session, values: Values) -> None:
    bundle = _of_bundle(values)
    body = fields(values, {field: flag.key for field, flag in _QUOTA.items()})
    await send(session, quotas.SET_DEFAULT_QUOTA if bundle is None else quotas.SET_QUOTA, bundle, body=body)


async def _reset_quota(session: Session, values: Values) -> None:
    bundle = _of_bundle(values)
    if bundle is None:
        raise WrongUsageError(
            "the default quota can be set, but not removed: name a bundle with --namespace and --bundle, "
            "or use `resource-quotas set`"
        )
    await send(session, quotas.DELETE_QUOTA, bundle)


ISOLATION: Final = Resource(
    "ns-isolation-policy",
    "Isolation policies: which brokers are reserved for which namespaces.",
    (
        command(
            "set",
            "Set a policy.",
            request(clusters.SET_POLICY, body=_isolation_body),
            CLUSTER,
            _POLICY,
            Flag(
                "--namespaces", "namespaces", "Regexes of namespaces, separated by commas.", Kind.NAMES, required=True
            ),
            Flag("--primary", "primary", "Regexes of brokers, separated by commas.", Kind.NAMES, required=True),
            Flag("--secondary", "secondary", "Regexes of brokers to use if too few primary ones are live.", Kind.NAMES),
            Flag(
                "--auto-failover-policy-type",
                "type",
                "When secondary brokers are used.",
                choices=("min_available",),
                required=True,
            ),
            Flag("--auto-failover-policy-params", "params", "min_limit=N,usage_threshold=P", Kind.PAIRS, required=True),
            Flag("--unload-scope", "scope", "The namespaces to unload.", choices=("all_matching", "changed", "none")),
        ),
        command("get", "Show a policy.", request(clusters.GET_POLICY), CLUSTER, _POLICY),
        command("list", "Show all policies.", request(clusters.LIST_POLICIES), CLUSTER),
        command("delete", "Delete a policy.", request(clusters.DELETE_POLICY), CLUSTER, _POLICY),
        command("brokers", "Show the policies of all brokers.", request(clusters.LIST_POLICIES_OF_BROKERS), CLUSTER),
        command(
            "broker",
            "Show the policies of a broker.",
            request(clusters.GET_POLICIES_OF_BROKER),
            CLUSTER,
            Flag("--broker", "broker", "The broker, HOST:PORT.", required=True),
        ),
    ),
)

QUOTAS: Final = Resource(
    "resource-quotas",
    "The resource quotas of bundles, which the simple load manager uses.",
    (
        command("get", "Show the quota of a bundle, or the default quota.", _get_quota, _NAMED, _BUNDLE),
        command(
            "set", "Set the quota of a bundle, or the default quota.", _set_quota, _NAMED, _BUNDLE, *_QUOTA.values()
        ),
        command(
            "reset-namespace-bundle-quota", "Use the default quota for a bundle again.", _reset_quota, _NAMED, _BUNDLE
        ),
    ),
)
