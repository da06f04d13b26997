"""Consumers over the wire: a topic, and what they send and receive there."""

from typing import Any

from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.wire_client import TYPE, WireClient

TOPIC = "persistent://public/default/t"
SHARED = api.CommandSubscribe.Shared
FAILOVER = api.CommandSubscribe.Failover
KEY_SHARED = api.CommandSubscribe.Key_Shared


def ids(*positions: tuple[int, int], ack_set: tuple[int, ...] = ()) -> list[api.MessageIdData]:
    return [commands.message_id(ledger, entry, ack_set=ack_set) for ledger, entry in positions]


def place(message: Any) -> tuple[int, int]:
    return message.message_id.ledgerId, message.message_id.entryId


async def payloads(client: WireClient, count: int) -> list[int]:
    return [int(entry[10 + int.from_bytes(entry[6:10], "big") :]) for _, entry in await client.messages(count)]


async def assert_no_message(client: WireClient) -> None:
    await client.settled()
    assert client.pending(TYPE.MESSAGE) == []
