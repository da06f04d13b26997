"""Permissions on namespaces, subscriptions and topics. Source: Pulsar's `Namespaces`, `PersistentTopics`."""

from typing import Final

from pulsar_barycenter.admin.operations import NamespaceOperation
from pulsar_barycenter.admin.routes.rights import OnNamespace, reads, writes
from pulsar_barycenter.admin.routes.route import RouteGroup
from pulsar_barycenter.admin.routes.topics import TOPIC

_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"

PERMISSIONS: Final = RouteGroup("Permissions")

GET_PERMISSIONS: Final = PERMISSIONS.route(
    "GET",
    _NAMESPACE + "/permissions",
    "of_namespace",
    OnNamespace(NamespaceOperation.GET_PERMISSION),
    "Show the permissions of each role on all topics of the namespace.",
)

GET_SUBSCRIPTION_PERMISSIONS: Final = PERMISSIONS.route(
    "GET",
    _NAMESPACE + "/permissions/subscription",
    "of_subscriptions",
    OnNamespace(NamespaceOperation.GET_PERMISSION),
    "Show the subscriptions that only some roles may use, with these roles.",
)

GRANT: Final = PERMISSIONS.route(
    "POST",
    _NAMESPACE + "/permissions/{role}",
    "grant",
    OnNamespace(NamespaceOperation.GRANT_PERMISSION),
    "Set the permissions of a role to the list in the body: produce, consume, functions, sources, sinks, packages.",
    body=list[str],
    by_leader=True,
)

REVOKE: Final = PERMISSIONS.route(
    "DELETE",
    _NAMESPACE + "/permissions/{role}",
    "revoke",
    OnNamespace(NamespaceOperation.REVOKE_PERMISSION),
    "Revoke all permissions of a role on the namespace.",
    by_leader=True,
)

GRANT_ON_SUBSCRIPTION: Final = PERMISSIONS.route(
    "POST",
    _NAMESPACE + "/permissions/subscription/{subscription}",
    "grant_on_subscription",
    OnNamespace(NamespaceOperation.GRANT_PERMISSION),
    "Allow only the roles in the body to use a subscription, on any topic; with an empty list, all roles.",
    body=list[str],
    by_leader=True,
)

REVOKE_ON_SUBSCRIPTION: Final = PERMISSIONS.route(
    "DELETE",
    _NAMESPACE + "/permissions/{subscription}/{role}",
    "revoke_on_subscription",
    OnNamespace(NamespaceOperation.REVOKE_PERMISSION),
    "Remove a role from those that may use a subscription; without the last one, all roles may use it.",
    by_leader=True,
)

GET_SUBSCRIPTION_AUTH_MODE: Final = PERMISSIONS.route(
    "GET",
    _NAMESPACE + "/subscriptionAuthMode",
    "subscription_auth_mode",
    reads("SUBSCRIPTION_AUTH_MODE"),
    "Show whether names of subscriptions begin with the role that uses them (Prefix) or not (None).",
)

SET_SUBSCRIPTION_AUTH_MODE: Final = PERMISSIONS.route(
    "POST",
    _NAMESPACE + "/subscriptionAuthMode",
    "set_subscription_auth_mode",
    writes("SUBSCRIPTION_AUTH_MODE"),
    "Set whether names of subscriptions must begin with the role that uses them (Prefix) or not (None).",
    body=str,
    by_leader=True,
)

GET_TOPIC_PERMISSIONS: Final = PERMISSIONS.route(
    "GET",
    TOPIC + "/permissions",
    "of_topic",
    OnNamespace(NamespaceOperation.GET_PERMISSION),
    "Show the permissions of each role on a topic, including those on its namespace.",
)

GRANT_ON_TOPIC: Final = PERMISSIONS.route(
    "POST",
    TOPIC + "/permissions/{role}",
    "grant_on_topic",
    OnNamespace(NamespaceOperation.GRANT_PERMISSION),
    "Set the permissions of a role on a topic and its partitions to the list in the body.",
    body=list[str],
    by_leader=True,
)

REVOKE_ON_TOPIC: Final = PERMISSIONS.route(
    "DELETE",
    TOPIC + "/permissions/{role}",
    "revoke_on_topic",
    OnNamespace(NamespaceOperation.REVOKE_PERMISSION),
    "Revoke all permissions of a role on a topic; 412 if it has none.",
    by_leader=True,
)
