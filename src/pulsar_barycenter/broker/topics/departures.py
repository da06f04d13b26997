"""Runs the tasks in which topics leave this broker: they are closed, deleted or transferred (see `states`).

Several events may close the same topic: an unload, a request of an operator, a fenced ledger, the stop of the broker.
So each topic has at most one task that closes or deletes it, and later requests wait for the same task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from pulsar_barycenter.broker.cluster.service_urls import NextOwner
from pulsar_barycenter.broker.topics.states import TopicEvent, TopicState
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)


class Departures:
    """Closes, transfers and deletes topics; for each topic at most one task that closes or deletes it runs.

    `forget` is called with each topic when it is closed or deleted. `deleted` is awaited with the name of each deleted
    topic before `forget` is called; until then no client can attach to a topic of that name.
    """

    def __init__(self, forget: Callable[[Topic], None], deleted: Callable[[TopicName], Awaitable[None]]) -> None:
        self._forget = forget
        self._deleted = deleted
        self._closings: dict[Topic, asyncio.Task[None]] = {}
        self._transfers: dict[Topic, asyncio.Task[None]] = {}
        """The task of the first phase of a transfer, by topic; removed when the topic is closed."""

    def close(self, topic: Topic, reason: str, owner: NextOwner | None = None) -> asyncio.Task[None]:
        """Start to close a topic, and return the task. If a task is closing or deleting the topic already, return that
        task and do nothing else.

        If the topic is in transfer, its clients are disconnected before this method returns. They are sent to `owner`;
        without `owner` they look the topic up.
        """
        closing = self._closings.get(topic)
        if closing is not None:
            return closing
        topic.begin_closing()
        transfer = self._transfers.get(topic)
        if transfer is None:
            return self._start(topic, self._run_close(topic, topic.close(reason, owner)), "close")
        topic.disconnect_all(owner)
        return self._start(topic, self._run_close(topic, _wait_ended(transfer)), "close")

    def _start(self, topic: Topic, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"{what}-topic:{topic.name}")
        self._closings[topic] = task
        return task

    async def _run_close(self, topic: Topic, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LedgerError as error:
            log.warning("topic_not_closed_well", topic=str(topic.name), error=str(error))
        finally:
            topic.on(TopicEvent.END)
            self._forget(topic)
            self._closings.pop(topic, None)
            self._transfers.pop(topic, None)

    def delete(self, topic: Topic, *, force: bool, only_unused: bool) -> asyncio.Task[None]:
        """Start to delete a topic, as `Topic.delete` does, and return the task. Awaiting the task raises the errors of
        `Topic.delete`.
        """
        return self._start(topic, self._run_delete(topic, force=force, only_unused=only_unused), "delete")

    async def _run_delete(self, topic: Topic, *, force: bool, only_unused: bool) -> None:
        try:
            await topic.delete(force=force, only_unused=only_unused)
            await self._deleted(topic.name)
            log.info("topic_deleted", topic=str(topic.name), force=force)
        finally:
            self._closings.pop(topic, None)
            if topic.state is not TopicState.OPEN:
                self._forget(topic)

    def transfer(self, topic: Topic) -> asyncio.Task[None]:
        """Start the first phase of a transfer: stop the topic and close its ledger, while its clients stay attached.
        Return the task of this phase. If a task is closing, deleting or transferring the topic already, return that
        task and do nothing else.
        """
        leaving = self._closings.get(topic) or self._transfers.get(topic)
        if leaving is not None:
            return leaving
        topic.begin_transfer()
        transfer = self._transfers[topic] = asyncio.get_running_loop().create_task(
            self._run_transfer(topic), name=f"transfer-topic:{topic.name}"
        )
        return transfer

    async def _run_transfer(self, topic: Topic) -> None:
        try:
            await topic.release()
        except LedgerError as error:
            log.warning("topic_not_closed_well", topic=str(topic.name), error=str(error))
        finally:
            topic.on(TopicEvent.RELEASED)

    async def wait(self, topic: Topic) -> None:
        """Wait until a topic that is closing, being deleted or in transfer is removed from memory. Call this before the
        topic is loaded again.

        If the topic is in transfer, close it: that it is loaded here again means that this broker owns its bundle
        again, so that the transfer was abandoned.
        """
        closing = self._closings.get(topic)
        if closing is None and topic in self._transfers:
            closing = self.close(topic, "the topic's bundle is owned by this broker again")
        if closing is None:
            self._forget(topic)
        else:
            await asyncio.wait([closing])


async def _wait_ended(task: asyncio.Task[Any]) -> None:
    await asyncio.wait([task])
