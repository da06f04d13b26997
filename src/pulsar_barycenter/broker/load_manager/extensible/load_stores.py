"""The two tables in which brokers tell their load: the newest value of each broker, by its id.

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
_TELL_S: Final = 5.0


class LoadStore(Protocol):
    """One table. Values are JSON, of whoever wrote them."""

    def values(self) -> dict[str, bytes]:
        """Return the newest value of each broker, as far as it was heard."""
        ...

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""
        ...

    def start(self) -> None:
        """Begin to listen, in the background. Idempotent."""
        ...

    async def tell(self, broker_id: str, value: bytes | None) -> bool:
        """Tell the value of a broker, None to take it back; return whether it was taken. Never raises."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class LocalLoadStore:
    """A table of this process alone: what is told is known here, and nowhere else."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._listeners: list[Callable[[], None]] = []

    def values(self) -> dict[str, bytes]:
        return dict(self._values)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def start(self) -> None:
        return

    async def tell(self, broker_id: str, value: bytes | None) -> bool:
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
    """A table that is a topic of the cluster: the newest message of each broker counts.

    The topic is not persistent: a broker that starts knows what is told from then on. Nobody waits for it; as long as
    the topic cannot be reached, what was heard last is what is known.
    """

    def __init__(self, client: SystemTopicClient, topic: str) -> None:
        self._topic = topic
        self._view = client.table_view(topic)
        self._starting: asyncio.Task[None] | None = None
        self._was_told = True

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

    async def tell(self, broker_id: str, value: bytes | None) -> bool:
        try:
            if value is None:
                await self._view.remove(broker_id, timeout_s=_TELL_S)
            else:
                await self._view.put(broker_id, value, timeout_s=_TELL_S)
        except SystemTopicError as error:
            if self._was_told:
                log.warning("load_data_not_told", topic=self._topic, reason=str(error))
            self._was_told = False
            return False
        self._was_told = True
        return True

    async def close(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._view.close()
