"""Builds the error response to a request: each command has its own. Also builds the text of the refusal of a SEND."""

from collections.abc import Callable
from typing import Any, Final

from pulsar_barycenter.broker.clients.consumer import MAX_MESSAGES_IN_ENTRY
from pulsar_barycenter.broker.wire.errors import ErrorCode
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.parsing import FIELD_OF_TYPE

_TYPE: Final = api.BaseCommand
_TRANSACTIONS: Final = frozenset(range(_TYPE.NEW_TXN, _TYPE.TC_CLIENT_CONNECT_REQUEST + 1, 2))
_ERROR_RESPONSES: Final[dict[int, Callable[[int, ErrorCode, str], bytes]]] = {
    _TYPE.LOOKUP: commands.lookup_failed,
    _TYPE.PARTITIONED_METADATA: commands.partitions_failed,
    _TYPE.CONSUMER_STATS: commands.consumer_stats_failed,
    _TYPE.GET_SCHEMA: commands.schema_failed,
    _TYPE.SCALABLE_TOPIC_SUBSCRIBE: commands.scalable_subscribe_failed,
    _TYPE.GET_OR_CREATE_SCHEMA: lambda request_id, code, text: commands.create_schema_response(
        request_id, code=code, message=text
    ),
}


def refusal(number: int, request: Any, code: ErrorCode, text: str) -> bytes | None:
    """Return the frame with the error for a refused request. Return None if a client expects no answer to the request,
    for example to FLOW, or to an ACK without a request id.
    """
    if number == _TYPE.SCALABLE_TOPIC_LOOKUP:
        return commands.scalable_topic_failed(request.session_id, code, text)
    if number == _TYPE.WATCH_SCALABLE_TOPICS:
        return commands.scalable_topics_failed(request.watch_id, code, text)
    if "request_id" not in request.DESCRIPTOR.fields_by_name or not request.HasField("request_id"):
        return None
    request_id = request.request_id
    if number == _TYPE.ACK:
        return commands.ack_response(request.consumer_id, request_id, code=code, message=text)
    if number in _TRANSACTIONS:
        return commands.refuse_transaction(number, request_id, text)
    return _ERROR_RESPONSES.get(number, commands.error)(request_id, code, text)


def request_name(number: int) -> str:
    """Return the name of a command type, for logs."""
    return FIELD_OF_TYPE.get(number, str(number))


def miscounted(declared: int, counted: int) -> str:
    """Return the error text for a SEND with a wrong number of messages. `declared` is the number in the SEND, `counted`
    the number in the metadata of its entry. If both are equal, the error is that the number is not in the allowed
    range.
    """
    if declared != counted:
        return f"the SEND has {count_of(declared, 'message')}, but the metadata of its entry says {counted}"
    return f"the batch has {count_of(declared, 'message')}: send from 1 to {MAX_MESSAGES_IN_ENTRY}"
