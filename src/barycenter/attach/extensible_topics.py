"""The two topics in which brokers of the extensible load manager tell their load, followed by a stock client.

Source: Pulsar's `BrokerLoadDataStore` and `TopBundleLoadDataStore`: the key is the broker id, an empty value a
tombstone.
"""

import threading
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
import pulsar
import structlog

from barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    TopBundlesLoadData,
    decode_broker_load,
    decode_top_bundles,
)
from barycenter.naming.internal_topics import BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC

log = structlog.get_logger(__name__)

_SUBSCRIPTION: Final = "barycenter-collect"

_T = TypeVar("_T")


class PulsarExtensibleTopics:
    """Holds the newest of what each broker published since this was opened. Implements `collector.ExtensibleTopics`."""

    def __init__(self, client: pulsar.Client) -> None:
        """Subscribe with `client`, which stays the caller's.

        Raises:
            pulsar.PulsarException: the topics cannot be reached.
        """
        self._lock = threading.Lock()
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
            log.warning("load_data_refused", broker=broker, topic=message.topic_name(), reason=str(error))
            return
        with self._lock:
            if decoded is None:
                kept.pop(broker, None)
            else:
                kept[broker] = decoded
