"""Who may produce to a topic besides whom: the access modes of producers.

Shared producers keep each other company. An exclusive one is alone and has an epoch: a later exclusive producer
gets a higher one, so one that was displaced while away is refused when it returns.
Source: Pulsar's PIP-68 and `AbstractTopic.incrementTopicEpochIfNeeded`. The epoch lives as long as the topic is
loaded; after that the first to return is admitted with the epoch that it brings.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from pulsar_barycenter.broker.clients.producer import AccessMode, Producer
from pulsar_barycenter.broker.errors import NotAllowedError, ProducerBusyError, ProducerFencedError, TopicFencedError
from pulsar_barycenter.naming.topic import TopicName

_HIGHEST_EPOCH: Final = 2**62
"""No topic gets there by counting; from a producer that says so, counting on would leave the protocol's 64 bits."""


class ProducerAccess:
    """`producers` are those of the topic, kept up to date by it; `close_producers` detaches them all."""

    __slots__ = ("_close_producers", "_exclusive", "_producers", "_topic", "_waiting", "epoch")

    def __init__(
        self, topic: TopicName, producers: Mapping[str, Producer], close_producers: Callable[[], None]
    ) -> None:
        self._topic = topic
        self._producers = producers
        self._close_producers = close_producers
        self._exclusive: Producer | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.epoch: int | None = None

    @property
    def waiting(self) -> int:
        """Producers that wait for exclusive access."""
        return len(self._waiting)

    async def admit(self, producer: Producer, epoch: int | None, queued: Callable[[], None] | None = None) -> None:
        """Return when `producer` may attach in its mode. `epoch` is what it was told when it attached before.

        `queued` is called once, before it has to wait.

        Raises:
            ProducerBusyError: a shared producer, while an exclusive one has the topic.
            ProducerFencedError: an exclusive producer that is not alone, or was displaced.
            TopicFencedError: the topic closed while this one waited.
            NotAllowedError: an epoch that no topic has.
        """
        if epoch is not None and epoch > _HIGHEST_EPOCH:
            raise NotAllowedError(f"Topic {self._topic} never had the epoch {epoch}")
        if producer.access_mode is AccessMode.SHARED:
            if self._exclusive is not None or self._waiting:
                raise ProducerBusyError(self._topic, producer.name)
            return
        if epoch is not None and self.epoch is not None and epoch < self.epoch:
            raise ProducerFencedError(f"Producer {producer.name!r} was displaced: epoch {epoch} < {self.epoch}")
        if producer.access_mode is AccessMode.EXCLUSIVE_WITH_FENCING:
            self._close_producers()
        elif producer.access_mode is AccessMode.WAIT_FOR_EXCLUSIVE:
            await self._wait_turn(queued)
        elif self._producers or self._waiting:
            raise ProducerFencedError(f"Topic {self._topic} has other producers")
        self._exclusive = producer
        self.epoch = epoch if epoch is not None else (0 if self.epoch is None else self.epoch + 1)

    async def _wait_turn(self, queued: Callable[[], None] | None) -> None:
        while self._producers or self._exclusive is not None:
            if queued is not None:
                queued()
                queued = None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)

    def left(self, producer: Producer) -> None:
        """A producer detached: whoever waits first may try."""
        if self._exclusive is producer:
            self._exclusive = None
        if self._waiting and not self._producers:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def close(self) -> None:
        """Turn away everyone who waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(TopicFencedError(self._topic, "it was closed"))
