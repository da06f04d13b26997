"""Answers PRODUCER, SUBSCRIBE, CLOSE_PRODUCER and CLOSE_CONSUMER: producers and consumers attach and close.

Attaching may take long, because the topic has to be loaded first. So it runs in a task, at most one for each producer
or consumer id. A close that arrives meanwhile cancels the task: clients do this when a request took too long.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from pulsar_barycenter.broker.authorization.errors import AccessError
from pulsar_barycenter.broker.bounded_log import BoundedLog
from pulsar_barycenter.broker.clients.consumer import Consumer, ConsumerOptions
from pulsar_barycenter.broker.clients.producer import AccessMode, Producer, ProducerOptions
from pulsar_barycenter.broker.errors import NotAllowedError
from pulsar_barycenter.broker.schemas.schema import Schema, SchemaType
from pulsar_barycenter.broker.subscriptions.types import KeySharedMode, SubscriptionType
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.topic import SubscribeRequest, Topic
from pulsar_barycenter.broker.wire.admission.rights import require_rights
from pulsar_barycenter.broker.wire.admission.topic_schemas import received
from pulsar_barycenter.broker.wire.bounds import (
    ATTACHED,
    HASH_RANGES,
    PROPERTIES_LENGTH,
    SUBSCRIPTION_PROPERTIES_LENGTH,
    TEXT_LENGTH,
)
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.broker.wire.errors import HANGS_FIRST_SUBSCRIBE, error_code, error_text
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName, check_local_name
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import signed

Work: TypeAlias = Coroutine[Any, Any, None]
Request = TypeVar("Request", api.CommandProducer, api.CommandSubscribe)


def producer(connection: Connection, request: api.CommandProducer) -> None:
    """Handle PRODUCER: attach a producer to a topic, in a task, and answer. If this producer is attached already,
    answer with success at once.
    """
    present = connection.producers.get(request.producer_id)
    if present is not None and not present.closed and request.epoch <= present.epoch:
        _send_producer_success(connection, request.request_id, present)
        return
    _attach(connection, "producer", request.producer_id, request, _add_producer)


def subscribe(connection: Connection, request: api.CommandSubscribe) -> None:
    """Handle SUBSCRIBE: attach a consumer to a subscription, in a task, and answer. If the consumer is attached
    already, answer with success at once.
    """
    present = connection.consumers.get(request.consumer_id)
    if present is not None and not present.closed:
        connection.send(commands.success(request.request_id))
        return
    _attach(connection, "consumer", request.consumer_id, request, _add_consumer)


def _attach(
    connection: Connection, kind: str, id_: int, request: Request, add: Callable[[Connection, Request], Work]
) -> None:
    key = (kind, id_)
    if key in connection.attaching:
        connection.send(commands.error(request.request_id, api.ServiceNotReady, f"The {kind} is already being created"))
        return
    if len(connection.producers) + len(connection.consumers) + len(connection.attaching) >= ATTACHED:
        raise NotAllowedError(f"a connection has at most {ATTACHED} producers and consumers: use another connection")
    number = api.BaseCommand.PRODUCER if kind == "producer" else api.BaseCommand.SUBSCRIBE
    task = connection.attaching[key] = connection.start(add(connection, request), number, request)

    def attached(done: asyncio.Task[None]) -> None:
        if connection.attaching.get(key) is done:
            del connection.attaching[key]

    task.add_done_callback(attached)


async def _require_rights_again(number: int, connection: Connection, request: Any, detach: Callable[[], None]) -> None:
    """Check again that the client has the rights for its request, because they may have changed while it waited to be
    attached. If it lacks one, or the rights cannot be read, call `detach` and raise the error.

    This is necessary because, when rights change, the broker checks only clients that are attached.
    """
    try:
        await require_rights(number, connection, request)
    except BaseException:
        detach()
        raise


def _require_name(kind: str, name: str) -> None:
    """Check a name in a request. An empty name is accepted: the client gave none.

    Raises:
        NotAllowedError: the name is not valid. Clients do not try again after this error.
    """
    try:
        if name:
            check_local_name(kind, name)
    except InvalidNameError as error:
        raise NotAllowedError(str(error)) from error


def _log_refusal(log: BoundedLog, connection: Connection, error: Exception, **about: str) -> None:
    """Log why a client's request to attach is refused. Nothing is logged for a missing right, because the check of the
    rights has logged it.
    """
    if not isinstance(error, AccessError):
        log.log(**about, address=connection.address, reason=error_text(error))


# ---- producers ----


async def _add_producer(connection: Connection, request: api.CommandProducer) -> None:
    services = connection.services
    try:
        _require_name("producer", request.producer_name)
        _require_name("subscription", request.initial_subscription_name)
        metadata = _properties(request.metadata)
        name = TopicName.parse(request.topic)
        await require_rights(api.BaseCommand.PRODUCER, connection, request)
        topic = await services.registry.get_or_create(name)
        await services.disk_room.require(str(name), topic.room)
        schema = received(request.schema) if request.HasField("schema") else None
        schema_version = await services.schemas.of_producer(topic, schema, connection.principal.client_role)
        if request.initial_subscription_name:
            await _create_initial_subscription(topic, request.initial_subscription_name)
        options = ProducerOptions(
            name=request.producer_name or await services.producer_names.next(),
            epoch=request.epoch,
            # If the field is absent, the protocol says true; but without a name the broker generates one.
            user_provided_name=request.user_provided_producer_name and bool(request.producer_name),
            access_mode=AccessMode(request.producer_access_mode),
            metadata=metadata,
            schema_version=schema_version,
            is_encrypted=request.encrypted,
        )
        topic_epoch = request.topic_epoch if request.HasField("topic_epoch") else None
        added = await topic.add_producer(
            connection,
            request.producer_id,
            options,
            topic_epoch,
            queued=lambda: _send_producer_queued(connection, request.request_id, options.name),
        )
        await _require_rights_again(api.BaseCommand.PRODUCER, connection, request, lambda: topic.forget_producer(added))
    except Exception as error:  # noqa: BLE001 (every error has an answer)
        code = error_code(error)
        _log_refusal(services.logs.producer_refused, connection, error, topic=request.topic[:TEXT_LENGTH])
        connection.send(commands.error(request.request_id, code, error_text(error)))
        return
    if connection.is_closed:
        topic.forget_producer(added)
        return
    present = connection.producers.get(added.producer_id)
    if present is not None:  # a producer of another topic, or the one that this producer replaced
        present.topic.forget_producer(present)
    connection.producers[added.producer_id] = added
    _send_producer_success(connection, request.request_id, added)


def _send_producer_queued(connection: Connection, request_id: int, name: str) -> None:
    """Send the client of a producer the answer that the producer has to wait for exclusive access. Without this answer,
    the client would give up after its operation timeout.
    """
    connection.send(commands.producer_success(request_id, name, schema_version=b"", producer_ready=False))


def _send_producer_success(connection: Connection, request_id: int, added: Producer) -> None:
    exclusive = added.access_mode is not AccessMode.SHARED
    connection.send(
        commands.producer_success(
            request_id,
            added.name,
            last_sequence_id=added.topic.last_sequence_id(added.name),
            # An empty version means "no version". An absent one would mean the same, but the Java client fails on it.
            schema_version=added.schema_version,
            topic_epoch=added.topic.producer_epoch if exclusive else None,
        )
    )


async def _create_initial_subscription(topic: Topic, name: str) -> None:
    """Create the subscription that the PRODUCER command names as initial subscription, if it does not exist. Clients
    use this for dead-letter topics: the subscription keeps the messages until its first consumer attaches.

    Raises:
        NotAllowedError: the policies do not allow to create it, or the topic has as many subscriptions as it may have.
        TopicFencedError: the topic is closing.
    """
    if not isinstance(topic, PersistentTopic):
        return
    async with topic.lock:
        topic.check_open()
        if name in topic.subscriptions:
            return
        if not await topic.host.policies.may_subscribe(topic.name):
            raise NotAllowedError(
                f"Initial subscription {name!r} of topic {topic.name} does not exist, and clients are not allowed to "
                "create it. Create it, or allow that with allowAutoSubscriptionCreation or the namespace's policy."
            )
        await topic.create_subscription(name, EARLIEST)


def close_producer(connection: Connection, request: api.CommandCloseProducer) -> Coroutine[Any, Any, None] | None:
    """Handle CLOSE_PRODUCER: detach the producer, and answer. If messages of the producer are not answered yet, do both
    after they were. A PRODUCER request for this id that is still running is cancelled.
    """
    _cancel_attach(connection, "producer", request.producer_id)
    found = connection.producers.get(request.producer_id)
    if found is None or found.pending == 0:
        if found is not None:
            _drop_producer(connection, found)
        connection.send(commands.success(request.request_id))
        return None
    found.closed = True
    return _close_drained(connection, found, request.request_id)


async def _close_drained(connection: Connection, found: Producer, request_id: int) -> None:
    while found.pending:
        await found.topic.wait_drained()
    _drop_producer(connection, found)
    connection.send(commands.success(request_id))


def _drop_producer(connection: Connection, found: Producer) -> None:
    found.topic.forget_producer(found)
    connection.forget_producer(found)


def _cancel_attach(connection: Connection, kind: str, id_: int) -> None:
    attaching = connection.attaching.pop((kind, id_), None)
    if attaching is not None:
        attaching.cancel()


# ---- consumers ----


async def _add_consumer(connection: Connection, request: api.CommandSubscribe) -> None:
    try:
        schema = received(request.schema) if request.HasField("schema") else None
        wanted = _subscribe_request(request, schema)
        name = TopicName.parse(request.topic)
        await require_rights(api.BaseCommand.SUBSCRIBE, connection, request)
        topic = await connection.services.registry.get_or_create(name, create=request.force_topic_creation)
        await connection.services.schemas.of_consumer(topic, schema, connection.principal.client_role)
        consumer = await topic.subscribe(connection, wanted)
        detach = partial(consumer.subscription.detach, consumer)
        await _require_rights_again(api.BaseCommand.SUBSCRIBE, connection, request, detach)
    except Exception as error:  # noqa: BLE001 (every error has an answer)
        _send_subscribe_error(connection, request, error)
        return
    if connection.is_closed:
        consumer.subscription.detach(consumer)
        return
    connection.consumers[consumer.consumer_id] = consumer
    connection.send(commands.success(request.request_id))
    consumer.subscription.attached(consumer)


def _send_subscribe_error(connection: Connection, request: api.CommandSubscribe, error: Exception) -> None:
    code = error_code(error)
    topic, subscription = request.topic[:TEXT_LENGTH], request.subscription[:TEXT_LENGTH]
    refused = connection.services.logs.consumer_refused
    _log_refusal(refused, connection, error, topic=topic, subscription=subscription)
    if code in HANGS_FIRST_SUBSCRIBE:
        connection.send(commands.close_consumer(request.consumer_id))
    connection.send(commands.error(request.request_id, code, error_text(error)))


def _subscribe_request(request: api.CommandSubscribe, schema: Schema | None) -> SubscribeRequest:
    _require_name("subscription", request.subscription)
    _require_name("consumer", request.consumer_name)
    key_shared = request.keySharedMeta
    if len(key_shared.hashRanges) > HASH_RANGES:
        raise NotAllowedError(
            f"the consumer has {len(key_shared.hashRanges)} hash ranges; at most {HASH_RANGES} are allowed"
        )
    return SubscribeRequest(
        consumer_id=request.consumer_id,
        subscription=request.subscription,
        sub_type=SubscriptionType(request.subType),
        options=ConsumerOptions(
            name=request.consumer_name,
            priority_level=request.priority_level,
            metadata=_properties(request.metadata),
            hash_ranges=tuple((range_.start, range_.end) for range_ in key_shared.hashRanges),
            epoch=request.consumer_epoch if request.HasField("consumer_epoch") else None,
            read_compacted=request.read_compacted,
            takes_any_schema=schema is not None and schema.type is SchemaType.AUTO_CONSUME,
        ),
        key_shared_mode=KeySharedMode(key_shared.keySharedMode),
        is_durable=request.durable,
        from_earliest=request.initialPosition == api.CommandSubscribe.Earliest,
        start=_position(request.start_message_id) if request.HasField("start_message_id") else None,
        start_rollback_s=request.start_message_rollback_duration_sec,
        allow_out_of_order=key_shared.allowOutOfOrderDelivery,
        properties=_properties(request.subscription_properties, SUBSCRIPTION_PROPERTIES_LENGTH),
    )


def _position(message_id: api.MessageIdData) -> Position:
    return Position(signed(message_id.ledgerId), signed(message_id.entryId))


def _properties(pairs: Sequence[api.KeyValue], longest: int = PROPERTIES_LENGTH) -> dict[str, str] | None:
    """Return the properties in a request of a client as a dict, None if there are none.

    Raises:
        NotAllowedError: keys and values together have more than `longest` characters, there are more than `longest`
            properties (empty ones need memory, too), or a key or value is not UTF-8.
    """
    if len(pairs) > longest:
        raise NotAllowedError(f"the request has {count_of(len(pairs), 'property')}; at most {longest} are allowed")
    found: dict[str, str] = {}
    length = 0
    for pair in pairs:
        if not all(isinstance(text, str) for text in (pair.key, pair.value)):
            raise NotAllowedError("a property is not UTF-8")
        length += len(pair.key) + len(pair.value)
        if length > longest:
            raise NotAllowedError(f"the properties in the request have more than {longest} characters together")
        found[pair.key] = pair.value
    return found or None


def close_consumer(connection: Connection, request: api.CommandCloseConsumer) -> None:
    """Handle CLOSE_CONSUMER: detach the consumer, or cancel its SUBSCRIBE if that is still running. Answer with success
    in each case.
    """
    _cancel_attach(connection, "consumer", request.consumer_id)
    consumer: Consumer | None = connection.consumers.pop(request.consumer_id, None)
    if consumer is not None:
        consumer.subscription.detach(consumer)
    connection.send(commands.success(request.request_id))
