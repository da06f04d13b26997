"""Policies of single topics with broker processes and the stock Python client."""

import time
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.testing import Cluster
from support.stock_client import connect
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster for tests")]

DEADLINE_S = 30.0
CONFIG = {
    "messageExpiryCheckIntervalInMinutes": 0.005,
    "backlogQuotaCheckIntervalInSeconds": 0.2,
}
TOPICS = [f"persistent://public/own/t{number}" for number in range(4)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, CONFIG) as running:
        running.create_namespace("public/own", 4)
        yield running


@pytest.fixture
def client(cluster: Cluster) -> Iterator[pulsar.Client]:
    client = connect(cluster.service_url)
    yield client
    client.close()


def policy(cluster: Cluster, method: str, topic: str, path: str, body: Any = None) -> Any:
    return cluster.admin(method, f"/admin/v2/{topic.replace('://', '/')}/{path}", body)


def backlog(cluster: Cluster, topic: str) -> int:
    return int(policy(cluster, "GET", topic, "stats")["subscriptions"]["s"]["msgBacklog"])


def takes_a_producer(client: pulsar.Client, topic: str) -> bool:
    """Whether another producer is accepted: by a limit that changes last, one sees that its owner obeys the others."""
    try:
        client.create_producer(topic).close()
    except pulsar.PulsarException:
        return False
    return True


def test_a_topic_has_its_own_limits_expiry_and_quota(cluster: Cluster, client: pulsar.Client) -> None:
    limited, expiring, bounded, other = TOPICS
    producers = {topic: client.create_producer(topic, batching_enabled=False) for topic in TOPICS}
    for topic in TOPICS:
        client.subscribe(topic, "s").close()
        producers[topic].send(b"x" * 1000)
    policy(cluster, "POST", limited, "maxProducers", 1)
    policy(cluster, "POST", expiring, "messageTTL?messageTTL=1")
    policy(cluster, "POST", bounded, "backlogQuota", {"limitSize": 500, "policy": "consumer_backlog_eviction"})
    until(lambda: backlog(cluster, expiring) == 0, "the message expires")
    until(lambda: backlog(cluster, bounded) == 0, "the message is evicted")
    assert backlog(cluster, other) == backlog(cluster, limited) == 1
    until(lambda: not takes_a_producer(client, limited), "the limit is in force")
    assert takes_a_producer(client, other)
    policy(cluster, "DELETE", limited, "maxProducers")
    until(lambda: takes_a_producer(client, limited), "the limit is gone")


def test_policies_outlive_the_death_of_the_broker_that_has_them(cluster: Cluster, client: pulsar.Client) -> None:
    topic = "persistent://public/own/outlives"
    client.create_producer(topic).close()
    policy(cluster, "POST", topic, "maxProducers", 1)
    policy(cluster, "POST", topic, "subscriptionTypesEnabled", ["Shared"])
    events = cluster.owner("persistent://public/own/__change_events")
    cluster.kill(events)
    cluster.restart(events)
    until(lambda: policy(cluster, "GET", topic, "maxProducers") == 1, "the policy is shown")
    first = client.create_producer(topic)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "s")
    client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared).close()
    first.close()


def test_deliveries_and_producers_keep_the_rates_of_a_topic(cluster: Cluster, client: pulsar.Client) -> None:
    """Ratios of what passed to what the elapsed time allows; the time is measured, and has no bound."""
    topic = "persistent://public/own/rates"
    producer = client.create_producer(topic, batching_enabled=False)
    policy(cluster, "POST", topic, "publishRate", {"publishThrottlingRateInMsg": 50})
    policy(cluster, "POST", topic, "maxProducers", 1)
    until(lambda: not takes_a_producer(client, topic), "the policies are in force")
    began = time.monotonic()
    for number in range(100):
        producer.send(b"%d" % number)
    assert 50 * (time.monotonic() - began + 1) + 1 >= 100, "one period passes at once"
    policy(cluster, "DELETE", topic, "publishRate")
    policy(cluster, "POST", topic, "dispatchRate", {"dispatchThrottlingRateInMsg": 50})
    policy(cluster, "DELETE", topic, "maxProducers")
    until(lambda: takes_a_producer(client, topic), "the policies are in force")
    began = time.monotonic()
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    numbers = [int(reader.read_next(20_000).data()) for _ in range(100)]
    assert 50 * (time.monotonic() - began + 1) + 1 >= 100
    assert numbers == list(range(100)), "in order, each once"
    reader.close()
