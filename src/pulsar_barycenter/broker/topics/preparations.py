"""Opens topics in advance on the next owner of a bundle, while the bundle is in transfer.

Problem: during a transfer the clients of a topic wait. If the next owner opened the topic only after the transfer,
they would also wait for its ledger.

The next owner knows the epoch of its term before the term begins, and the former owner may have sent it the names of
the topics. So it works in two steps:

1. While the former owner closes the topics, the next owner creates the ledgers that it will write to.
2. When the former owner has closed them and reported it, the next owner opens the topics under its epoch, while its
   own ownership record is still being written. The first PRODUCER and the first SEND then find an open topic.

No client attaches before the term has begun: the registry takes a prepared topic when it loads it, in a term of the
same epoch (`take`). A topic that no client uses is closed again after a while, also if its term never begins. This is
safe because ledgers are fenced by epoch: an owner with a later epoch is not blocked, and an owner with an earlier epoch
claims the bundle again.
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
"""The number of seconds for which a prepared topic stays open if no client uses it."""


@dataclass(slots=True, eq=False)
class _Preparation:
    epoch: int
    closed: asyncio.Event
    """An event that is set when the former owner has closed the topic."""
    opening: asyncio.Task[PersistentTopic | None]
    timer: asyncio.TimerHandle | None = None
    closing: asyncio.Task[None] | None = None


class Preparations:
    """The topics that this broker opened in advance, before its term as owner of their bundle began.

    `open_topic` is called with a topic, the term and an event. It opens the existing topic with a new ledger, and does
    not register it. The event is set when the former owner has closed the topic. Before that, `open_topic` only creates
    the new ledger, and waits.
    """

    def __init__(self, open_topic: OpenTopic) -> None:
        self._open = open_topic
        self._prepared: dict[TopicName, _Preparation] = {}
        self._closed = False

    def begin(self, bundle: Bundle, names: Iterable[str], epoch: int, now_ms: int, *, are_closed: bool) -> None:
        """Start to open the topics with these names in the background, for the term with `epoch` as owner of `bundle`.

        If `are_closed` is False, the former owner still has the topics open: only their new ledgers are created, and a
        later call with True continues. Names that are not persistent topics of the bundle are ignored. If a topic
        cannot be opened, the error is logged, and the topic is loaded when a client first uses it.
        """
        term = OwnedBundle(bundle, epoch, now_ms, active=False)
        loop = asyncio.get_running_loop()
        for name in _topics(bundle, names) if not self._closed else ():
            preparation = self._prepared.get(name)
            if preparation is None:
                closed = asyncio.Event()
                opening = loop.create_task(self._open_or_log(name, term, closed), name=f"prepare-topic:{name}")
                preparation = self._prepared[name] = _Preparation(epoch, closed, opening)
                preparation.timer = loop.call_later(KEPT_S, self._close, name, preparation)
            if are_closed and preparation.epoch == epoch:
                preparation.closed.set()

    async def _open_or_log(self, name: TopicName, term: OwnedBundle, closed: asyncio.Event) -> PersistentTopic | None:
        try:
            return await self._open(name, term, closed)
        except Exception as error:  # noqa: BLE001 (a client that asks for the topic gets it again)
            log.info("topic_not_prepared", topic=str(name), epoch=term.epoch, reason=str(error))
            return None

    async def take(self, name: TopicName, epoch: int) -> PersistentTopic | None:
        """Return the topic if it was prepared for the term with `epoch`, after waiting until it is open. From then on
        the caller is responsible for closing it. Return None if it was not prepared, or opening it failed.

        A topic that was prepared for another term is closed, and then None is returned.
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
        """Start to close the prepared topics of a bundle, and return the tasks that do so."""
        prepared = list(self._prepared.items())
        return [self._close(name, preparation) for name, preparation in prepared if bundle.contains(name)]

    def close(self) -> list[asyncio.Task[None]]:
        """Start to close all prepared topics, and return the tasks that do so. No topic is prepared after this."""
        self._closed = True
        for preparation in self._prepared.values():
            preparation.opening.cancel()
        return [self._close(name, preparation) for name, preparation in list(self._prepared.items())]

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
