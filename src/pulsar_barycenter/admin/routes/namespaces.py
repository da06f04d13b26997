"""Namespaces: bundles, policies and limits. Source: Pulsar's `Namespaces`."""

from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.admin.operations import NamespaceOperation, TenantOperation
from pulsar_barycenter.admin.routes.rights import SUPER_USER, OnNamespace, OnQueriedTenant, OnTenant, reads, writes
from pulsar_barycenter.admin.routes.route import FLAG, LARGEST_EXACT, TEXT, Route, RouteGroup, number, one_of

TOPIC_MODES: Final = ("PERSISTENT", "NON_PERSISTENT", "ALL")
"""The values of `mode`: which topics of a namespace are listed."""
_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"

NAMESPACES: Final = RouteGroup("Namespaces", "/admin/v2/namespaces/{tenant}")

LIST_NAMESPACES: Final = NAMESPACES.route(
    "GET", "", "of_tenant", OnTenant(TenantOperation.LIST_NAMESPACES), "List the namespaces of a tenant."
)

GET_POLICIES: Final = NAMESPACES.route(
    "GET", "/{namespace}", "get", reads("ALL"), "Show the policies of a namespace, with its present bundles."
)

CREATE_NAMESPACE: Final = NAMESPACES.route(
    "PUT",
    "/{namespace}",
    "create",
    OnTenant(TenantOperation.CREATE_NAMESPACE),
    "Create a namespace; the body may give the number of its bundles, or their boundaries.",
    body="Policies",
    by_leader=True,
)

DELETE_NAMESPACE: Final = NAMESPACES.route(
    "DELETE",
    "/{namespace}",
    "delete",
    OnTenant(TenantOperation.DELETE_NAMESPACE),
    "Delete a namespace; with `force` its topics too. `pulsar/system` cannot be deleted.",
    query={"force": FLAG},
    by_leader=True,
)

LIST_TOPICS: Final = NAMESPACES.route(
    "GET",
    "/{namespace}/topics",
    "topics",
    OnNamespace(NamespaceOperation.GET_TOPICS),
    "List topics: `mode` is PERSISTENT, NON_PERSISTENT (in the memory of the requested broker) or ALL.",
    query={"mode": one_of(*TOPIC_MODES), "includeSystemTopic": FLAG},
)

GET_BUNDLES: Final = NAMESPACES.route(
    "GET",
    "/{namespace}/bundles",
    "bundles",
    OnNamespace(NamespaceOperation.GET_BUNDLE),
    "Show the boundaries of the bundles.",
)

UNLOAD_NAMESPACE: Final = NAMESPACES.route(
    "PUT", "/{namespace}/unload", "unload", SUPER_USER, "Unload every bundle of the namespace, each through its owner."
)

UNLOAD_BUNDLE: Final = NAMESPACES.route(
    "PUT",
    "/{namespace}/{range}/unload",
    "unload_bundle",
    SUPER_USER,
    "Unload one bundle, on its owner; if a destination is named, first the leader is asked.",
    query={"destinationBroker": TEXT, "leaderEpoch": number(LARGEST_EXACT), "sentTo": TEXT},
)

SPLIT_BUNDLE: Final = NAMESPACES.route(
    "PUT",
    "/{namespace}/{range}/split",
    "split_bundle",
    SUPER_USER,
    "Split a bundle, or the LARGEST or HOT one; `splitAlgorithmName`, `unload`, positions in the body.",
    body=list[int],
    query={"splitAlgorithmName": TEXT, "unload": FLAG, "authoritative": FLAG, "leaderEpoch": number(LARGEST_EXACT)},
)

NAMESPACES.route(
    "DELETE",
    "/{namespace}/{range:[0-9][^/]*}",
    "delete_bundle",
    OnNamespace(NamespaceOperation.DELETE_BUNDLE),
    "Let the owner give up an empty bundle; with `force` also a bundle with topics.",
    query={"force": FLAG},
    without_command="only Pulsar's Java client sends it",
)

GET_HASH_POSITIONS: Final = NAMESPACES.route(
    "GET",
    "/{namespace}/{range}/topicHashPositions",
    "hash_positions",
    reads("PERSISTENCE"),
    "Show the hashes of the bundle's topics, or of the `topics` that are named.",
    query={"topics": TEXT},
)


NAMESPACE_POLICIES: Final = RouteGroup("NamespacePolicies")

GET_ANTI_AFFINITY_GROUP: Final = NAMESPACE_POLICIES.route(
    "GET",
    _NAMESPACE + "/antiAffinity",
    "anti_affinity_group",
    reads("ANTI_AFFINITY"),
    "Show the anti-affinity group of a namespace as plain text; 204 if it has no group.",
)

SET_ANTI_AFFINITY_GROUP: Final = NAMESPACE_POLICIES.route(
    "POST",
    _NAMESPACE + "/antiAffinity",
    "set_anti_affinity_group",
    writes("ANTI_AFFINITY"),
    "Put a namespace into the anti-affinity group that the body names, as text or as a JSON string.",
    body=str,
    by_leader=True,
)

DELETE_ANTI_AFFINITY_GROUP: Final = NAMESPACE_POLICIES.route(
    "DELETE",
    _NAMESPACE + "/antiAffinity",
    "delete_anti_affinity_group",
    writes("ANTI_AFFINITY"),
    "Remove a namespace from its anti-affinity group.",
    by_leader=True,
)

GET_DEDUPLICATION: Final = NAMESPACE_POLICIES.route(
    "GET",
    _NAMESPACE + "/deduplication",
    "deduplication",
    reads("DEDUPLICATION"),
    "Show whether topics of a namespace drop messages sent twice; 204 if brokerDeduplicationEnabled decides.",
)

SET_DEDUPLICATION: Final = NAMESPACE_POLICIES.route(
    "POST",
    _NAMESPACE + "/deduplication",
    "set_deduplication",
    writes("DEDUPLICATION"),
    "Set whether topics of a namespace drop messages sent twice; the body is true or false.",
    body=bool,
    by_leader=True,
)

DELETE_DEDUPLICATION: Final = NAMESPACE_POLICIES.route(
    "DELETE",
    _NAMESPACE + "/deduplication",
    "delete_deduplication",
    writes("DEDUPLICATION"),
    "Let brokerDeduplicationEnabled decide again for topics of a namespace.",
    by_leader=True,
)

SET_MIGRATED: Final = NAMESPACE_POLICIES.route(
    "POST",
    _NAMESPACE + "/migration",
    "set_migrated",
    SUPER_USER,
    "Store whether a namespace migrates with its cluster; without effect while the cluster does not migrate.",
    query={"migrated": FLAG},
    by_leader=True,
    without_command="it is stored without effect",
)

_OF_GROUP: Final = "List the namespaces of `tenant` that are in the anti-affinity group; case is ignored."
_TENANT: Final = {"tenant": TEXT, "property": TEXT}

LIST_OF_ANTI_AFFINITY_GROUP: Final = NAMESPACE_POLICIES.route(
    "GET",
    "/admin/v2/namespaces/{cluster}/antiAffinity/{group}",
    "of_anti_affinity_group",
    OnQueriedTenant(TenantOperation.LIST_NAMESPACES),
    _OF_GROUP,
    query=_TENANT,
)

NAMESPACE_POLICIES.route(
    "GET",
    "/admin/namespaces/{cluster}/antiAffinity/{group}",
    "of_anti_affinity_group",
    OnQueriedTenant(TenantOperation.LIST_NAMESPACES),
    _OF_GROUP,
    query=_TENANT,
    without_command="pulsar-admin up to 4.0 sends it for the same answer",
)


NAMESPACE_LIMITS: Final = RouteGroup("NamespaceLimits", _NAMESPACE)


@dataclass(frozen=True, slots=True)
class LimitRoutes:
    """The routes that show, change and remove one limit of a namespace."""

    show: Route
    change: Route
    remove: Route


def _limit(name: str, policy: str, unset: int = 204) -> LimitRoutes:
    """Add the three routes of a limit to the route table, and return them. `unset` is the status of the answer if the
    namespace has no limit.
    """
    return LimitRoutes(
        NAMESPACE_LIMITS.route(
            "GET",
            f"/{name}",
            "show",
            reads(policy),
            f"Show the {name} of a namespace; {unset} if the configuration applies.",
        ),
        NAMESPACE_LIMITS.route(
            "POST",
            f"/{name}",
            "change",
            writes(policy),
            f"Set the {name} of a namespace; 0 is no limit.",
            body="Limit",
            by_leader=True,
        ),
        NAMESPACE_LIMITS.route(
            "DELETE",
            f"/{name}",
            "remove",
            writes(policy),
            f"Let the configuration's {name} apply to a namespace again.",
            by_leader=True,
        ),
    )


TOPICS_PER_NAMESPACE: Final = _limit("maxTopicsPerNamespace", "MAX_TOPICS", unset=0)
PRODUCERS_PER_TOPIC: Final = _limit("maxProducersPerTopic", "MAX_PRODUCERS")
CONSUMERS_PER_TOPIC: Final = _limit("maxConsumersPerTopic", "MAX_CONSUMERS")
CONSUMERS_PER_SUBSCRIPTION: Final = _limit("maxConsumersPerSubscription", "MAX_CONSUMERS")
SUBSCRIPTIONS_PER_TOPIC: Final = _limit("maxSubscriptionsPerTopic", "MAX_SUBSCRIPTIONS")
