"""Reads one topic: delivers every message in order, also if connections are lost or the owner changes.

After it attached again, a reader of a persistent topic continues at the last delivered entry; the broker sends this
entry again, and the reader drops it. Of a non-persistent topic the messages that are published while the reader is not
attached are lost. Messages that our publishers sent twice are dropped (`repeats`). An entry that cannot be read is
skipped; each reason is logged once.

A reader has *caught up* when it has delivered everything that was in the topic when it attached. To know this, it asks
for the last message when it attaches, before the broker may send messages. For a non-persistent topic it has caught up
when the broker has its permits, so that nothing is lost from then on. `reach_end` waits for what was written later.

Entries that are trimmed while the reader is not attached are missing. If every message of a topic matters, it needs a
subscription that keeps them, for example that of compaction.
"""

import asyncio
import enum
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import structlog

from pulsar_barycenter.broker.system_topics.attachment import Attachment, Connections
from pulsar_barycenter.broker.system_topics.connection import BrokerConnection
from pulsar_barycenter.broker.system_topics.entries import MessageId, read_entry
from pulsar_barycenter.broker.system_topics.errors import ClosedError, RefusedError, UnreadableEntryError
from pulsar_barycenter.broker.system_topics.repeats import Repeats
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import signed

log = structlog.get_logger(__name__)

Deliver: TypeAlias = "Callable[[str | None, bytes | None, MessageId, int], None]"
"""A function that gets key, value (None is a null value), id and publish time (ms since 1970) of each message. It must
not wait.
"""

_ACK_AFTER_S: Final = 1.0
_NON_PERSISTENT: Final = "non-persistent://"
_NOWHERE: Final = (-1, -1)
"""The position before the first entry of a topic."""
_MOST_REASONS: Final = 100
"""The maximum number of different reasons for skipped entries that are logged."""


class Start(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


class Reader(Attachment):
    role = "reader"

    def __init__(
        self,
        connections: Connections,
        topic: str,
        deliver: Deliver,
        *,
        subscription: str,
        start: Start = Start.EARLIEST,
        read_compacted: bool = False,
    ) -> None:
        """`subscription` is a unique name. `start` says where to begin in a persistent topic; a non-persistent topic is
        always read from the latest message on.

        If `deliver` raises an exception, it is logged, and the message counts as delivered.
        """
        super().__init__(connections, topic)
        self.skipped = 0
        """The number of entries that could not be read."""
        self._deliver = deliver
        self._subscription = subscription
        self._read_compacted = read_compacted
        self._is_persistent = not topic.startswith(_NON_PERSISTENT)
        self._position: tuple[int, int] | None = _NOWHERE if start is Start.EARLIEST else None
        """The last entry that was delivered or skipped, or after which reading starts; None until that is known."""
        self._goal: tuple[int, int] | None = None
        """The position of the last message of the topic, when the broker answered; None while it is not known."""
        self._goal_question = 0
        """The number of the question that `_goal` answers."""
        self._questions = 0
        self._is_reading = False
        self._caught_up = asyncio.Event()
        self._must_ask = asyncio.Event()
        """Set when the reader has to ask for the last message again."""
        self._repeats = Repeats()
        self._logged: set[str] = set()
        self._attempts = 0
        self._connection: BrokerConnection | None = None
        self._consumer_id = 0
        self._taken = 0
        self._ack_timer: asyncio.TimerHandle | None = None

    @property
    def is_caught_up(self) -> bool:
        """Whether the reader is attached, and has delivered everything that was in the topic when it attached."""
        return self._caught_up.is_set()

    async def caught_up(self) -> None:
        """Wait until the reader has delivered everything that was in the topic when it attached. If it is not attached,
        wait until it attaches, for as long as that takes. The caller limits the time.

        Raises:
            ClosedError: the reader is closed, or was closed meanwhile.
        """
        waiting = asyncio.ensure_future(self._caught_up.wait())
        try:
            await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._task.done():
            raise ClosedError(f"the reader of {self.topic} is closed")

    async def reach_end(self) -> None:
        """Wait until all messages that were in the topic at the time of the call are delivered. If the reader is not
        attached, wait until it attaches, too. For a non-persistent topic wait only until the reader is attached.

        The caller limits the time.

        Raises:
            ClosedError: the reader is closed, or was closed meanwhile.
        """
        asked = self._questions
        await self.caught_up()
        while self._is_persistent and self._goal_question <= asked:
            self._goal = None
            self._caught_up.clear()
            self._must_ask.set()
            await self.caught_up()

    # ---- attaching ----

    async def _attach(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._consumer_id = connection.add_consumer(self)
        self._taken = 0
        self._attempts += 1
        await connection.request(self._subscribe)
        if self._is_persistent:
            self._goal = await self._ask_last(connection)
            self._goal_question = self._questions
            if self._position is None:
                self._position = self._goal
        if self._detached.done():
            return
        self._is_reading = True
        connection.send(client_commands.flow(self._consumer_id, self._settings.permits))
        if not self._is_persistent:
            # The answer is an error, because the topic stores no message. But when it arrives, the broker has the
            # permits, so that it drops no message from then on.
            await self._ask_last(connection)
        self._check_caught_up()

    def _subscribe(self, request_id: int) -> bytes:
        position = self._position
        if not self._is_persistent or position is None:
            start = client_commands.LATEST
        elif position == _NOWHERE:
            start = client_commands.EARLIEST
        else:
            start = commands.message_id(*position)
        return client_commands.subscribe(
            request_id,
            self._consumer_id,
            self.topic,
            # A new name each time: the former one may still be in use on a former connection that has not ended.
            f"{self._subscription}-{self._attempts}",
            durable=False,
            start_message_id=start,
            read_compacted=self._read_compacted or None,
        )

    async def _ask_last(self, connection: BrokerConnection) -> tuple[int, int] | None:
        """Ask the broker for the position of the topic's last message. Return None if the broker refuses, for example
        because it cannot read the message.
        """
        self._questions += 1
        try:
            answer: api.CommandGetLastMessageIdResponse = await connection.request(
                lambda request_id: client_commands.get_last_message_id(request_id, self._consumer_id)
            )
        except RefusedError:
            return None
        return signed(answer.last_message_id.ledgerId), signed(answer.last_message_id.entryId)

    async def _while_attached(self, connection: BrokerConnection) -> str:
        """Wait until this reader is detached; return the reason. Until then, request the id of the last message again
        whenever `reach_end` asks for this.

        Also request it at intervals until the reader has caught up. Otherwise the reader could wait for ever for a last
        message that was trimmed, or for which the first answer was an error.
        """
        while not self._detached.done():
            must_ask = asyncio.ensure_future(self._must_ask.wait())
            ends: list[asyncio.Future[Any]] = [self._detached, must_ask]
            within_s = None if self._caught_up.is_set() else self._settings.ask_again_s
            try:
                await asyncio.wait(ends, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                must_ask.cancel()
            self._must_ask.clear()
            if not self._caught_up.is_set() and not self._detached.done():
                async with asyncio.timeout(self._settings.attempt_timeout_s):
                    last = await self._ask_last(connection)
                if last is not None and self._goal is None:
                    self._goal, self._goal_question = last, self._questions
                elif last is not None and self._goal is not None:
                    self._goal = min(self._goal, last)
                self._check_caught_up()
        return await self._detached

    def _detach(self, connection: BrokerConnection) -> None:
        self._stop_reading()
        self._connection = None
        connection.close_consumer(self._consumer_id)

    def detached(self, reason: str) -> None:
        self._stop_reading()
        super().detached(reason)

    def _stop_reading(self) -> None:
        self._is_reading = False
        self._caught_up.clear()
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None

    # ---- received messages ----

    def message(self, message: api.CommandMessage, entry: bytes) -> None:
        """Deliver the messages of an entry that arrived, unless they were delivered before."""
        if not self._is_reading:
            return
        place = signed(message.message_id.ledgerId), signed(message.message_id.entryId)
        permits = 1
        try:
            read = read_entry(entry)
        except UnreadableEntryError as error:
            if self._is_due(place):
                self._skip(place, str(error))
        else:
            permits = read.permits
            if self._is_due(place) and not self._repeats.is_repeat(read.producer, read.sequence_id):
                for index, key, value in read.messages:
                    self._hand_over(key, value, MessageId(*place, index), read.publish_time_ms)
        if self._is_due(place):
            self._position = place
        self._go_on(permits)

    def _is_due(self, place: tuple[int, int]) -> bool:
        """Return whether the entry at this position has to be delivered: it is after all delivered entries, or the
        topic is non-persistent.
        """
        return not self._is_persistent or self._position is None or place > self._position

    def _hand_over(self, key: str | None, value: bytes | None, message_id: MessageId, publish_time_ms: int) -> None:
        try:
            self._deliver(key, value, message_id, publish_time_ms)
        except Exception:
            log.exception("system_topic_message_failed", topic=self.topic, key=key, message_id=str(message_id))

    def _skip(self, place: tuple[int, int], reason: str) -> None:
        self.skipped += 1
        if reason not in self._logged and len(self._logged) < _MOST_REASONS:
            self._logged.add(reason)
            log.warning("system_topic_entry_skipped", topic=self.topic, entry=f"{place[0]}:{place[1]}", reason=reason)

    def _go_on(self, permits: int) -> None:
        """Count the permits that an entry used. When at least half of the permits are used, give the broker that number
        of new ones. Also start a timer that acknowledges what was read, so that operators see the true backlog.
        """
        connection = self._connection
        if connection is None or not self._is_reading:
            return
        self._taken += permits
        if self._taken * 2 >= self._settings.permits:
            connection.send(client_commands.flow(self._consumer_id, self._taken))
            self._taken = 0
        if self._is_persistent and not self._caught_up.is_set():
            self._check_caught_up()
        if self._is_persistent and self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(_ACK_AFTER_S, self._acknowledge)

    def _acknowledge(self) -> None:
        self._ack_timer = None
        if self._connection is not None and self._position is not None:
            place = commands.message_id(*self._position)
            self._connection.send(client_commands.ack(self._consumer_id, [place], cumulative=True))

    def _check_caught_up(self) -> None:
        if not self._is_reading:
            return
        if not self._is_persistent or (
            self._goal is not None and self._position is not None and self._position >= self._goal
        ):
            self._caught_up.set()
