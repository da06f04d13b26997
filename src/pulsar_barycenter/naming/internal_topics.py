"""The three topics in which the brokers of an extensible load manager publish bundle ownership and load.

The leader serves these topics, even if another broker owns their namespace. Otherwise a broker would need the ownership
topic to find the owner of the ownership topic.

Source: Pulsar's `ServiceUnitStateTableViewImpl.TOPIC`, `BrokerLoadDataStore` and `TopBundleLoadDataStore`.
"""

from typing import Final

from pulsar_barycenter.naming.topic import TopicName

SERVICE_UNIT_STATE_TOPIC: Final = "persistent://pulsar/system/loadbalancer-service-unit-state"
"""The topic in which brokers publish who owns each bundle. The key of a message is a bundle."""
BROKER_LOAD_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-broker-load-data"
"""The topic in which each broker publishes its load. The key of a message is a broker id."""
TOP_BUNDLES_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data"
"""The topic in which each broker publishes its bundles with the highest load. The key of a message is a broker id."""

INTERNAL_TOPICS: Final = (SERVICE_UNIT_STATE_TOPIC, BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC)


def is_internal_topic(topic: TopicName) -> bool:
    """Return whether `topic` is one of the three topics that the leader serves, or a partition of such a topic.

    As in Pulsar, only the beginning of the topic's full name is compared, so the result is also True for any other
    topic whose full name begins with one of the three names. Source: Pulsar's
    `ExtensibleLoadManagerImpl.isInternalTopic`.
    """
    return str(topic).startswith(INTERNAL_TOPICS)
