"""One client connection: bytes in and out, keep-alive, back-pressure, and what topics send to the client.

Frequent commands (SEND, FLOW, ACK) are handled in the step that received them. A command that has to wait runs in a
named task (`attach_requests.py`, `lookup_requests.py`). An exception of a handler becomes the error response to its
request, and a line in the log. Frames to the client are collected and written once in each iteration of the event loop.

Back-pressure towards the client: dispatch stops while `writable` is false, and is started again afterwards. From the
client: reading stops while too many SENDs, bytes or requests are unanswered, or too many bytes of answers are unread.
A client that sends without end is read once in each iteration of the event loop, so that others have their turns.
Source: Pulsar's `ServerCnx`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import structlog

from pulsar_barycenter.bounds.token_bucket import Throttle
from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.clients.consumer import MAX_MESSAGES_IN_ENTRY, Consumer, detach_all
from pulsar_barycenter.broker.clients.link import LinkedConsumer, LinkedProducer, StalledDispatcher
from pulsar_barycenter.broker.clients.producer import Producer
from pulsar_barycenter.broker.cluster.service_urls import NextOwner, assigned_urls
from pulsar_barycenter.broker.wire.admission import sends
from pulsar_barycenter.broker.wire.admission.publish_buffer import Unanswered
from pulsar_barycenter.broker.wire.admission.sends import SEND, Refused, Sends
from pulsar_barycenter.broker.wire.bounds import (
    ATTACHED,
    CLOSED_ID_LIFE_S,
    FULL_READ_BYTES,
    JOIN_BELOW_MEAN_BYTES,
    QUEUED_BYTES,
    TAKE_LEAVE_S,
    UNREAD_BYTES,
)
from pulsar_barycenter.broker.wire.errors import error_code, error_text
from pulsar_barycenter.broker.wire.handshake import Handshake
from pulsar_barycenter.broker.wire.open_requests import OpenRequests
from pulsar_barycenter.broker.wire.services import WireServices
from pulsar_barycenter.broker.wire.signs_of_life import SignsOfLife
from pulsar_barycenter.ledger.position import EntryRun, Position
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import SEND_RUN, Received, Role
from pulsar_barycenter.protocol.connection_state import Connection as Wire
from pulsar_barycenter.protocol.errors import RemoteProtocolError
from pulsar_barycenter.protocol.frames import FRAME_PADDING
from pulsar_barycenter.protocol.send_runs import SendRun

log = structlog.get_logger(__name__)

Handler: TypeAlias = "Callable[[Connection, Any], Coroutine[Any, Any, None] | None]"
"""Answers a command. A handler that has to wait returns a coroutine, which becomes a task of the connection."""


_LEAST_HOLD_S: Final = 0.001
_LONGEST_HOLD_S: Final = 1.0
"""The number of seconds after which a throttle is checked again, because its topic may end it at any time."""


class Connection(asyncio.Protocol):
    """A connection of a client to this broker. The wire server creates it. `handlers` has the handler for each type of
    command, by the number of the type.

    The memory that a connection uses is limited; see `bounds`. There are limits on: one incomplete frame and one read;
    unanswered SENDs and other running requests, by number and bytes; answers and messages that the client has not read,
    plus the answers to one read and to the running requests; attached producers and consumers, each with names and
    properties of limited length.
    """

    __slots__ = (
        "_closed_producers",
        "_handlers",
        "_hold_timer",
        "_holding",
        "_life",
        "_loop",
        "_out",
        "_out_bytes",
        "_reading",
        "_requests",
        "_services",
        "_stalled",
        "_transport",
        "_unanswered",
        "_wire",
        "_write_paused",
        "address",
        "attaching",
        "client_version",
        "consumers",
        "handshake",
        "is_closed",
        "listener",
        "listing",
        "producers",
    )

    def __init__(self, services: WireServices, handlers: Mapping[int, Handler]) -> None:
        self._services = services
        self._handlers = handlers
        self._loop = asyncio.get_running_loop()
        max_frame_size = services.config.max_message_size + FRAME_PADDING
        self._wire = Wire(Role.BROKER, max_frame_size=max_frame_size, joins_sends=True)
        self._transport: asyncio.Transport | None = None
        self.address = ""
        self.client_version = ""
        self.is_closed = False
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}
        self.attaching: dict[tuple[str, int], asyncio.Task[None]] = {}
        """The running PRODUCER and SUBSCRIBE requests, by ("producer" | "consumer", id)."""
        self.listener: str | None = None
        """The advertised listener in this client's look-ups, "" for the default; None before the first look-up."""
        self.listing = asyncio.Lock()
        """The lock that is held while the topics of a namespace are listed for this client."""
        self._closed_producers: dict[int, float] = {}
        self._requests = OpenRequests(self, services.logs.request_refused, self.maybe_resume_reading)
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._write_paused = False
        self._holding: dict[Throttle, None] = {}
        """The throttles that do not let messages pass. While there are any, nothing is read from the client."""
        self._hold_timer: asyncio.TimerHandle | None = None
        self._stalled: dict[StalledDispatcher, None] = {}
        self._unanswered = Unanswered(services.publish_buffer)
        self._reading = True
        self._life = SignsOfLife(self, self._wire, services)
        self.handshake = Handshake(self, self._wire, services)

    @property
    def services(self) -> WireServices:
        return self._services

    @property
    def principal(self) -> Principal:
        """The principal of the client; NOBODY until the client is authenticated."""
        return self.handshake.principal

    # ---- transport events ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=QUEUED_BYTES)
        peer = transport.get_extra_info("peername")
        self.address = f"/{peer[0]}:{peer[1]}" if peer else ""
        self.handshake.made(transport)
        self._life.start()
        refused = self._services.connected(self, peer[0] if peer else "")
        if refused is not None:
            about = {"connection": self._requests.id, "address": self.address}
            self._services.logs.connection_refused.log(**about, reason=refused)
            self.send(commands.error(commands.NO_REQUEST, api.NotAllowedError, refused))
            self.close()
            # With TLS, `close` waits for the client's closing handshake. Without one it would stay open, uncounted.
            self._loop.call_later(TAKE_LEAVE_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self.is_closed:
            return
        self._receive(data)
        if len(data) >= FULL_READ_BYTES and self._may_read and self._transport is not None:
            # There is probably more. uvloop would read it at once, up to 32 times, while everything else waits.
            self._transport.pause_reading()
            self._loop.call_soon(self._read_again)

    @property
    def _may_read(self) -> bool:
        return self._reading and not self.is_closed

    def _read_again(self) -> None:
        if self._may_read and self._transport is not None:
            self._transport.resume_reading()

    def _receive(self, data: bytes) -> None:
        try:
            received = self._wire.receive_data(data)
        except RemoteProtocolError as error:
            self.abort(f"the client broke the protocol: {error}")
            return
        self._life.heard()
        index = 0
        while index < len(received):
            number, message, _ = received[index]
            if number == SEND:
                index = self._handle_sends(received, index)
            elif number == SEND_RUN:
                self._handle_run(message)
                index += 1
            else:
                self._handle_request(number, message)
                index += 1
            if self.is_closed:
                return
        owed = self._wire.data_to_send()
        if owed:
            self.send(owed)
        if self._reading and (
            self._unanswered.are_many(self._services.config.max_pending_publish_requests_per_connection)
            or self._requests.are_many
            or (self._out_bytes if not self._write_paused else self.unread_bytes) > UNREAD_BYTES
        ):
            self._pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_closed:
            log.debug("connection_lost", address=self.address, error=str(exc) if exc else None)
        self._detach_all()

    def _detach_all(self) -> None:
        """Detach all producers and consumers, and stop all timers and tasks. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        self._wire.close()
        self._services.disconnected(self)
        self._life.stop()
        self.handshake.stop()
        self._out.clear()
        self._stalled.clear()
        if self._hold_timer is not None:
            self._hold_timer.cancel()
        self._requests.cancel()
        for producer in list(self.producers.values()):
            producer.topic.forget_producer(producer)
        detach_all(self.consumers.values())
        self.producers.clear()
        self.consumers.clear()

    def abort(self, reason: str) -> None:
        """Close the connection at once, without sending queued frames, and log the reason."""
        if self.is_closed:
            return
        about = {"connection": self._requests.id, "address": self.address, "client": self.client_version}
        self._services.logs.connection_closed.log(**about, reason=reason)
        self._detach_all()
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Send queued frames, then close."""
        if self.is_closed:
            return
        self._flush()
        self._detach_all()
        if self._transport is not None:
            self._transport.close()

    # ---- what comes in ----

    def _handle_request(self, number: int, message: Any) -> None:
        handler = self._handlers.get(number)
        if handler is None:
            self.abort(f"command type {number} is not supported by this broker")
            return
        try:
            work = handler(self, message)
        except Exception as error:  # noqa: BLE001 (every error has an answer)
            self._requests.failed(number, message, error)
            return
        if work is not None:
            self._requests.start(work, number, message)

    def start(self, work: Coroutine[Any, Any, None], number: int, request: Any) -> asyncio.Task[None]:
        """Run `work`, which answers a request of command type `number`, in a task, and return the task. The task is
        cancelled when the connection closes. If `work` raises an exception, the client gets an error.
        """
        return self._requests.start(work, number, request)

    def _handle_sends(self, received: Sequence[Received], start: int) -> int:
        """Publish consecutive SENDs of one producer, beginning at index `start`, and return the index of the next
        command. A SEND that is refused ends the series: the SENDs before it are published, the producer gets an error
        for it, and the index after it is returned.

        If the producer does not accept messages, only the SEND at `start` is skipped.
        """
        producer_id, _, _, messages, are_chunks, _ = received[start][1]
        producer = self._publishing(producer_id, min(messages, MAX_MESSAGES_IN_ENTRY))
        if producer is None:
            return start + 1
        found, refused, stop = sends.following(producer, received, start)
        if found.sent:
            self._publish(producer, found, are_chunks=are_chunks)
        if refused is not None and not producer.closed:
            self._refuse_send(producer, refused)
        return stop

    def _handle_run(self, run: SendRun) -> None:
        producer = self._publishing(run.producer_id, len(run.entries))
        if producer is not None:
            self._publish(producer, sends.of_run(producer, run), are_chunks=False)

    def _publish(self, producer: Producer, found: Sends, *, are_chunks: bool) -> None:
        # Counted first: `publish` may send the answers before it returns.
        self._unanswered.add(len(found.sent), found.size)
        try:
            producer.topic.publish(found.sent, found.entries, are_chunks=are_chunks)
        except Exception as error:
            log.exception("publish_failed", topic=str(producer.topic.name), producer=producer.name)
            self.abort(f"a message could not be published: {error_text(error)}")

    def _publishing(self, producer_id: int, messages: int) -> Producer | None:
        """Return the producer with that id, or None if it accepts no messages now; the caller then drops the SEND.
        `messages` is the number of messages in it.

        If the topic is leaving this broker, the messages are counted as dropped: the client sends them again to the
        next owner. If the broker closed the producer less than CLOSED_ID_LIFE_S seconds ago, the messages are ignored.
        Any other unknown id aborts the connection.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            if self._closed_producers.get(producer_id, 0.0) < self._loop.time():
                self.abort(f"SEND for producer {producer_id}, which does not exist")
        elif producer.closed:
            producer.topic.sends_dropped(messages)
        else:
            return producer
        return None

    def _refuse_send(self, producer: Producer, refused: Refused) -> None:
        """Send the error for one message, but not before the answers to earlier messages of the producer: clients
        reconnect if answers come in another order.
        """
        sequence_id = refused.sequence_id
        about = {"topic": str(producer.topic.name), "producer": producer.name, "sequence_id": str(sequence_id)}
        self._services.logs.message_refused.log(**about, error=refused.reason)
        answer = commands.send_error(producer.producer_id, sequence_id, refused.code, refused.reason)
        self._send_in_turn(producer, answer)

    def _send_in_turn(self, producer: LinkedProducer, frame: bytes) -> None:
        """Send an answer to a message of `producer`, but not before the answers to all its earlier messages: until then
        it waits in a queue of the producer.
        """
        if producer.pending == 0:
            self.send(frame)
            return
        if producer.deferred is None:
            producer.deferred = deque()
        producer.deferred.append((producer.pushed, frame))
        self._unanswered.add(1)  # the SEND of an answer that waits counts as unanswered

    # ---- what goes out ----

    def send(self, frame: bytes) -> None:
        """Queue a frame; it is written with others at the end of this iteration of the event loop."""
        self._queue((frame,), len(frame))

    def _queue(self, parts: Sequence[bytes], size: int) -> None:
        if self.is_closed:
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out += parts
        self._out_bytes += size

    def _flush(self) -> None:
        out = self._out
        if not out or self._transport is None:
            return
        are_small = self._out_bytes < JOIN_BELOW_MEAN_BYTES * len(out)
        self._out = []
        self._out_bytes = 0
        if are_small:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        if not self._write_paused:
            if self._stalled:
                self._wake()
            self.maybe_resume_reading()

    @property
    def writable(self) -> bool:
        return not self._write_paused and self._out_bytes < QUEUED_BYTES and not self.is_closed

    @property
    def unread_bytes(self) -> int:
        """The number of bytes for this client that the broker holds in memory, because the operating system has not
        accepted them yet.
        """
        return self._out_bytes + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def wake_when_writable(self, dispatcher: StalledDispatcher) -> None:
        if not self.is_closed:
            self._stalled[dispatcher] = None

    def _wake(self) -> None:
        """Call the dispatchers that wait until this connection is writable, in the order of their queue. Stop when the
        connection is not writable any more; those that were not called stay at the head of the queue.
        """
        waiting, self._stalled = self._stalled, {}
        while waiting and self.writable:
            dispatcher = next(iter(waiting))
            del waiting[dispatcher]
            dispatcher.dispatch()
        self._stalled = waiting | self._stalled

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._wake()
        self.maybe_resume_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None:
            self._reading = False
            self._services.publish_buffer.paused[self] = None
            self._transport.pause_reading()

    def maybe_resume_reading(self) -> None:
        if self._reading or self.is_closed or self._transport is None:
            return
        if (
            self._unanswered.are_few(self._services.config.max_pending_publish_requests_per_connection)
            and self._requests.are_few
            and not self._holding
            and self.unread_bytes * 2 <= UNREAD_BYTES
        ):
            self._reading = True
            self._services.publish_buffer.paused.pop(self, None)
            self._transport.resume_reading()

    # ---- what topics send (ClientLink) ----

    def send_message(
        self,
        consumer: LinkedConsumer,
        position: Position,
        redelivery_count: int,
        entry: bytes,
        ack_set: Sequence[int] = (),
    ) -> None:
        header = commands.message_header(
            consumer.consumer_id,
            position[0],
            position[1],
            len(entry),
            partition=consumer.partition,
            redelivery_count=redelivery_count,
            ack_set=ack_set,
            consumer_epoch=consumer.epoch,
        )
        self._queue((header, entry), len(header) + len(entry))

    def send_messages(self, consumer: LinkedConsumer, run: EntryRun) -> None:
        ledger_id, first, data, _, size = run
        parts = commands.messages(
            consumer.consumer_id, ledger_id, first, data, partition=consumer.partition, consumer_epoch=consumer.epoch
        )
        self._queue(parts, size + 32 * len(data))

    def send_receipts(
        self,
        producer: LinkedProducer,
        sequence_ids: Sequence[int],
        highest_ids: Sequence[int],
        first: Position,
        size: int,
    ) -> None:
        self._unanswered.remove(len(sequence_ids), size)
        ledger_id, entry_id = first
        self.send(commands.send_receipts(producer.producer_id, sequence_ids, highest_ids, ledger_id, entry_id))
        if producer.deferred is not None:
            self._send_deferred(producer)
        self.maybe_resume_reading()

    def _send_deferred(self, producer: LinkedProducer) -> None:
        deferred = producer.deferred
        while deferred and deferred[0][0] <= producer.completed:
            self.send(deferred.popleft()[1])
            self._unanswered.remove(1)
        if not deferred:
            producer.deferred = None

    def send_duplicate(self, producer: LinkedProducer, sequence_id: int, highest_id: int, size: int) -> None:
        unknown = commands.NO_REQUEST  # -1 as ledger and entry: stored before, at a position that is not looked up
        self._send_in_turn(
            producer, commands.send_receipt(producer.producer_id, sequence_id, unknown, unknown, highest_id)
        )
        self.publish_failed(producer, size)

    def publish_failed(self, producer: LinkedProducer, size: int) -> None:
        self._unanswered.remove(1, size)
        if producer.deferred is not None and producer.pending == 0:
            # The producer is closed: earlier messages get no answer, and its client sends all of them again.
            self._unanswered.remove(len(producer.deferred))
            producer.deferred = None
        self.maybe_resume_reading()

    def refuse_message(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None:
        frame = commands.send_error(producer.producer_id, sequence_id, error_code(error), error_text(error))
        self._send_in_turn(producer, frame)

    def hold_reading(self, throttle: Throttle) -> None:
        self._holding[throttle] = None
        if self._reading:
            self._pause_reading()
        if self._hold_timer is None:
            self._look_at_holds()

    def _look_at_holds(self) -> None:
        """Check the throttles because of which nothing is read from the client. If all of them let messages pass now,
        resume reading. Otherwise set a timer that checks again.
        """
        self._hold_timer = None
        now_s = self._loop.time()
        waits = {throttle: throttle.wait_s(now_s) for throttle in self._holding}
        self._holding = {throttle: None for throttle, wait_s in waits.items() if wait_s > 0}
        if self.is_closed:
            return
        if self._holding:
            delay_s = min(max(*waits.values(), _LEAST_HOLD_S), _LONGEST_HOLD_S)
            self._hold_timer = self._loop.call_later(delay_s, self._look_at_holds)
        else:
            self.maybe_resume_reading()

    def send_error(self, producer: LinkedProducer, sequence_id: int, error: Exception) -> None:
        self.send(commands.send_error(producer.producer_id, sequence_id, error_code(error), error_text(error)))

    def send_active_consumer(self, consumer: LinkedConsumer, *, is_active: bool) -> None:
        if self.consumers.get(consumer.consumer_id) is consumer:
            self.send(commands.active_consumer_change(consumer.consumer_id, is_active=is_active))

    def send_end_of_topic(self, consumer: LinkedConsumer) -> None:
        if self.consumers.get(consumer.consumer_id) is consumer:
            self.send(commands.reached_end_of_topic(consumer.consumer_id))

    def close_producer(self, producer: LinkedProducer, owner: NextOwner | None = None) -> None:
        if self.producers.get(producer.producer_id) is not producer:
            return
        self.forget_producer(producer)
        url, url_tls = assigned_urls(owner, self.listener)
        self._send_close(commands.close_producer(producer.producer_id, assigned_url=url, assigned_url_tls=url_tls))

    def forget_producer(self, producer: LinkedProducer) -> None:
        """Remove a producer from this connection without notifying the client. SENDs with its id that arrive within
        CLOSED_ID_LIFE_S seconds are ignored.
        """
        if self.producers.get(producer.producer_id) is producer:
            del self.producers[producer.producer_id]
            now = self._loop.time()
            closed = self._closed_producers
            closed.pop(producer.producer_id, None)
            closed[producer.producer_id] = now + CLOSED_ID_LIFE_S
            # All ids are kept for the same time, so the first one is the oldest.
            while closed[oldest := next(iter(closed))] < now or len(closed) > ATTACHED:
                del closed[oldest]

    def close_consumer(self, consumer: LinkedConsumer, owner: NextOwner | None = None) -> None:
        if self.consumers.get(consumer.consumer_id) is consumer:
            del self.consumers[consumer.consumer_id]
            url, url_tls = assigned_urls(owner, self.listener)
            self._send_close(commands.close_consumer(consumer.consumer_id, assigned_url=url, assigned_url_tls=url_tls))

    def _send_close(self, frame: bytes) -> None:
        if self._wire.peer_version < 5 and not self.is_closed:
            # Such a client does not know CLOSE from a broker. It reconnects when the connection closes.
            self._loop.call_soon(self.close)
        else:
            self.send(frame)

    # ---- keep-alive ----

    @property
    def is_reading(self) -> bool:
        return self._reading

    async def is_alive(self) -> bool:
        return await self._life.ask()
