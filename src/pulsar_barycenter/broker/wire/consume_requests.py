"""Answers the requests of attached consumers: FLOW, ACK, redelivery, seek, last message id, stats, UNSUBSCRIBE.

A command may arrive for a consumer that is not attached any more, for example after an unload. It is ignored if the
command has no answer. If it has one, the error is not ServiceNotReady: clients treat that as a success without a
result. While a topic is in transfer, its consumers are treated as not attached, but they get the last message id.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, TypeAlias

from pulsar_barycenter.broker.clients.consumer import Consumer
from pulsar_barycenter.broker.errors import NO_TRANSACTIONS, InvalidPositionError, NotAllowedError
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.stats import timestamp
from pulsar_barycenter.broker.wire.bounds import ACK_SET_WORDS, IDS_AT_ONCE
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.broker.wire.errors import error_code, error_text
from pulsar_barycenter.ledger.managed.partial_acks import ALL, bits_of
from pulsar_barycenter.ledger.position import Position, positions_of
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import signed

_CUMULATIVE: Final = int(api.CommandAck.Cumulative)
_NO_CONSUMER: Final = "Consumer not found"


def _consumer(connection: Connection, consumer_id: int) -> Consumer | None:
    consumer = connection.consumers.get(consumer_id)
    return consumer if consumer is not None and not consumer.closed else None


def flow(connection: Connection, request: api.CommandFlow) -> None:
    """Handle FLOW: add permits."""
    consumer = connection.consumers.get(request.consumer_id)
    if consumer is not None and not consumer.closed:
        consumer.flow(request.messagePermits)


_Refusal: TypeAlias = tuple[api.ServerError.ValueType, str] | None


def ack(connection: Connection, request: api.CommandAck) -> Coroutine[Any, Any, None] | None:
    """Handle ACK. The client gets an answer only if the command has a request id; the answer has an error if the
    acknowledgement was refused.
    """
    consumer = connection.consumers.get(request.consumer_id)
    problem: _Refusal = None
    if consumer is None or consumer.closed:
        problem = api.ConsumerNotFound, _NO_CONSUMER
        if consumer is not None:
            consumer.subscription.topic.acks_dropped(len(request.message_id))
    elif request.HasField("txnid_most_bits") or request.HasField("txnid_least_bits"):
        problem = api.NotAllowedError, NO_TRANSACTIONS
    elif request.ack_type == _CUMULATIVE:
        problem = _ack_cumulative(consumer, request)
    elif len(request.message_id) > IDS_AT_ONCE:
        return _ack_in_steps(connection, consumer, request)
    else:
        problem = _ack_individual(consumer, request.message_id)
    _answer_ack(connection, request, problem)
    return None


def _ack_individual(consumer: Consumer, ids: Sequence[api.MessageIdData]) -> _Refusal:
    # A set bit in an ack_set is a message of the batch that is not acknowledged yet. The last acknowledgement of a
    # batch has no set bit.
    # The ids are not converted to signed numbers: no entry has a negative id, or one of 2^63 or more.
    positions = positions_of([(id_.ledgerId, id_.entryId) for id_ in ids if not id_.ack_set or not any(id_.ack_set)])
    if len(positions) < len(ids):
        return _ack_parts(consumer, positions, [id_ for id_ in ids if any(id_.ack_set)])
    if positions:
        consumer.subscription.ack_individual(consumer, positions)
    return None


def _ack_parts(consumer: Consumer, whole: Sequence[Position], of_parts: Sequence[api.MessageIdData]) -> _Refusal:
    """Acknowledge the entries at `whole`, and the messages of batches in `of_parts`. Return None, or the reason of a
    refusal. If one of `of_parts` is refused, nothing is acknowledged.
    """
    try:
        parts = [_part(id_) for id_ in of_parts]
    except NotAllowedError as error:
        return api.NotAllowedError, str(error)
    if whole:
        consumer.subscription.ack_individual(consumer, whole)
    consumer.subscription.ack_parts(consumer, parts)
    return None


def _part(id_: api.MessageIdData) -> tuple[Position, int]:
    """Return the position of a batch, and the bit set of the messages that are still unacknowledged after this
    acknowledgement.

    Raises:
        NotAllowedError: the bit set is longer than that of the largest batch.
    """
    words = len(id_.ack_set)
    if words > ACK_SET_WORDS:
        entry = f"{id_.ledgerId}:{id_.entryId}"
        raise NotAllowedError(
            f"The ack_set of entry {entry} has {words} 64-bit words; at most {ACK_SET_WORDS} are allowed"
        )
    return Position(id_.ledgerId, id_.entryId), bits_of(id_.ack_set)


async def _ack_in_steps(connection: Connection, consumer: Consumer, request: api.CommandAck) -> None:
    """Acknowledge the ids of an ACK in steps of at most IDS_AT_ONCE ids; other tasks run between two steps. If a step
    is refused, its ids and all later ones are not acknowledged; the ids of earlier steps stay acknowledged.
    """
    problem: _Refusal = None
    for ids in _in_steps(request.message_id):
        problem = (api.ConsumerNotFound, _NO_CONSUMER) if consumer.closed else _ack_individual(consumer, ids)
        if problem is not None:
            break
        await asyncio.sleep(0)
    _answer_ack(connection, request, problem)


def _answer_ack(connection: Connection, request: api.CommandAck, problem: _Refusal) -> None:
    if request.HasField("request_id"):
        code, text = problem if problem is not None else (None, None)
        connection.send(commands.ack_response(request.consumer_id, request.request_id, code=code, message=text))


def _in_steps(ids: Sequence[api.MessageIdData]) -> Iterator[Sequence[api.MessageIdData]]:
    for start in range(0, len(ids), IDS_AT_ONCE):
        yield ids[start : start + IDS_AT_ONCE]


def _ack_cumulative(consumer: Consumer, request: api.CommandAck) -> _Refusal:
    if len(request.message_id) != 1:
        return api.NotAllowedError, "A cumulative acknowledgement has exactly one message id"
    message_id = request.message_id[0]
    ledger_id, entry_id = signed(message_id.ledgerId), signed(message_id.entryId)
    is_part = any(message_id.ack_set)
    try:
        parts = [_part(message_id)] if is_part else []
    except NotAllowedError as error:
        return api.NotAllowedError, str(error)
    through = Position(ledger_id, entry_id - 1 if is_part else entry_id)
    if not consumer.subscription.ack_cumulative(consumer, through):
        return api.NotAllowedError, "Cumulative acknowledgement is not allowed on this subscription type"
    if parts:
        consumer.subscription.ack_parts(consumer, parts)
    return None


def redeliver(
    connection: Connection, request: api.CommandRedeliverUnacknowledgedMessages
) -> Coroutine[Any, Any, None] | None:
    """Handle REDELIVER_UNACKNOWLEDGED_MESSAGES: deliver the unacknowledged messages with the given ids again, or all
    unacknowledged messages of the consumer if no id is given. If the consumer does not exist, do nothing.
    """
    consumer = _consumer(connection, request.consumer_id)
    if consumer is None:
        return None
    epoch = request.consumer_epoch if request.HasField("consumer_epoch") else None
    if len(request.message_ids) > IDS_AT_ONCE:
        return _redeliver_in_steps(consumer, request.message_ids, epoch)
    consumer.subscription.redeliver(consumer, _positions(request.message_ids) or None, epoch)
    return None


async def _redeliver_in_steps(consumer: Consumer, ids: Sequence[api.MessageIdData], epoch: int | None) -> None:
    for step in _in_steps(ids):
        if consumer.closed:
            return
        consumer.subscription.redeliver(consumer, _positions(step), epoch)
        await asyncio.sleep(0)


def _positions(ids: Sequence[api.MessageIdData]) -> list[Position]:
    return [Position(signed(id_.ledgerId), signed(id_.entryId)) for id_ in ids]


def seek(connection: Connection, request: api.CommandSeek) -> Coroutine[Any, Any, None] | None:
    """Handle SEEK: move the cursor, and answer when it is moved. Before that, all consumers of the subscription are
    closed; their clients attach them again by themselves.
    """
    consumer = _consumer(connection, request.consumer_id)
    if consumer is None:
        connection.send(commands.error(request.request_id, api.MetadataError, _NO_CONSUMER))
        return None
    return _seek(connection, consumer, request)


async def _seek(connection: Connection, consumer: Consumer, request: api.CommandSeek) -> None:
    bits = ALL
    try:
        if request.HasField("message_id"):
            wanted = request.message_id
            if any(wanted.ack_set):
                _, bits = _part(wanted)
            if wanted.HasField("first_chunk_message_id"):
                wanted = wanted.first_chunk_message_id
            position = Position(signed(wanted.ledgerId), signed(wanted.entryId))
        elif request.HasField("message_publish_time"):
            topic = consumer.subscription.topic
            position = await topic.position_at(request.message_publish_time, compacted=consumer.read_compacted)
        else:
            raise InvalidPositionError("SEEK has neither a message id nor a publish time: send one of them")
        await consumer.subscription.seek(position, bits)
    except Exception as error:  # noqa: BLE001 (every error has an answer)
        connection.send(commands.error(request.request_id, error_code(error), error_text(error)))
        return
    connection.send(commands.success(request.request_id))


def last_message_id(connection: Connection, request: api.CommandGetLastMessageId) -> Coroutine[Any, Any, None] | None:
    """Answer GET_LAST_MESSAGE_ID with the id of the topic's last message. Consumers of a topic in transfer get this
    answer, too.
    """
    consumer = connection.consumers.get(request.consumer_id)
    if consumer is None:
        connection.send(commands.error(request.request_id, api.MetadataError, _NO_CONSUMER))
        return None
    return _last_message_id(connection, consumer, request.request_id)


async def _last_message_id(connection: Connection, consumer: Consumer, request_id: int) -> None:
    topic = consumer.subscription.topic
    try:
        position, batch_index = await topic.last_message_id(compacted=consumer.read_compacted)
    except Exception as error:  # noqa: BLE001 (every error has an answer)
        connection.send(commands.error(request_id, error_code(error), error_text(error)))
        return
    partition = topic.name.partition_index
    last = commands.message_id(position.ledger_id, position.entry_id, partition=partition, batch_index=batch_index)
    mark_delete = None
    if isinstance(topic, PersistentTopic) and (found := topic.subscriptions.get(consumer.subscription.name)):
        mark = found.cursor.mark_delete
        mark_delete = commands.message_id(mark.ledger_id, mark.entry_id, partition=partition)
    connection.send(commands.last_message_id(request_id, last, mark_delete=mark_delete))


def consumer_stats(connection: Connection, request: api.CommandConsumerStats) -> None:
    """Answer CONSUMER_STATS with the stats of the consumer that the request names."""
    consumer = _consumer(connection, request.consumer_id)
    if consumer is None:
        connection.send(commands.consumer_stats_failed(request.request_id, api.ConsumerNotFound, _NO_CONSUMER))
        return
    topic = consumer.subscription.topic
    backlog, expired_rate = 0, 0.0
    kind = "Exclusive"
    if isinstance(topic, PersistentTopic) and (found := topic.subscriptions.get(consumer.subscription.name)):
        backlog, expired_rate = found.cursor.backlog.messages, found.expired_rate
        kind = found.type.label
    connection.send(
        commands.consumer_stats_response(
            request.request_id,
            msgRateOut=consumer.rates.rate,
            msgThroughputOut=consumer.rates.throughput,
            msgRateRedeliver=0.0,
            consumerName=consumer.name,
            availablePermits=max(0, consumer.permits),
            unackedMessages=consumer.unacked,
            blockedConsumerOnUnackedMsgs=consumer.is_blocked,
            address=connection.address,
            connectedSince=timestamp(consumer.connected_since_ms),
            type=kind,
            msgRateExpired=expired_rate,
            msgBacklog=backlog,
            messageAckRate=0.0,
        )
    )


def unsubscribe(connection: Connection, request: api.CommandUnsubscribe) -> Coroutine[Any, Any, None] | None:
    """Handle UNSUBSCRIBE: delete the subscription of the consumer, which is closed by this, and answer with success or
    an error.
    """
    consumer = _consumer(connection, request.consumer_id)
    if consumer is None:
        connection.send(commands.error(request.request_id, api.MetadataError, _NO_CONSUMER))
        return None
    return _unsubscribe(connection, consumer, request)


async def _unsubscribe(connection: Connection, consumer: Consumer, request: api.CommandUnsubscribe) -> None:
    try:
        await consumer.subscription.topic.unsubscribe(consumer, force=request.force)
    except Exception as error:  # noqa: BLE001 (every error has an answer)
        connection.send(commands.error(request.request_id, error_code(error), error_text(error)))
        return
    connection.consumers.pop(request.consumer_id, None)
    connection.send(commands.success(request.request_id))
