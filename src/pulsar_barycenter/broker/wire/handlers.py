"""The table of the functions that handle the commands of clients."""

from collections.abc import Coroutine
from typing import Any, Final

from pulsar_barycenter.broker.wire import (
    attach_requests,
    consume_requests,
    lookup_requests,
    scalable_requests,
    transaction_requests,
)
from pulsar_barycenter.broker.wire.connection import Connection, Handler
from pulsar_barycenter.protocol import pulsar_api_pb2 as api


def _connect(connection: Connection, request: api.CommandConnect) -> Coroutine[Any, Any, None] | None:
    return connection.handshake.connect(request)


def _auth_response(connection: Connection, request: api.CommandAuthResponse) -> Coroutine[Any, Any, None] | None:
    return connection.handshake.respond(request)


_TYPE: Final = api.BaseCommand

HANDLERS: Final[dict[int, Handler]] = {
    int(number): handler
    for number, handler in (
        (_TYPE.CONNECT, _connect),
        (_TYPE.AUTH_RESPONSE, _auth_response),
        (_TYPE.FLOW, consume_requests.flow),
        (_TYPE.ACK, consume_requests.ack),
        (_TYPE.REDELIVER_UNACKNOWLEDGED_MESSAGES, consume_requests.redeliver),
        (_TYPE.SEEK, consume_requests.seek),
        (_TYPE.GET_LAST_MESSAGE_ID, consume_requests.last_message_id),
        (_TYPE.CONSUMER_STATS, consume_requests.consumer_stats),
        (_TYPE.UNSUBSCRIBE, consume_requests.unsubscribe),
        (_TYPE.PRODUCER, attach_requests.producer),
        (_TYPE.SUBSCRIBE, attach_requests.subscribe),
        (_TYPE.CLOSE_PRODUCER, attach_requests.close_producer),
        (_TYPE.CLOSE_CONSUMER, attach_requests.close_consumer),
        (_TYPE.LOOKUP, lookup_requests.lookup),
        (_TYPE.PARTITIONED_METADATA, lookup_requests.partitions),
        (_TYPE.GET_TOPICS_OF_NAMESPACE, lookup_requests.topics_of_namespace),
        (_TYPE.GET_SCHEMA, lookup_requests.get_schema),
        (_TYPE.GET_OR_CREATE_SCHEMA, lookup_requests.get_or_create_schema),
        (_TYPE.WATCH_TOPIC_LIST, lookup_requests.refuse_watch),
        (_TYPE.WATCH_TOPIC_LIST_CLOSE, lookup_requests.refuse_watch),
        (_TYPE.SCALABLE_TOPIC_LOOKUP, scalable_requests.look_up),
        (_TYPE.SCALABLE_TOPIC_CLOSE, scalable_requests.close_session),
        (_TYPE.SCALABLE_TOPIC_SUBSCRIBE, scalable_requests.subscribe),
        (_TYPE.SCALABLE_TOPIC_UNSUBSCRIBE, scalable_requests.unsubscribe),
        (_TYPE.WATCH_SCALABLE_TOPICS, scalable_requests.watch_namespace),
        (_TYPE.WATCH_SCALABLE_TOPICS_CLOSE, scalable_requests.close_session),
        (_TYPE.NEW_TXN, transaction_requests.refuse(50)),
        (_TYPE.ADD_PARTITION_TO_TXN, transaction_requests.refuse(52)),
        (_TYPE.ADD_SUBSCRIPTION_TO_TXN, transaction_requests.refuse(54)),
        (_TYPE.END_TXN, transaction_requests.refuse(56)),
        (_TYPE.END_TXN_ON_PARTITION, transaction_requests.refuse(58)),
        (_TYPE.END_TXN_ON_SUBSCRIPTION, transaction_requests.refuse(60)),
        (_TYPE.TC_CLIENT_CONNECT_REQUEST, transaction_requests.refuse(62)),
    )
}
"""The handler of each command, by the number of its type. PING and PONG are not here, because `protocol` handles them;
SEND is not, because `Connection` handles it."""
