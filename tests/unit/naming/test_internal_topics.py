"""Which topics the leader serves."""

import pytest

from pulsar_barycenter.naming.internal_topics import (
    BROKER_LOAD_TOPIC,
    INTERNAL_TOPICS,
    SERVICE_UNIT_STATE_TOPIC,
    TOP_BUNDLES_TOPIC,
    is_internal_topic,
)
from pulsar_barycenter.naming.topic import TopicName


@pytest.mark.parametrize(
    "name",
    [*INTERNAL_TOPICS, f"{SERVICE_UNIT_STATE_TOPIC}-partition-3", f"{TOP_BUNDLES_TOPIC}-of-old", BROKER_LOAD_TOPIC],
)
def test_internal(name: str) -> None:
    assert is_internal_topic(TopicName.parse(name))


@pytest.mark.parametrize(
    "name",
    [
        "persistent://pulsar/system/other",
        "non-persistent://pulsar/system/loadbalancer-service-unit-state",
        "persistent://pulsar/system/loadbalancer-broker-load-data",
        "persistent://public/default/loadbalancer-service-unit-state",
    ],
)
def test_not_internal(name: str) -> None:
    assert not is_internal_topic(TopicName.parse(name))
