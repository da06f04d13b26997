"""The two tables in which brokers publish their load: the newest value of each broker, by broker id.

Source: Pulsar's `LoadDataStore` and `TableViewLoadDataStoreImpl`.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.broker.system_topics.errors import SystemTopicError

log = structlog.get_logger(__name__)

_START_S: Final = 30.0
_PUBLISH_S: Final = 5.0


class LoadStore(Protocol):
    """A table in which every broker publishes one value, its load. Values are JSON; readers must not trust them,
    because any client may have written them.
    """

    def values(self) -> dict[str, bytes]:
        """Return the newest received value of each broker."""
        ...

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the table."""
        ...

    def start(self) -> None:
        """Start to read the table in the background. Idempotent."""
        ...

    async def publish(self, broker_id: str, value: bytes | None) -> bool:
        """Publish `value` as the value of a broker; None removes the broker's value. Return True when it is published,
        False if the table could not be reached within a few seconds. Raises no error.
        """
        ...

    async def close(self) -> None:
        """Stop reading the table. Idempotent."""
        ...


class LocalLoadStore:
    """A table of loads that exists in this process only."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._listeners: list[Callable[[], None]] = []

    def values(self) -> dict[str, bytes]:
        return dict(self._values)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def start(self) -> None:
        return

    async def publish(self, broker_id: str, value: bytes | None) -> bool:
        if value is None:
            self._values.pop(broker_id, None)
        else:
            self._values[broker_id] = value
        for listener in self._listeners:
            listener()
        return True

    async def close(self) -> None:
        return


class TopicLoadStore:
    """A table of loads in a topic of the cluster: the newest message of each broker is its value.

    The topic is not persistent, so a broker only gets values that are published after it started. `values` never waits
    for the topic: while it cannot be reached, the values received last are used. `publish` waits for a few seconds at
    most.
    """

    def __init__(self, client: SystemTopicClient, topic: str) -> None:
        self._topic = topic
        self._view = client.table_view(topic)
        self._starting: asyncio.Task[None] | None = None
        self._was_published = True

    def values(self) -> dict[str, bytes]:
        return dict(self._view.items())

    def on_change(self, listener: Callable[[], None]) -> None:
        self._view.listen(lambda _key, _before, _after: listener())

    def start(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name=f"view of {self._topic}")

    async def _start(self) -> None:
        while True:
            try:
                await self._view.start(_START_S)
            except SystemTopicError as error:
                log.info("load_data_not_read", topic=self._topic, reason=str(error))
                await asyncio.sleep(1.0)
            else:
                return

    async def publish(self, broker_id: str, value: bytes | None) -> bool:
        try:
            if value is None:
                await self._view.remove(broker_id, timeout_s=_PUBLISH_S)
            else:
                await self._view.put(broker_id, value, timeout_s=_PUBLISH_S)
        except SystemTopicError as error:
            if self._was_published:
                log.warning("load_data_not_told", topic=self._topic, reason=str(error))
            self._was_published = False
            return False
        self._was_published = True
        return True

    async def close(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._view.close()
