"""Publishes messages to one topic until each has its receipt, also if connections are lost or the owner changes.

Messages without a receipt are sent again whenever the publisher attaches, in order and with the same sequence ids. So a
message is stored at least once, and exactly once if the broker deduplicates. Our readers drop messages that were stored
again (`repeats`).
"""

import asyncio
from typing import Final

from pulsar_barycenter.broker.system_topics.attachment import Attachment, Connections
from pulsar_barycenter.broker.system_topics.connection import BrokerConnection
from pulsar_barycenter.broker.system_topics.entries import MessageId, encode_message
from pulsar_barycenter.broker.system_topics.errors import (
    ClosedError,
    MessageTooLargeError,
    NotPublishedError,
    PublishOutcomeUnknownError,
    RefusedError,
)
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import signed

UNKNOWN_PLACE: Final = MessageId(-1, -1)
"""The position in a receipt that has none: for a message that was stored before, or that a non-persistent topic
dropped.
"""


class _Pending:
    __slots__ = ("entry", "key", "receipt", "sequence_id", "was_sent")

    def __init__(self, key: str, sequence_id: int, entry: bytes) -> None:
        self.key = key
        self.sequence_id = sequence_id
        self.entry = entry
        self.receipt: asyncio.Future[MessageId] = asyncio.get_running_loop().create_future()
        self.was_sent = False


class Publisher(Attachment):
    role = "publisher"

    def __init__(self, connections: Connections, topic: str, *, name: str, clock: Clock) -> None:
        """`name` is the name of the producer. It must be unique: see `repeats.publisher_name`."""
        super().__init__(connections, topic)
        self.name: Final = name
        self._clock = clock
        self._room = asyncio.Semaphore(self._settings.max_in_flight)
        self._pending: dict[int, _Pending] = {}
        self._next_sequence_id = 0
        self._epoch = 0
        self._connection: BrokerConnection | None = None
        """The connection to send new messages on; None while not attached."""
        self._producer_id = 0
        self._closed = False

    async def publish(self, key: str, value: bytes | None, *, timeout_s: float | None = None) -> MessageId:
        """Publish a value of `key`, None to remove the key; return its position when the receipt has arrived.

        Messages are sent in the order of the calls. While `max_in_flight` messages have no receipt, further callers
        wait. The position is UNKNOWN_PLACE if the broker returns no position. `timeout_s` is the limit for the whole
        call; None: the limit in the settings.

        Raises:
            NotPublishedError: the time is over, and the message was not sent.
            PublishOutcomeUnknownError: the message was sent, and perhaps stored, but the time is over or the publisher
                was closed. It is not sent again.
            RefusedError: the broker received this message damaged, and did not store it.
            MessageTooLargeError: the key or the value is longer than the limit.
            ClosedError: the publisher is closed, and the message was not sent.
        """
        self._check(key, value)
        limit_s = self._settings.publish_timeout_s if timeout_s is None else timeout_s
        pending: _Pending | None = None
        try:
            async with asyncio.timeout(limit_s), self._room:
                self._check_open()
                pending = self._enqueue(key, value)
                return await pending.receipt
        except TimeoutError:
            if pending is not None and pending.receipt.done() and not pending.receipt.cancelled():
                return pending.receipt.result()
            if self._connection is not None:
                self._connection.probe()
            was_sent = pending is not None and pending.was_sent
            failure = PublishOutcomeUnknownError if was_sent else NotPublishedError
            raise failure(self.topic, key, f"not within {limit_s} s") from None
        finally:
            if pending is not None:
                self._pending.pop(pending.sequence_id, None)

    def _check(self, key: str, value: bytes | None) -> None:
        size = len(key.encode())
        if size > self._settings.max_key_bytes:
            raise MessageTooLargeError("key", size, self._settings.max_key_bytes)
        if value is not None and len(value) > self._settings.max_value_bytes:
            raise MessageTooLargeError("value", len(value), self._settings.max_value_bytes)
        self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the publisher of {self.topic} is closed")

    def _enqueue(self, key: str, value: bytes | None) -> _Pending:
        sequence_id = self._next_sequence_id
        self._next_sequence_id += 1
        entry = encode_message(self.name, sequence_id, self._clock.now_ms(), key, value)
        pending = self._pending[sequence_id] = _Pending(key, sequence_id, entry)
        if self._connection is not None:
            self._send(self._connection, pending)
        return pending

    def _send(self, connection: BrokerConnection, pending: _Pending) -> None:
        connection.send(client_commands.send(self._producer_id, pending.sequence_id, pending.entry))
        pending.was_sent = True

    async def close(self) -> None:
        """Detach and do not attach again. Calls that wait fail: with PublishOutcomeUnknownError, or ClosedError if
        their message was not sent.
        """
        self._closed = True
        await super().close()
        for pending in self._pending.values():
            if pending.receipt.done():
                continue
            if pending.was_sent:
                error: Exception = PublishOutcomeUnknownError(self.topic, pending.key, "the publisher was closed")
            else:
                error = ClosedError(f"the publisher of {self.topic} is closed")
            pending.receipt.set_exception(error)

    # ---- attaching ----

    async def _attach(self, connection: BrokerConnection) -> None:
        self._producer_id = connection.add_producer(self)
        self._epoch += 1
        await connection.request(
            lambda request_id: client_commands.producer(
                request_id,
                self._producer_id,
                self.topic,
                producer_name=self.name,
                # False as for a generated name: then the higher epoch proves that this producer replaces the former.
                user_provided_name=False,
                epoch=self._epoch,
            )
        )
        if self._detached.done():
            return
        self._connection = connection
        for pending in self._pending.values():
            self._send(connection, pending)

    def _detach(self, connection: BrokerConnection) -> None:
        self._connection = None
        connection.close_producer(self._producer_id)

    def detached(self, reason: str) -> None:
        self._connection = None
        super().detached(reason)

    # ---- answers of the broker ----

    def receipt(self, receipt: api.CommandSendReceipt) -> None:
        """Process the receipt of the oldest message without a receipt. A receipt of a message whose `publish` has ended
        is ignored. A receipt of a later message is an error of the broker: the connection is dropped.
        """
        oldest = next(iter(self._pending), None)
        if oldest is None or receipt.sequence_id < oldest:
            return
        if receipt.sequence_id != oldest:
            if self._connection is not None:
                self._connection.drop(f"the receipt of message {receipt.sequence_id} came before that of {oldest}")
            return
        pending = self._pending.pop(oldest)
        if not pending.receipt.done():
            stored = receipt.message_id
            pending.receipt.set_result(MessageId(signed(stored.ledgerId), signed(stored.entryId)))

    def send_error(self, error: api.CommandSendError) -> None:
        """Process the error that the broker sent for one message. If the message was damaged on the way, its `publish`
        raises RefusedError, and the others continue. After any other error, the outcome of all messages without a
        receipt is unknown, so the connection is dropped and these messages are sent again.
        """
        refusal = RefusedError(error.error, error.message)
        if error.error == api.ChecksumError:
            pending = self._pending.pop(error.sequence_id, None)
            if pending is not None and not pending.receipt.done():
                pending.receipt.set_exception(refusal)
        elif self._connection is not None:
            self._connection.drop(f"a message was refused: {refusal}")
