"""Following one topic: every message in order, through lost connections and changes of the owner.

A persistent topic is read on from the last entry that was delivered, which the broker sends again and this drops; of a
non-persistent one, what is published while nobody is attached is lost. Repeats of our own publishers are dropped
(`repeats`). An entry that cannot be read is told once, by its reason, and skipped.

It has *caught up* once everything was delivered that was in the topic when it attached: on attaching, and before it
lets the broker send anything, it asks for the last message. Of a non-persistent topic, once nothing is lost any more.
Who needs what was written since has it ask again (`reach_end`).

What is deleted while nobody is attached is a gap: a topic whose every message matters needs a subscription that keeps
them, as compaction has one.
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
"""Takes key, value (None is a null value), id and publish time in epoch ms of a message, within one step."""

_ACK_AFTER_S: Final = 1.0
_NON_PERSISTENT: Final = "non-persistent://"
_NOWHERE: Final = (-1, -1)
"""Before the first entry."""
_MOST_REASONS: Final = 100
"""So many different reasons why entries were skipped are told."""


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
        """`subscription` is nobody else's. A non-persistent topic is always read from the latest.

        What `deliver` raises is logged, and counts as delivered.
        """
        super().__init__(connections, topic)
        self.skipped = 0
        """Entries that could not be read."""
        self._deliver = deliver
        self._subscription = subscription
        self._read_compacted = read_compacted
        self._is_persistent = not topic.startswith(_NON_PERSISTENT)
        self._position: tuple[int, int] | None = _NOWHERE if start is Start.EARLIEST else None
        """The last entry that was delivered or skipped, or that is not wanted; None until the latest is known."""
        self._goal: tuple[int, int] | None = None
        """The last message when it was asked for; None while that is not known."""
        self._goal_question = 0
        """The question to which `_goal` is the answer."""
        self._questions = 0
        self._is_reading = False
        self._caught_up = asyncio.Event()
        self._doubted = asyncio.Event()
        """Set when it has to ask again."""
        self._repeats = Repeats()
        self._told: set[str] = set()
        self._attempts = 0
        self._connection: BrokerConnection | None = None
        self._consumer_id = 0
        self._taken = 0
        self._ack_timer: asyncio.TimerHandle | None = None

    @property
    def is_caught_up(self) -> bool:
        """Whether it is attached and everything that was in the topic when it attached was delivered."""
        return self._caught_up.is_set()

    async def caught_up(self) -> None:
        """Return when it has caught up; the time is for the caller to bound.

        Raises:
            ClosedError: the reader is closed, or was meanwhile.
        """
        waiting = asyncio.ensure_future(self._caught_up.wait())
        try:
            await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._task.done():
            raise ClosedError(f"the reader of {self.topic} is closed")

    async def reach_end(self) -> None:
        """Return when everything was delivered that was in the topic when this was called, attached then or not.

        The time is for the caller to bound.

        Raises:
            ClosedError: the reader is closed, or was meanwhile.
        """
        asked = self._questions
        await self.caught_up()
        while self._is_persistent and self._goal_question <= asked:
            self._goal = None
            self._caught_up.clear()
            self._doubted.set()
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
        if self._gone.done():
            return
        self._is_reading = True
        connection.send(client_commands.flow(self._consumer_id, self._settings.permits))
        if not self._is_persistent:
            # It refuses to tell a last message; but from its answer on it has the permits, and drops nothing.
            await self._ask_last(connection)
        self._look_whether_caught_up()

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
            # Another name each time: the former one may still be taken on a connection that nobody uses any more.
            f"{self._subscription}-{self._attempts}",
            durable=False,
            start_message_id=start,
            read_compacted=self._read_compacted or None,
        )

    async def _ask_last(self, connection: BrokerConnection) -> tuple[int, int] | None:
        """Return the place of the last message, None where the broker does not tell, as when it cannot be read."""
        self._questions += 1
        try:
            answer: api.CommandGetLastMessageIdResponse = await connection.request(
                lambda request_id: client_commands.get_last_message_id(request_id, self._consumer_id)
            )
        except RefusedError:
            return None
        return signed(answer.last_message_id.ledgerId), signed(answer.last_message_id.entryId)

    async def _while_attached(self, connection: BrokerConnection) -> str:
        """Ask again what the last message is when told to, and now and then until caught up: it may be gone meanwhile,
        or not have been told."""
        while not self._gone.done():
            doubted = asyncio.ensure_future(self._doubted.wait())
            ends: list[asyncio.Future[Any]] = [self._gone, doubted]
            within_s = None if self._caught_up.is_set() else self._settings.ask_again_s
            try:
                await asyncio.wait(ends, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                doubted.cancel()
            self._doubted.clear()
            if not self._caught_up.is_set() and not self._gone.done():
                async with asyncio.timeout(self._settings.attempt_timeout_s):
                    last = await self._ask_last(connection)
                if last is not None and self._goal is None:
                    self._goal, self._goal_question = last, self._questions
                elif last is not None and self._goal is not None:
                    self._goal = min(self._goal, last)
                self._look_whether_caught_up()
        return await self._gone

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

    # ---- what the broker says ----

    def message(self, message: api.CommandMessage, entry: bytes) -> None:
        """Deliver what an entry holds, unless it was delivered before."""
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
        """Whether an entry there is behind all that was delivered; a non-persistent topic has no places."""
        return not self._is_persistent or self._position is None or place > self._position

    def _hand_over(self, key: str | None, value: bytes | None, message_id: MessageId, publish_time_ms: int) -> None:
        try:
            self._deliver(key, value, message_id, publish_time_ms)
        except Exception:
            log.exception("system_topic_message_failed", topic=self.topic, key=key, message_id=str(message_id))

    def _skip(self, place: tuple[int, int], reason: str) -> None:
        self.skipped += 1
        if reason not in self._told and len(self._told) < _MOST_REASONS:
            self._told.add(reason)
            log.warning("system_topic_entry_skipped", topic=self.topic, entry=f"{place[0]}:{place[1]}", reason=reason)

    def _go_on(self, permits: int) -> None:
        """Count what came, let more come, and acknowledge now and then: the backlog that operators see is then true."""
        connection = self._connection
        if connection is None or not self._is_reading:
            return
        self._taken += permits
        if self._taken * 2 >= self._settings.permits:
            connection.send(client_commands.flow(self._consumer_id, self._taken))
            self._taken = 0
        if self._is_persistent and not self._caught_up.is_set():
            self._look_whether_caught_up()
        if self._is_persistent and self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(_ACK_AFTER_S, self._acknowledge)

    def _acknowledge(self) -> None:
        self._ack_timer = None
        if self._connection is not None and self._position is not None:
            place = commands.message_id(*self._position)
            self._connection.send(client_commands.ack(self._consumer_id, [place], cumulative=True))

    def _look_whether_caught_up(self) -> None:
        if not self._is_reading:
            return
        if not self._is_persistent or (
            self._goal is not None and self._position is not None and self._position >= self._goal
        ):
            self._caught_up.set()
