"""The topics of the extensible load manager, as a client's listener receives their messages."""

from collections.abc import Callable
from typing import Any, cast

import pulsar
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, TopBundlesLoadData
from pulsar_barycenter.load.reports.load_report import encode_without_none
from pulsar_barycenter.naming.internal_topics import BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC
from pulsar_barycenter.observer import extensible_topics
from pulsar_barycenter.observer.extensible_topics import PulsarExtensibleTopics


class Message:
    def __init__(self, key: str, value: bytes) -> None:
        self._key, self._value = key, value

    def partition_key(self) -> str:
        return self._key

    def data(self) -> bytes:
        return self._value

    def topic_name(self) -> str:
        return BROKER_LOAD_TOPIC


class Client:
    """Keeps the listeners that are subscribed, and counts what they acknowledge."""

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[Any, Any], None]] = {}
        self.acknowledged = 0

    def subscribe(self, topic: str, name: str, *, message_listener: Callable[[Any, Any], None]) -> None:
        self.listeners[topic] = message_listener

    def acknowledge(self, message: Message) -> None:
        self.acknowledged += 1

    def publish(self, topic: str, key: str, value: bytes) -> None:
        self.listeners[topic](self, Message(key, value))


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def topics(client: Client) -> PulsarExtensibleTopics:
    return PulsarExtensibleTopics(cast(pulsar.Client, client), "test")


def test_the_newest_of_each_broker_counts_until_a_tombstone(client: Client, topics: PulsarExtensibleTopics) -> None:
    for usage in (0.1, 0.5):
        client.publish(BROKER_LOAD_TOPIC, "a:1", encode_without_none(BrokerLoadData(max_resource_usage=usage)))
    client.publish(BROKER_LOAD_TOPIC, "b:1", encode_without_none(BrokerLoadData()))
    client.publish(TOP_BUNDLES_TOPIC, "a:1", encode_without_none(TopBundlesLoadData()))
    seen = topics.loads
    assert seen["a:1"].max_resource_usage == 0.5
    client.publish(BROKER_LOAD_TOPIC, "a:1", b"")
    client.publish(BROKER_LOAD_TOPIC, "c:1", b"")
    assert (sorted(topics.loads), sorted(topics.tops)) == (["b:1"], ["a:1"])
    assert sorted(seen) == ["a:1", "b:1"], "what was handed out does not change"
    assert client.acknowledged == 6


def test_what_cannot_be_read_is_logged_and_the_last_known_stays(client: Client, topics: PulsarExtensibleTopics) -> None:
    client.publish(BROKER_LOAD_TOPIC, "a:1", encode_without_none(BrokerLoadData(max_resource_usage=0.5)))
    with capture_logs() as logged:
        for _ in range(3):
            client.publish(BROKER_LOAD_TOPIC, "a:1", b'{"maxResourceUsage": []}')
    assert [(line["event"], line["broker"]) for line in logged] == [("load_data_refused", "a:1")], "once"
    assert topics.loads["a:1"].max_resource_usage == 0.5
    assert client.acknowledged == 4


def test_no_more_brokers_are_kept_than_the_bound(
    client: Client, topics: PulsarExtensibleTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extensible_topics, "MAX_BROKERS", 2)
    with capture_logs() as logged:
        for name in ("", "a:1", "x" * 3_000, "b:1", "c:1", "a:1"):
            client.publish(BROKER_LOAD_TOPIC, name, encode_without_none(BrokerLoadData()))
    assert sorted(topics.loads) == ["a:1", "b:1"]
    assert [line["event"] for line in logged] == ["load_data_refused"]
