"""Reads the topics of the extensible load manager (load and ownership) with Pulsar's own client.

The two topics of load data are subscribed to, since they are not persistent. The ownership channel is read completely
on request (`ownership_topic`).

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

MAX_BROKERS: Final = 10_000
"""The maximum number of brokers whose data is kept; messages of further brokers are ignored."""
_MAX_ID_LENGTH: Final = 2_048
_MAX_LOGGED: Final = 1_000

_T = TypeVar("_T")


class PulsarExtensibleTopics:
    """Keeps, for each broker, the newest data that it published in the load topics after this program had subscribed to
    them. Implements `collector.ExtensibleTopics`.
    """

    def __init__(self, client: pulsar.Client, subscription: str) -> None:
        """Subscribe to the load topics with `client`, which the caller closes; `subscription` is the name of the
        subscription.

        Raises:
            pulsar.PulsarException: the topics cannot be reached.
        """
        self._lock = threading.Lock()
        self._logged: set[tuple[str, str]] = set()
        self._ownership = OwnershipTopic(client)
        self._loads: dict[str, BrokerLoadData] = {}
        self._tops: dict[str, TopBundlesLoadData] = {}
        self._consumers = [
            client.subscribe(BROKER_LOAD_TOPIC, subscription, message_listener=self._on_load),
            client.subscribe(TOP_BUNDLES_TOPIC, subscription, message_listener=self._on_top),
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
        """Read the ownership channel and return the owner of each bundle. Blocks the calling thread.

        Raises:
            OwnershipUnreadableError: the channel cannot be read.
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
            elif broker in kept or (len(kept) < MAX_BROKERS and 0 < len(broker) <= _MAX_ID_LENGTH):
                kept[broker] = decoded
            else:
                self._tell("", message.topic_name(), f"not a broker id, or more than {MAX_BROKERS:,} brokers")

    def _tell(self, broker: str, topic: str, reason: str) -> None:
        """Log that a message of a broker in a topic is ignored, with the reason. For each broker and topic this is
        logged only once.
        """
        logged = (broker[:_MAX_ID_LENGTH], topic)
        if logged not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(logged)
            log.warning("load_data_refused", broker=broker[:_MAX_ID_LENGTH], topic=topic, reason=reason)
