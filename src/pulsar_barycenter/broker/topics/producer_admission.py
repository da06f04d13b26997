"""Carries out what `producer_access` decides: lets producers wait, stores epochs, closes fenced producers.

A producer that arrives waits in its own task, `admit`. The task may end with an error, by a cancellation, or because
the connection closed. In each case the state machine gets the event in the same step, so that the turn always passes
to the next producer.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from pulsar_barycenter.broker.clients.producer import Producer
from pulsar_barycenter.broker.errors import ProducerFencedError, ServiceError
from pulsar_barycenter.broker.topics.producer_access import Action, Attach, Claim, Fence, ProducerAccess, Refuse
from pulsar_barycenter.naming.topic import TopicName

Turn: TypeAlias = "asyncio.Future[Claim[Producer] | None]"
"""What a producer waits for: its claim to the topic, or None when it is attached as a shared producer."""


class AdmittingTopic(Protocol):
    """The methods of a topic that the admission of its producers needs."""

    @property
    def name(self) -> TopicName: ...

    def check_open(self) -> None:
        """Check that producers may attach. Raises TopicFencedError if the topic is closing."""
        ...

    async def store_producer_epoch(self, epoch: int) -> None:
        """Store the epoch durably, if the topic stores anything; see `Topic.store_producer_epoch`."""
        ...

    def close_producer(self, producer: Producer) -> None:
        """Detach a producer and notify its client."""
        ...


class ProducerAdmission:
    """Decides which producers of one topic may attach. The topic creates it when an exclusive producer first wants to
    attach, and from then on uses it for every producer.
    """

    __slots__ = ("_access", "_topic", "_turns")

    def __init__(self, topic: AdmittingTopic, *, epoch: int | None, attached: Iterable[Producer]) -> None:
        """Begin with `epoch`, which is stored with the topic, and with the producers in `attached`, which are all
        shared ones.
        """
        self._topic = topic
        self._access: ProducerAccess[Producer] = ProducerAccess(topic.name, epoch=epoch, shared=attached)
        self._turns: dict[Producer, Turn] = {}

    @property
    def epoch(self) -> int | None:
        return self._access.epoch

    @property
    def waiting(self) -> int:
        return len(self._access.waiting)

    async def admit(
        self, producer: Producer, brought: int | None, queued: Callable[[], None] | None, former: Producer | None
    ) -> None:
        """Wait until `producer` may attach in its access mode. For a shared producer this returns without yielding to
        the event loop.

        `brought` is the epoch that the producer had when it was attached before, None if it was not. `former` is the
        producer of the same client that is still attached and that `producer` replaces, None without one. `queued` is
        called once if the producer has to wait.

        Raises:
            ExclusiveProducerError: `producer` is shared, and an exclusive producer has the topic or waits for it.
            ProducerFencedError: `producer` is exclusive, and other producers are attached, or another producer had the
                topic since `producer` had it, or a producer fenced it while it waited.
            TopicFencedError: the topic closed while `producer` waited.
            NotAllowedError: the epoch `brought` is one that the topic never had.
            LedgerError: the epoch could not be stored.
        """
        access = self._access
        turn = self._turns[producer] = asyncio.get_running_loop().create_future()
        try:
            arrived = access.arrive(producer, brought) if former is None else access.succeed(former, producer, brought)
            self._perform(arrived)
            if not turn.done() and queued is not None:
                queued()
            if await turn is not None:
                await self._make_exclusive(producer)
        except BaseException:
            self.left(producer)
            raise
        finally:
            del self._turns[producer]

    async def _make_exclusive(self, producer: Producer) -> None:
        self._topic.check_open()
        epoch = self._access.take_epoch(producer)
        if epoch is not None:
            await self._topic.store_producer_epoch(epoch)
        self._topic.check_open()
        if not self._access.stored(producer):
            raise ProducerFencedError(
                f"Another producer got exclusive access to topic {self._topic.name}, so this producer was not created. "
                "To take the access back, create the producer again"
            )

    def left(self, producer: Producer) -> None:
        """Record that a producer detached. If it had exclusive access, the first producer that waits gets it.
        Idempotent.
        """
        self._perform(self._access.leave(producer))

    def close(self) -> None:
        """Refuse all producers that wait, because the topic is being closed. Their calls of `admit` raise
        TopicFencedError.
        """
        self._perform(self._access.close())

    def _perform(self, actions: Iterable[Action[Producer]]) -> None:
        for action in actions:
            match action:
                case Attach(producer):
                    self._answer(producer, None)
                case Claim(producer):
                    self._answer(producer, action)
                case Refuse(producer, error):
                    self._refuse(producer, error)
                case Fence(producer):
                    self._topic.close_producer(producer)

    def _refuse(self, producer: Producer, error: ServiceError) -> None:
        turn = self._turns[producer]
        if not turn.done():
            turn.set_exception(error)
            turn.exception()  # asyncio would log an unread exception if the task is cancelled before it reads it

    def _answer(self, producer: Producer, claim: Claim[Producer] | None) -> None:
        turn = self._turns[producer]
        if not turn.done():  # else its task is being cancelled, and `admit` reports to the state machine
            turn.set_result(claim)
