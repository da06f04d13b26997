"""Topics on bookies that Java and Python brokers serve in turn: numbered messages, and who still has to get which."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pulsar

from support.apache_pulsar import QUICK
from support.stock_client import connect

LEDGER_KEYS: Final = {
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "managedLedgerMaxEntriesPerLedger": "20",
}
COMMON_KEYS: Final = {
    **LEDGER_KEYS,
    "metadataStoreSessionTimeoutMillis": "5000",
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    "loadBalancerBrokerOverloadedThresholdPercentage": "100",  # a busy machine is none of the cluster's
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
}
JAVA_KEYS: Final = {
    **COMMON_KEYS,
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "systemTopicEnabled": "false",
    "topicLevelPoliciesEnabled": "false",
}
PYTHON_KEYS: Final = {
    **COMMON_KEYS,
    "clusterName": "c1",
    "barycenterLedgerStorage": "bookkeeper",
    "barycenterLedgerRecords": "pulsar",
    "leaderOnlyMetadataWrites": "false",
}
WITHOUT_TLS: Final = replace(QUICK, has_tls=False)
"""Brokers of Pulsar beside those of Barycenter, which have no TLS: a leader with TLS sends requests over TLS only."""
WAIT_MS: Final = 60_000
_SUBSCRIPTION: Final = "some"
_ALL: Final = "all"


@dataclass
class SharedTopic:
    """A topic with numbered messages. The subscription `all` gets every message once, at the end."""

    name: str
    sent: int = 0
    due: list[int] = field(default_factory=list)
    """The messages that are not acknowledged at the other subscription, in order."""

    @property
    def rest(self) -> str:
        return f"/admin/v2/{self.name.replace('://', '/')}"

    def subscribe(self, url: str) -> None:
        """Create both subscriptions, before the first message."""
        with _client(url) as client:
            for subscription in (_SUBSCRIPTION, _ALL):
                _consumer(client, self.name, subscription).close()

    def send(self, url: str, count: int, *, batch: int = 1) -> None:
        """Send `count` messages in batches of `batch`."""
        numbers = range(self.sent, self.sent + count)
        with _client(url) as client:
            producer = client.create_producer(
                self.name,
                batching_enabled=batch > 1,
                batching_max_messages=max(batch, 2),
                batching_max_publish_delay_ms=60_000,
                block_if_queue_full=True,
            )
            failures: list[Any] = []
            for number in numbers:
                producer.send_async(
                    b"%d" % number,
                    lambda result, _: failures.append(result) if result != pulsar.Result.Ok else None,
                )
            producer.flush()
            assert not failures, failures[:3]
        self.sent += count
        self.due += numbers

    def consume(self, url: str, acknowledges: Callable[[int], bool], *, is_exact: bool = True) -> None:
        """Receive what is due, and acknowledge the messages of which `acknowledges` is true.

        If not `is_exact`, acknowledged messages may come again, as a broker was killed before it stored that.
        """
        with _client(url) as client:
            consumer = _consumer(client, self.name, _SUBSCRIPTION)
            messages = [consumer.receive(timeout_millis=WAIT_MS) for _ in self.due]
            got = [int(message.data()) for message in messages]
            while not is_exact and not set(self.due) <= set(got):
                messages.append(consumer.receive(timeout_millis=WAIT_MS))
                got.append(int(messages[-1].data()))
            assert got == (self.due if is_exact else sorted(got)), (got[:50], self.due[:50])
            acknowledged = {number for number in got if acknowledges(number)} | set(got) - set(self.due)
            for message, number in zip(messages, got, strict=True):
                if number in acknowledged:
                    consumer.acknowledge(message)
            consumer.close()  # sends the acknowledgements that wait to be sent in a group
        self.due = [number for number in self.due if number not in acknowledged]

    def read_all(self, url: str) -> None:
        """Receive every message ever sent, in order."""
        with _client(url) as client:
            consumer = _consumer(client, self.name, _ALL)
            got = [int(consumer.receive(timeout_millis=WAIT_MS).data()) for _ in range(self.sent)]
            assert got == list(range(self.sent))


def _consumer(client: Any, topic: str, subscription: str) -> Any:
    return client.subscribe(
        topic,
        subscription,
        pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        batch_index_ack_enabled=True,
    )


@contextmanager
def _client(url: str) -> Iterator[Any]:
    client = connect(url, operation_timeout_seconds=60)
    try:
        yield client
    finally:
        client.close()


def figures(stats: dict[str, Any]) -> dict[str, Any]:
    """Return what internal stats of one owner and those of the next have in common."""
    return {
        "entries": sum(ledger["entries"] for ledger in stats["ledgers"][:-1]) + stats["currentLedgerEntries"],
        "mark-delete": {name: cursor["markDeletePosition"] for name, cursor in stats["cursors"].items()},
        "acknowledged": {name: cursor["individuallyDeletedMessages"] for name, cursor in stats["cursors"].items()},
    }
