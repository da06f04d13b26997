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
    filled,
    request,
)
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName

_POLICY = Argument("policy")
_ALL: Final = "/clusters/{cluster}/namespaceIsolationPolicies"
_ONE: Final = _ALL + "/{policy}"
_LIMITS: Final = {"min_limit", "usage_threshold"}
_NAMED = Flag("-n --namespace", "of", "The namespace; goes with --bundle.")
_BUNDLE = Flag("-b --bundle", "bundle", "The hash range; goes with --namespace.")
_QUOTA: Final = {
    "msgRateIn": Flag("-mi --msgRateIn", "rate_in", "Incoming messages a second.", Kind.NUMBER, required=True),
    "msgRateOut": Flag("-mo --msgRateOut", "rate_out", "Outgoing messages a second.", Kind.NUMBER, required=True),
    "bandwidthIn": Flag("-bi --bandwidthIn", "bytes_in", "Incoming bytes a second.", Kind.NUMBER, required=True),
    "bandwidthOut": Flag("-bo --bandwidthOut", "bytes_out", "Outgoing bytes a second.", Kind.NUMBER, required=True),
    "memory": Flag("-mem --memory", "memory", "Megabytes of memory.", Kind.NUMBER, required=True),
    "dynamic": Flag("-d --dynamic", "dynamic", "The load manager may change it.", Kind.SWITCH),
}


def _isolation_body(values: Values) -> dict[str, Any]:
    limits = values["params"]
    if set(limits) != _LIMITS:
        raise WrongUsageError("--auto-failover-policy-params: give min_limit=N,usage_threshold=PERCENT")
    body = {
        "namespaces": values["namespaces"],
        "primary": values["primary"],
        "secondary": values["secondary"] or [],
        "auto_failover_policy": {"policy_type": values["type"], "parameters": limits},
    }
    return {**body, "unload_scope": values["scope"]} if values["scope"] else body


def _quota_path(values: Values) -> str:
    """Return where the quota of a bundle is, or that of all bundles without one."""
    if (values["of"] is None) != (values["bundle"] is None):
        raise WrongUsageError("--namespace and --bundle go together")
    if values["of"] is None:
        return "/resource-quotas"
    try:
        namespace = str(NamespaceName.parse(values["of"]))
    except InvalidNameError as error:
        raise WrongUsageError(f"--namespace: {error}") from error
    return filled("/resource-quotas/{namespace}/{bundle}", {**values, "namespace": namespace})


async def _get_quota(session: Session, values: Values) -> Any:
    return await session.call("GET", _quota_path(values))


async def _set_quota(session: Session, values: Values) -> None:
    body = fields(values, {field: flag.key for field, flag in _QUOTA.items()})
    await session.call("POST", _quota_path(values), body=body)


async def _reset_quota(session: Session, values: Values) -> None:
    await session.call("DELETE", _quota_path(values))


ISOLATION: Final = Resource(
    "ns-isolation-policy",
    "Which brokers serve which namespaces alone.",
    (
        command(
            "set",
            "Set a policy.",
            request("POST", _ONE, body=_isolation_body),
            CLUSTER,
            _POLICY,
            Flag(
                "--namespaces", "namespaces", "Regexes of namespaces, separated by commas.", Kind.NAMES, required=True
            ),
            Flag("--primary", "primary", "Regexes of brokers, separated by commas.", Kind.NAMES, required=True),
            Flag("--secondary", "secondary", "Regexes of brokers that help out.", Kind.NAMES),
            Flag("--auto-failover-policy-type", "type", "When they do.", choices=("min_available",), required=True),
            Flag("--auto-failover-policy-params", "params", "min_limit=N,usage_threshold=P", Kind.PAIRS, required=True),
            Flag("--unload-scope", "scope", "What is placed anew.", choices=("all_matching", "changed", "none")),
        ),
        command("get", "Show a policy.", request("GET", _ONE), CLUSTER, _POLICY),
        command("list", "Show all policies.", request("GET", _ALL), CLUSTER),
        command("delete", "Delete a policy.", request("DELETE", _ONE), CLUSTER, _POLICY),
        command("brokers", "Show the policies of all brokers.", request("GET", _ALL + "/brokers"), CLUSTER),
        command(
            "broker",
            "Show the policies of a broker.",
            request("GET", _ALL + "/brokers/{broker}"),
            CLUSTER,
            Flag("--broker", "broker", "The broker, HOST:PORT.", required=True),
        ),
    ),
)

QUOTAS: Final = Resource(
    "resource-quotas",
    "What bundles are allotted by the simple load manager.",
    (
        command("get", "Show the quota of a bundle, or of all without one.", _get_quota, _NAMED, _BUNDLE),
        command(
            "set", "Set the quota of a bundle, or of all without one.", _set_quota, _NAMED, _BUNDLE, *_QUOTA.values()
        ),
        command("reset-namespace-bundle-quota", "Have the quota of all count.", _reset_quota, _NAMED, _BUNDLE),
    ),
)
