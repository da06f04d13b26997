"""The answer to a request that failed, in the words of its own command; and why a SEND is refused."""

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
_OWN_WORDS: Final[dict[int, Callable[[int, ErrorCode, str], bytes]]] = {
    _TYPE.LOOKUP: commands.lookup_failed,
    _TYPE.PARTITIONED_METADATA: commands.partitions_failed,
    _TYPE.CONSUMER_STATS: commands.consumer_stats_failed,
    _TYPE.GET_SCHEMA: commands.schema_failed,
    _TYPE.GET_OR_CREATE_SCHEMA: lambda request_id, code, text: commands.create_schema_response(
        request_id, code=code, message=text
    ),
}


def refusal(number: int, request: Any, code: ErrorCode, text: str) -> bytes | None:
    """Return the frame that refuses a request, None where its command has no answer, as FLOW or an ACK without id."""
    if "request_id" not in request.DESCRIPTOR.fields_by_name or not request.HasField("request_id"):
        return None
    request_id = request.request_id
    if number == _TYPE.ACK:
        return commands.ack_response(request.consumer_id, request_id, code=code, message=text)
    if number in _TRANSACTIONS:
        return commands.refuse_transaction(number, request_id, text)
    return _OWN_WORDS.get(number, commands.error)(request_id, code, text)


def request_name(number: int) -> str:
    """Return the name of a command's type, for logs."""
    return FIELD_OF_TYPE.get(number, str(number))


def miscounted(said: int, counted: int) -> str:
    """Say why a SEND of `said` messages is refused whose entry's metadata has `counted`."""
    if said != counted:
        return f"the SEND is of {count_of(said, 'message')}, and its entry's metadata of {counted}"
    return f"a batch has from 1 to {MAX_MESSAGES_IN_ENTRY} messages, not {said}"
