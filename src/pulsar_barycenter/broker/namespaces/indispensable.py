"""Prevents that tenants, namespaces, topics and clusters are deleted which the brokers themselves need.

| name                                             | reason                                                           |
|--------------------------------------------------|------------------------------------------------------------------|
| tenant `pulsar`                                  | it contains `pulsar/system`                                      |
| namespace `pulsar/system`                        | its topics are the brokers' own, for example ownership records   |
| the internal topics (`naming/internal_topics`)   | brokers exchange ownership and load in them                      |
| their subscription `__compaction`                | without it ownership records that were compacted are lost        |
| the brokers' own cluster                         | namespaces are created for it                                    |

Heartbeat namespaces may be deleted: they exist without a record, and their topics are created again. Each function
returns the reason why a name must not be deleted, as an error message, or None if it may be deleted.
"""

from pulsar_barycenter.naming.internal_topics import is_internal_topic
from pulsar_barycenter.naming.namespace import SYSTEM_NAMESPACE, NamespaceName, is_system_namespace
from pulsar_barycenter.naming.topic import TopicName


def why_tenant_stays(tenant: str) -> str | None:
    if tenant != SYSTEM_NAMESPACE.tenant:
        return None
    return f"Tenant {tenant} cannot be deleted: it holds {SYSTEM_NAMESPACE}, which the brokers need"


def why_namespace_stays(namespace: NamespaceName) -> str | None:
    if not is_system_namespace(namespace):
        return None
    return f"Namespace {namespace} cannot be deleted: it holds the topics that the brokers need"


def why_topic_stays(topic: TopicName) -> str | None:
    if not is_internal_topic(topic):
        return None
    return f"Topic {topic} cannot be deleted: the brokers exchange ownership and load in it"


def why_subscription_stays(topic: TopicName, subscription: str) -> str | None:
    if not is_internal_topic(topic):
        return None
    return f"Subscription {subscription!r} of {topic} cannot be deleted: the topic is the brokers' own"


def why_cluster_stays(cluster: str, own: str) -> str | None:
    if cluster != own:
        return None
    return f"Cluster {cluster} cannot be deleted: it is the cluster of the brokers themselves"
