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
    "Show what each role may in the namespace, at all its topics.",
)

GET_SUBSCRIPTION_PERMISSIONS: Final = PERMISSIONS.route(
    "GET",
    _NAMESPACE + "/permissions/subscription",
    "of_subscriptions",
    OnNamespace(NamespaceOperation.GET_PERMISSION),
    "Show the subscriptions that are for certain roles alone, with these.",
)

GRANT: Final = PERMISSIONS.route(
    "POST",
    _NAMESPACE + "/permissions/{role}",
    "grant",
    OnNamespace(NamespaceOperation.GRANT_PERMISSION),
    "Let a role do what the body lists, of produce, consume, functions, sources, sinks, packages; nothing else.",
    body=list[str],
    by_leader=True,
)

REVOKE: Final = PERMISSIONS.route(
    "DELETE",
    _NAMESPACE + "/permissions/{role}",
    "revoke",
    OnNamespace(NamespaceOperation.REVOKE_PERMISSION),
    "Take from a role what was granted to it in the namespace.",
    by_leader=True,
)

GRANT_ON_SUBSCRIPTION: Final = PERMISSIONS.route(
    "POST",
    _NAMESPACE + "/permissions/subscription/{subscription}",
    "grant_on_subscription",
    OnNamespace(NamespaceOperation.GRANT_PERMISSION),
    "Have a subscription be for the roles in the body alone, at whatever topic; for none: for all again.",
    body=list[str],
    by_leader=True,
)

REVOKE_ON_SUBSCRIPTION: Final = PERMISSIONS.route(
    "DELETE",
    _NAMESPACE + "/permissions/{subscription}/{role}",
    "revoke_on_subscription",
    OnNamespace(NamespaceOperation.REVOKE_PERMISSION),
    "Take a role out of those that a subscription is for; without the last of them it is for all.",
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
    "Have names of subscriptions begin with the role that uses them (Prefix) or not (None).",
    body=str,
    by_leader=True,
)

GET_TOPIC_PERMISSIONS: Final = PERMISSIONS.route(
    "GET",
    TOPIC + "/permissions",
    "of_topic",
    OnNamespace(NamespaceOperation.GET_PERMISSION),
    "Show what each role may at a topic, by grants on its namespace, too.",
)

GRANT_ON_TOPIC: Final = PERMISSIONS.route(
    "POST",
    TOPIC + "/permissions/{role}",
    "grant_on_topic",
    OnNamespace(NamespaceOperation.GRANT_PERMISSION),
    "Let a role do what the body lists at a topic and its partitions.",
    body=list[str],
    by_leader=True,
)

REVOKE_ON_TOPIC: Final = PERMISSIONS.route(
    "DELETE",
    TOPIC + "/permissions/{role}",
    "revoke_on_topic",
    OnNamespace(NamespaceOperation.REVOKE_PERMISSION),
    "Take from a role what was granted to it at a topic; 412 if that was nothing.",
    by_leader=True,
)
