"""Retention, TTL and backlog quotas with broker processes and the stock Python client."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.testing import Cluster
from support.stock_client import connect
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster for tests")]

RECEIVE_MS = 20_000
DEADLINE_S = 30.0
CONFIG = {
    "managedLedgerMaxEntriesPerLedger": 10,
    "retentionCheckIntervalInSeconds": 0.2,
    "messageExpiryCheckIntervalInMinutes": 0.005,
    "backlogQuotaCheckIntervalInSeconds": 0.2,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, CONFIG) as running:
        yield running


NUMBERS = count()


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    name = f"public/of-test-{next(NUMBERS)}"
    cluster.create_namespace(name, 1)
    return name


@contextmanager
def client_of(cluster: Cluster) -> Iterator[pulsar.Client]:
    client = connect(cluster.service_url)
    try:
        yield client
    finally:
        client.close()


def policy(cluster: Cluster, method: str, namespace: str, path: str, body: Any = None) -> Any:
    return cluster.admin(method, f"/admin/v2/namespaces/{namespace}/{path}", body)


def subscription(cluster: Cluster, topic: str) -> Any:
    stats = cluster.admin("GET", f"/admin/v2/{topic.replace('://', '/')}/stats")
    return stats["subscriptions"]["s"]


def send(client: pulsar.Client, topic: str, *numbers: int) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    for number in numbers:
        producer.send(b"%d" % number)
    producer.close()


def read(client: pulsar.Client, topic: str) -> list[int]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(int(reader.read_next(RECEIVE_MS).data()))
    reader.close()
    return found


def ledgers(cluster: Cluster, topic: str) -> int:
    return len(cluster.admin("GET", f"/admin/v2/{topic.replace('://', '/')}/internalStats")["ledgers"])


def test_what_is_acknowledged_is_read_again_within_retention(cluster: Cluster, namespace: str) -> None:
    """Also after its broker was killed; when the retention is removed, it is deleted."""
    topic = f"persistent://{namespace}/t"
    policy(cluster, "POST", namespace, "retention", {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1})
    with client_of(cluster) as client:
        consumer = client.subscribe(topic, "s")
        send(client, topic, *range(35))
        for _ in range(35):
            consumer.acknowledge(consumer.receive(RECEIVE_MS))
        consumer.close()
        until(lambda: subscription(cluster, topic)["msgBacklog"] == 0, "everything is acknowledged")
        assert read(client, topic) == list(range(35))
    owner = cluster.owner(topic)
    cluster.kill(owner.index)
    cluster.restart(owner.index)
    with client_of(cluster) as client:
        assert read(client, topic) == list(range(35))
        consumer = client.subscribe(topic, "s")
        send(client, topic, 35)  # the ledger of the last message stays in any case
        while (message := consumer.receive(RECEIVE_MS)).data() != b"35":
            pass  # it was acknowledged, but not yet stored, before the kill
        consumer.acknowledge_cumulative(message)
        until(lambda: subscription(cluster, topic)["msgBacklog"] == 0, "everything is acknowledged again")
        policy(cluster, "DELETE", namespace, "retention")
        until(lambda: ledgers(cluster, topic) == 1, "without retention consumed ledgers are deleted")
        assert read(client, topic) == [35]


def test_messages_expire_while_nobody_consumes_them(cluster: Cluster, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    with client_of(cluster) as client:
        consumer = client.subscribe(topic, "s")
        consumer.close()
        send(client, topic, *range(25))
        assert subscription(cluster, topic)["msgBacklog"] == 25
        policy(cluster, "POST", namespace, "messageTTL", 1)
        until(lambda: subscription(cluster, topic)["msgBacklog"] == 0, "all messages have expired")
        assert subscription(cluster, topic)["totalMsgExpired"] == 25
        policy(cluster, "POST", namespace, "messageTTL", 3600)
        consumer = client.subscribe(topic, "s")
        send(client, topic, 25)
        assert consumer.receive(RECEIVE_MS).data() == b"25"


@pytest.mark.parametrize(
    ("policy_name", "error"),
    [
        ("producer_request_hold", pulsar.ProducerBlockedQuotaExceededError),
        ("producer_exception", pulsar.ProducerBlockedQuotaExceededException),
    ],
)
def test_producers_are_kept_away_by_a_large_backlog(
    cluster: Cluster, namespace: str, policy_name: str, error: type[Exception]
) -> None:
    """A producer that is attached is disconnected, and sends on by itself when the backlog is consumed."""
    topic = f"persistent://{namespace}/t"
    with client_of(cluster) as client:
        consumer = client.subscribe(topic, "s")
        attached = client.create_producer(topic, batching_enabled=False, send_timeout_millis=0)
        for _ in range(10):
            attached.send(b"x" * 100)
        policy(cluster, "POST", namespace, "backlogQuota", {"limitSize": 1000, "policy": policy_name})
        stats = f"/admin/v2/{topic.replace('://', '/')}/stats"
        until(lambda: not cluster.admin("GET", stats)["publishers"], "the producer is disconnected")
        with pytest.raises(error):
            client.create_producer(topic)
        for _ in range(10):
            consumer.acknowledge(consumer.receive(RECEIVE_MS))
        until(lambda: bool(cluster.admin("GET", stats)["publishers"]), "the producer attaches again")
        attached.send(b"last")
        assert consumer.receive(RECEIVE_MS).data() == b"last"


def test_a_large_backlog_loses_its_oldest_messages(cluster: Cluster, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    quota = {"limitSize": 2000, "policy": "consumer_backlog_eviction"}
    policy(cluster, "POST", namespace, "backlogQuota", quota)
    with client_of(cluster) as client:
        consumer = client.subscribe(topic, "s")
        consumer.close()
        producer = client.create_producer(topic, batching_enabled=False)
        for number in range(30):
            producer.send(b"%0100d" % number)
        until(lambda: subscription(cluster, topic)["msgBacklog"] < 20, "the oldest messages are evicted")
        consumer = client.subscribe(topic, "s")
        producer.send(b"%0100d" % 30)
        left = subscription(cluster, topic)["msgBacklog"]
        received = [int(consumer.receive(RECEIVE_MS).data()) for _ in range(left)]
        assert received == list(range(31 - left, 31))
