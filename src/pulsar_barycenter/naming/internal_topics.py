"""The topics in which brokers of the extensible load manager tell each other who owns what and how loaded they are.

The leader serves them, whoever owns their namespace: else finding the owner of a bundle would need the topic that tells
it. Source: Pulsar's `ServiceUnitStateTableViewImpl.TOPIC`, `BrokerLoadDataStore` and `TopBundleLoadDataStore`.
"""

from typing import Final

from pulsar_barycenter.naming.topic import TopicName

SERVICE_UNIT_STATE_TOPIC: Final = "persistent://pulsar/system/loadbalancer-service-unit-state"
"""The ownership channel: key is a bundle."""
BROKER_LOAD_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-broker-load-data"
"""Key is a broker id."""
TOP_BUNDLES_TOPIC: Final = "non-persistent://pulsar/system/loadbalancer-top-bundles-load-data"
"""Key is a broker id."""

INTERNAL_TOPICS: Final = (SERVICE_UNIT_STATE_TOPIC, BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC)


def is_internal_topic(topic: TopicName) -> bool:
    """Tell whether the leader serves `topic`: one of the three, or any whose full name begins with one of theirs.

    So their partitions are, too. Source: Pulsar's `ExtensibleLoadManagerImpl.isInternalTopic`.
    """
    return str(topic).startswith(INTERNAL_TOPICS)
