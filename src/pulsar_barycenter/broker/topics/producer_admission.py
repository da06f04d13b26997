"""Carries out what `producer_access` decides: producers wait in tasks, epochs are stored, fenced producers are closed.

A producer that arrives waits in its own task, `admit`. However that ends, by an error, by a cancellation or because the
connection is gone, the state machine gets the event in the same step, and the turn goes on to the next.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from pulsar_barycenter.broker.clients.producer import Producer
from pulsar_barycenter.broker.errors import ProducerFencedError, ServiceError
from pulsar_barycenter.broker.topics.producer_access import Action, Attach, Claim, Fence, ProducerAccess, Refuse
from pulsar_barycenter.naming.topic import TopicName

Turn: TypeAlias = "asyncio.Future[Claim[Producer] | None]"
"""What a producer waits for: a claim, or None if it is attached as a shared one."""


class AdmittingTopic(Protocol):
    """The topic, as the admission of its producers uses it."""

    @property
    def name(self) -> TopicName: ...

    def check_open(self) -> None:
        """Raise TopicFencedError unless producers may attach."""
        ...

    async def store_producer_epoch(self, epoch: int) -> None:
        """Return when the epoch outlives this broker's process, where the topic stores anything."""
        ...

    def close_producer(self, producer: Producer) -> None:
        """Detach a producer and tell its client."""
        ...


class ProducerAdmission:
    """Of one topic, made when its first exclusive producer comes; from then on each producer passes it."""

    __slots__ = ("_access", "_topic", "_turns")

    def __init__(self, topic: AdmittingTopic, *, epoch: int | None, attached: Iterable[Producer]) -> None:
        """`epoch` is stored with the topic; those `attached` are shared producers."""
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
        """Return when `producer` is attached in its mode, without a turn of the event loop if it is a shared one.

        `brought` is the epoch that it had before; `former` is its former self if that is still attached. `queued` is
        called once, before it has to wait.

        Raises:
            ExclusiveProducerError: a shared producer, while an exclusive one has the topic or waits for it.
            ProducerFencedError: an exclusive producer that is not alone, was displaced, or was fenced while it waited.
            TopicFencedError: the topic closed while it waited.
            NotAllowedError: an epoch that no topic has.
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
            raise ProducerFencedError(f"Another producer took topic {self._topic.name} over")

    def left(self, producer: Producer) -> None:
        """A producer detached. Idempotent."""
        self._perform(self._access.leave(producer))

    def close(self) -> None:
        """Turn away all that wait."""
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
            turn.exception()  # its task may be cancelled before it sees it

    def _answer(self, producer: Producer, claim: Claim[Producer] | None) -> None:
        turn = self._turns[producer]
        if not turn.done():  # else its task is being cancelled, and tells the machine so
            turn.set_result(claim)
