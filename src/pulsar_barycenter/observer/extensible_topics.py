"""The topics in which brokers of the extensible load manager tell their load and who owns what, by a stock client.

The two of load data are followed, since they keep nothing; the ownership channel is read whole when it is asked for
(`ownership_topic`).

Source: Pulsar's `BrokerLoadDataStore` and `TopBundleLoadDataStore`: the key is the broker id, an empty value a
tombstone.
"""

import threading
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
import pulsar
import structlog

from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    TopBundlesLoadData,
    decode_broker_load,
    decode_top_bundles,
)
from pulsar_barycenter.naming.internal_topics import BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC
from pulsar_barycenter.observer.ownership_topic import OwnershipTopic

log = structlog.get_logger(__name__)

MOST_BROKERS: Final = 10_000
"""Of so many brokers the data are kept."""
_SUBSCRIPTION: Final = "barycenter-collect"
_LONGEST_ID: Final = 2_048
_MOST_TOLD: Final = 1_000

_T = TypeVar("_T")


class PulsarExtensibleTopics:
    """Holds the newest of what each broker published since this was opened. Implements `collector.ExtensibleTopics`."""

    def __init__(self, client: pulsar.Client) -> None:
        """Subscribe with `client`, which stays the caller's.

        Raises:
            pulsar.PulsarException: the topics cannot be reached.
        """
        self._lock = threading.Lock()
        self._told: set[tuple[str, str]] = set()
        self._ownership = OwnershipTopic(client)
        self._loads: dict[str, BrokerLoadData] = {}
        self._tops: dict[str, TopBundlesLoadData] = {}
        self._consumers = [
            client.subscribe(BROKER_LOAD_TOPIC, _SUBSCRIPTION, message_listener=self._on_load),
            client.subscribe(TOP_BUNDLES_TOPIC, _SUBSCRIPTION, message_listener=self._on_top),
        ]

    @property
    def loads(self) -> Mapping[str, BrokerLoadData]:
        with self._lock:
            return dict(self._loads)

    @property
    def tops(self) -> Mapping[str, TopBundlesLoadData]:
        with self._lock:
            return dict(self._tops)

    def owners(self) -> Mapping[str, str]:
        """Return the broker that owns each bundle by the ownership channel, which is read for it; blocks.

        Raises:
            OwnershipUnreadableError: it cannot be read.
        """
        return self._ownership.owners()

    def _on_load(self, consumer: Any, message: Any) -> None:
        self._note(self._loads, message, decode_broker_load)
        consumer.acknowledge(message)

    def _on_top(self, consumer: Any, message: Any) -> None:
        self._note(self._tops, message, decode_top_bundles)
        consumer.acknowledge(message)

    def _note(self, kept: dict[str, _T], message: Any, decode: Any) -> None:
        broker, value = message.partition_key(), message.data()
        try:
            decoded = decode(value) if value else None
        except msgspec.DecodeError as error:
            self._tell(broker, message.topic_name(), str(error))
            return
        with self._lock:
            if decoded is None:
                kept.pop(broker, None)
            elif broker in kept or (len(kept) < MOST_BROKERS and 0 < len(broker) <= _LONGEST_ID):
                kept[broker] = decoded
            else:
                self._tell("", message.topic_name(), f"no id of a broker, or one of more than {MOST_BROKERS:,}")

    def _tell(self, broker: str, topic: str, reason: str) -> None:
        """Say once of a broker and topic that something there is ignored."""
        told = (broker[:_LONGEST_ID], topic)
        if told not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(told)
            log.warning("load_data_refused", broker=broker[:_LONGEST_ID], topic=topic, reason=reason)
