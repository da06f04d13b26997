"""The rights that each command needs, and handlers that check them first.

`NEEDS` has a row for each command that is handled; only super users may send a command without a row. Commands about an
attached producer or consumer need no right of their own: attaching needed it, and `close_unentitled` closes producers
and consumers whose clients lose their right. Such clients attach again, and are refused.
Source: the checks of Pulsar's `ServerCnx`, and `checkPermissionsAsync` of its producers and consumers.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from pulsar_barycenter.admin.operations import NamespaceOperation, TopicOperation
from pulsar_barycenter.broker.authorization.authorizer import Authorizer
from pulsar_barycenter.broker.authorization.needs import Need, OfNamespace, OfTopic, SuperUser
from pulsar_barycenter.broker.authorization.rules import granted_by
from pulsar_barycenter.broker.wire.connection import Connection, Handler
from pulsar_barycenter.broker.wire.refusals import request_name
from pulsar_barycenter.broker.wire.services import OpenConnection
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

Needs: TypeAlias = tuple[Need, ...]
NeedsOf: TypeAlias = Callable[[Connection, Any], Needs]

_TURN: Final = 500
"""The number of producers and consumers whose rights are checked in one iteration of the event loop."""


@dataclass(frozen=True, slots=True)
class CommandRight:
    """The right that a type of command needs. `needs` returns the rights that a given request needs. `who` describes
    the clients that have the right, as text for the documentation.
    """

    needs: NeedsOf
    who: str


def _nothing(connection: Connection, request: object) -> Needs:
    return ()


def _at_topic(operation: TopicOperation) -> CommandRight:
    def needs(connection: Connection, request: Any) -> Needs:
        return (OfTopic(TopicName.parse(request.topic), operation),)

    return CommandRight(needs, granted_by(operation))


def _producer(connection: Connection, request: api.CommandProducer) -> Needs:
    topic = TopicName.parse(request.topic)
    produce = OfTopic(topic, TopicOperation.PRODUCE)
    subscription = request.initial_subscription_name
    return (produce, OfTopic(topic, TopicOperation.SUBSCRIBE, subscription)) if subscription else (produce,)


def _subscribe(connection: Connection, request: api.CommandSubscribe) -> Needs:
    return (OfTopic(TopicName.parse(request.topic), TopicOperation.CONSUME, request.subscription),)


def _of_consumer(operation: TopicOperation) -> CommandRight:
    """Return the right that a command of an attached consumer needs: `operation` on the topic of that consumer.

    A request for a consumer that is not attached needs no right: the handler answers it with an error.
    """

    def needs(connection: Connection, request: Any) -> Needs:
        consumer = connection.consumers.get(request.consumer_id)
        if consumer is None:
            return ()
        return (OfTopic(consumer.subscription.topic.name, operation, consumer.subscription.name),)

    return CommandRight(needs, granted_by(operation))


def _topics_of_namespace(
    connection: Connection, request: api.CommandGetTopicsOfNamespace | api.CommandWatchScalableTopics
) -> Needs:
    return (OfNamespace(NamespaceName.parse(request.namespace), NamespaceOperation.GET_TOPICS),)


_TYPE: Final = api.BaseCommand
_FIRST: Final = CommandRight(_nothing, "every client: it authenticates")
_ATTACHED: Final = CommandRight(_nothing, "the client of the producer or consumer")
_UNSUPPORTED: Final = CommandRight(_nothing, "no client: it is not supported")
_WITH_SUBSCRIPTION: Final = "; with an initial subscription also consume"

NEEDS: Final[Mapping[int, CommandRight]] = {
    int(number): right
    for number, right in (
        (_TYPE.CONNECT, _FIRST),
        (_TYPE.AUTH_RESPONSE, _FIRST),
        (_TYPE.LOOKUP, _at_topic(TopicOperation.LOOKUP)),
        (_TYPE.PARTITIONED_METADATA, _at_topic(TopicOperation.LOOKUP)),
        (
            _TYPE.GET_TOPICS_OF_NAMESPACE,
            CommandRight(_topics_of_namespace, granted_by(NamespaceOperation.GET_TOPICS)),
        ),
        (_TYPE.GET_SCHEMA, _at_topic(TopicOperation.GET_METADATA)),
        (_TYPE.GET_OR_CREATE_SCHEMA, _at_topic(TopicOperation.PRODUCE)),
        (_TYPE.PRODUCER, CommandRight(_producer, granted_by(TopicOperation.PRODUCE) + _WITH_SUBSCRIPTION)),
        (_TYPE.SUBSCRIBE, CommandRight(_subscribe, granted_by(TopicOperation.CONSUME))),
        (_TYPE.SEEK, _of_consumer(TopicOperation.RESET_CURSOR)),
        (_TYPE.UNSUBSCRIBE, _of_consumer(TopicOperation.UNSUBSCRIBE)),
        (_TYPE.GET_LAST_MESSAGE_ID, _of_consumer(TopicOperation.PEEK_MESSAGES)),
        (_TYPE.CONSUMER_STATS, _ATTACHED),
        (_TYPE.FLOW, _ATTACHED),
        (_TYPE.ACK, _ATTACHED),
        (_TYPE.REDELIVER_UNACKNOWLEDGED_MESSAGES, _ATTACHED),
        (_TYPE.CLOSE_PRODUCER, _ATTACHED),
        (_TYPE.CLOSE_CONSUMER, _ATTACHED),
        (_TYPE.WATCH_TOPIC_LIST, _UNSUPPORTED),
        (_TYPE.WATCH_TOPIC_LIST_CLOSE, _UNSUPPORTED),
        (_TYPE.SCALABLE_TOPIC_LOOKUP, _at_topic(TopicOperation.LOOKUP)),
        (_TYPE.SCALABLE_TOPIC_CLOSE, _ATTACHED),
        (_TYPE.SCALABLE_TOPIC_SUBSCRIBE, _UNSUPPORTED),
        (_TYPE.SCALABLE_TOPIC_UNSUBSCRIBE, _ATTACHED),
        (
            _TYPE.WATCH_SCALABLE_TOPICS,
            CommandRight(_topics_of_namespace, granted_by(NamespaceOperation.GET_TOPICS)),
        ),
        (_TYPE.WATCH_SCALABLE_TOPICS_CLOSE, _ATTACHED),
        (_TYPE.NEW_TXN, _UNSUPPORTED),
        (_TYPE.ADD_PARTITION_TO_TXN, _UNSUPPORTED),
        (_TYPE.ADD_SUBSCRIPTION_TO_TXN, _UNSUPPORTED),
        (_TYPE.END_TXN, _UNSUPPORTED),
        (_TYPE.END_TXN_ON_PARTITION, _UNSUPPORTED),
        (_TYPE.END_TXN_ON_SUBSCRIPTION, _UNSUPPORTED),
        (_TYPE.TC_CLIENT_CONNECT_REQUEST, _UNSUPPORTED),
    )
}

_CHECKED_BY_HANDLER: Final = frozenset({int(_TYPE.PRODUCER), int(_TYPE.SUBSCRIBE)})
"""The handlers of these commands check the rights in the task in which they load the topic, so that a CLOSE can cancel
both.
"""


def needs_of(number: int, connection: Connection, request: Any) -> Needs:
    """Return the rights that a client needs for a request of command type `number`. For a type that is not in NEEDS,
    only a super user has the right.

    Raises:
        InvalidNameError: the name of the topic or namespace is not valid.
    """
    row = NEEDS.get(number)
    return (SuperUser(),) if row is None else row.needs(connection, request)


def guarded(handlers: Mapping[int, Handler], authorizer: Authorizer) -> dict[int, Handler]:
    """Return the given handlers, each with a check before it: if the client lacks a right for the command, the handler
    is not called, and AccessError is raised. The handlers in `_CHECKED_BY_HANDLER` stay as they are.
    """
    return {
        number: handler if number in _CHECKED_BY_HANDLER else partial(_check_first, number, handler, authorizer)
        for number, handler in handlers.items()
    }


def _check_first(
    number: int, handler: Handler, authorizer: Authorizer, connection: Connection, request: Any
) -> Coroutine[Any, Any, None] | None:
    needs = needs_of(number, connection, request)
    if not needs or authorizer.allows_at_once(connection.principal, needs):
        return handler(connection, request)
    return _check(number, handler, needs, authorizer, connection, request)


async def _check(
    number: int, handler: Handler, needs: Needs, authorizer: Authorizer, connection: Connection, request: Any
) -> None:
    await authorizer.require(connection.principal, needs, address=connection.address, request=request_name(number))
    work = handler(connection, request)
    if work is not None:
        await work


async def require_rights(number: int, connection: Connection, request: Any) -> None:
    """Check that the client of a connection has the rights for a request of command type `number`.

    Raises:
        AccessError: the client lacks a right.
        InvalidNameError, MetadataError: it is not known whether the client has the rights.
    """
    authorizer = connection.services.authorizer
    if authorizer is not None and authorizer.is_enabled:
        needs = needs_of(number, connection, request)
        await authorizer.require(connection.principal, needs, address=connection.address, request=request_name(number))


async def close_unentitled(connections: Iterable[OpenConnection], authorizer: Authorizer) -> int:
    """Close the producers and consumers whose clients do not have the right to be attached any more, because rights
    changed. Notify their clients. Return the number of closed producers and consumers.

    Raises:
        MetadataError: the permissions could not be read.
    """
    closed = checked = 0
    for connection in list(connections):
        for producer in list(connection.producers.values()):
            need = OfTopic(producer.topic.name, TopicOperation.PRODUCE)
            if not await _still_has(connection, need, authorizer) and not producer.closed:
                connection.close_producer(producer)
                producer.topic.forget_producer(producer)
                closed += 1
            checked += 1
            if checked % _TURN == 0:
                await asyncio.sleep(0)
        for consumer in list(connection.consumers.values()):
            subscription = consumer.subscription
            need = OfTopic(subscription.topic.name, TopicOperation.CONSUME, subscription.name)
            if not await _still_has(connection, need, authorizer) and not consumer.closed:
                connection.close_consumer(consumer)
                subscription.detach(consumer)
                closed += 1
            checked += 1
            if checked % _TURN == 0:
                await asyncio.sleep(0)
    return closed


async def _still_has(connection: OpenConnection, need: Need, authorizer: Authorizer) -> bool:
    principal = connection.principal
    return authorizer.allows_at_once(principal, (need,)) or (await authorizer.verdict(principal, need)).allowed
