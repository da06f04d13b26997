"""Removes the grants on a topic when the topic is deleted, so that a new topic with this name does not inherit them.

Source: Pulsar's `BrokerService.deleteTopicAuthenticationWithRetry`. Here a topic that is deleted because it is unused
keeps its grants, so that an administrator can grant before the topic is used.
"""

from msgspec.structs import replace

from pulsar_barycenter.broker.authorization.grants import forget_topic, has_grants_of
from pulsar_barycenter.broker.namespaces.resources import Resources
from pulsar_barycenter.naming.topic import TopicName


async def forget_grants(resources: Resources, topic: TopicName) -> None:
    """Remove the grants on a deleted topic and its partitions from the namespace's policies. If the configuration of
    the cluster makes policies read-only, this does nothing, and raises no error.
    """
    name = str(topic.namespace)
    policies = await resources.namespaces.get(name)
    if policies is None or not has_grants_of(policies.auth_policies, topic):
        return
    if await resources.policies_are_read_only():
        return
    await resources.namespaces.update(
        name, lambda found: replace(found, auth_policies=forget_topic(found.auth_policies, topic))
    )
