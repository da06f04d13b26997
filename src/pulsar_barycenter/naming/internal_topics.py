"""The topics in which brokers of the extensible load manager publish ownership and load.

The leader serves them, whichever broker owns their namespace. Otherwise a broker would need the ownership topic to find
the owner of the ownership topic.

Source: Pulsar's `ServiceUnitStateTableViewImpl.TOPIC`, `BrokerLoadDataStore` and `TopBundleLoadDataStore`.
"""

from typing import Final

from pulsar_barycenter.naming.topic import TopicName

SERVICE_UNIT_STATE_TOPIC: Final = "persistent://pulsar/system/loadbalancer-service-unit-state"
"""The ownership channel. The key of a message is a bundle."""
BROKER_LOAD_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-broker-load-data"
"""The key of a message is a broker id."""
TOP_BUNDLES_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data"
"""The key of a message is a broker id."""

INTERNAL_TOPICS: Final = (SERVICE_UNIT_STATE_TOPIC, BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC)


def is_internal_topic(topic: TopicName) -> bool:
    """Return whether the leader serves `topic`: its full name begins with that of one of the three topics.

    So their partitions are included. Source: Pulsar's `ExtensibleLoadManagerImpl.isInternalTopic`.
    """
    return str(topic).startswith(INTERNAL_TOPICS)
