"""Topics that are opened ahead of the term in which they will be served: those whose clients wait for a transfer's end.

The next owner has taken the number of its term. While the former one closes the topics, it makes the ledgers to write
to, if it was told which topics those are; when that one has closed them and said so, and its own record is on the way,
it takes them over under that number, so that a first PRODUCER and a first SEND find what they need. Nobody attaches
before the term has begun: a topic becomes one of the registry's when it is loaded, in a term of that number (`take`).
What no client asks for is closed again after a while, as is what was opened for a term that never came; the fences of
ledgers are by number, so whoever has a later one is not hindered, and whoever has an earlier one claims the bundle
again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import structlog

from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.states import TopicState
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

OpenTopic: TypeAlias = Callable[[TopicName, OwnedBundle, asyncio.Event], Coroutine[Any, Any, PersistentTopic]]

KEPT_S: Final = 5.0
"""How long a topic stays open for clients that do not come."""


@dataclass(slots=True, eq=False)
class _Preparation:
    epoch: int
    closed: asyncio.Event
    """Whether the former owner has closed the topic."""
    opening: asyncio.Task[PersistentTopic | None]
    timer: asyncio.TimerHandle | None = None
    closing: asyncio.Task[None] | None = None


class Preparations:
    """`open_topic` opens a topic that exists, with a ledger to write to, and tells nobody of it; before the former
    owner has closed it, it makes that ledger, and waits."""

    def __init__(self, open_topic: OpenTopic) -> None:
        self._open = open_topic
        self._prepared: dict[TopicName, _Preparation] = {}
        self._closed = False

    def begin(self, bundle: Bundle, names: Iterable[str], epoch: int, now_ms: int, *, are_closed: bool) -> None:
        """Open the topics of a bundle, in the background, for the term of that number; get ready for that while the
        former owner has not closed them. What cannot be opened, or is no topic of the bundle, is left to whoever asks
        for it."""
        term = OwnedBundle(bundle, epoch, now_ms, active=False)
        loop = asyncio.get_running_loop()
        for name in _topics(bundle, names) if not self._closed else ():
            preparation = self._prepared.get(name)
            if preparation is None:
                closed = asyncio.Event()
                opening = loop.create_task(self._opened(name, term, closed), name=f"prepare-topic:{name}")
                preparation = self._prepared[name] = _Preparation(epoch, closed, opening)
                preparation.timer = loop.call_later(KEPT_S, self._close, name, preparation)
            if are_closed and preparation.epoch == epoch:
                preparation.closed.set()

    async def _opened(self, name: TopicName, term: OwnedBundle, closed: asyncio.Event) -> PersistentTopic | None:
        try:
            return await self._open(name, term, closed)
        except Exception as error:  # noqa: BLE001 (whoever asks for the topic meets it again)
            log.info("topic_not_prepared", topic=str(name), epoch=term.epoch, reason=str(error))
            return None

    async def take(self, name: TopicName, epoch: int) -> PersistentTopic | None:
        """Return the topic if it was opened for the term of that number, and give it up; wait while it is being opened.

        One that was opened for another term is closed first.
        """
        preparation = self._prepared.get(name)
        if preparation is None:
            return None
        if preparation.epoch == epoch and preparation.closing is None:
            preparation.closed.set()
            topic = await asyncio.shield(preparation.opening)
            if self._prepared.get(name) is preparation and preparation.closing is None:
                self._forget(name, preparation)
                return topic if topic is not None and topic.state is TopicState.OPEN else None
        await asyncio.shield(self._close(name, preparation))
        return None

    def drop(self, bundle: Bundle) -> list[asyncio.Task[None]]:
        """Close what was opened of a bundle; return the tasks that do."""
        return [self._close(name, each) for name, each in list(self._prepared.items()) if bundle.contains(name)]

    def close(self) -> list[asyncio.Task[None]]:
        """Close all that was opened, and open nothing more; return the tasks that do."""
        self._closed = True
        for preparation in self._prepared.values():
            preparation.opening.cancel()
        return [self._close(name, each) for name, each in list(self._prepared.items())]

    def _close(self, name: TopicName, preparation: _Preparation) -> "asyncio.Task[None]":
        if preparation.closing is None:
            if not preparation.closed.is_set():
                preparation.opening.cancel()
            preparation.closing = asyncio.get_running_loop().create_task(
                self._end(name, preparation), name=f"close-prepared-topic:{name}"
            )
        return preparation.closing

    async def _end(self, name: TopicName, preparation: _Preparation) -> None:
        await asyncio.wait([preparation.opening])
        topic = None if preparation.opening.cancelled() else preparation.opening.result()
        try:
            if topic is not None:
                await topic.close("no client came")
        except LedgerError as error:
            log.warning("topic_not_closed_well", topic=str(name), error=str(error))
        finally:
            self._forget(name, preparation)

    def _forget(self, name: TopicName, preparation: _Preparation) -> None:
        if preparation.timer is not None:
            preparation.timer.cancel()
        if self._prepared.get(name) is preparation:
            del self._prepared[name]


def _topics(bundle: Bundle, names: Iterable[str]) -> Iterable[TopicName]:
    for text in names:
        try:
            name = TopicName.parse(text)
        except InvalidNameError:
            continue
        if name.is_persistent and bundle.contains(name):
            yield name
