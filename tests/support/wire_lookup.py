"""A lookup over the binary protocol that follows redirects, without a client library."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from pulsar_barycenter.protocol import pulsar_api_pb2 as api

_MOST_REDIRECTS = 20


_FOR_NOW = (api.ServiceNotReady, api.MetadataError)


class LookupRefusedError(Exception):
    """The answer was neither an owner nor a redirect; `for_now` if clients try again by themselves."""

    def __init__(self, refusal: api.CommandLookupTopicResponse) -> None:
        super().__init__(f"{api.ServerError.Name(refusal.error)}: {refusal.message}")
        self.for_now = refusal.error in _FOR_NOW


async def lookup_over_wire(service_url: str, topic: str) -> str:
    """Return the service URL of the broker that serves `topic`, asking the one at `service_url` first.

    Raises:
        LookupRefusedError: a broker refused, with its text.
    """
    authoritative = False
    for _ in range(_MOST_REDIRECTS):
        answer = await _ask(service_url, topic, authoritative)
        if answer.response == api.CommandLookupTopicResponse.Connect:
            return str(answer.brokerServiceUrl)
        if answer.response != api.CommandLookupTopicResponse.Redirect:
            raise LookupRefusedError(answer)
        service_url, authoritative = answer.brokerServiceUrl, answer.authoritative
    raise AssertionError(f"more than {_MOST_REDIRECTS} redirects for {topic}")


async def _ask(service_url: str, topic: str, authoritative: bool) -> Any:
    address = urlsplit(service_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        connect = api.BaseCommand(type=api.BaseCommand.CONNECT)
        connect.connect.client_version = "Barycenter test"
        connect.connect.protocol_version = 19
        writer.write(_frame(connect))
        await _read(reader)
        lookup = api.BaseCommand(type=api.BaseCommand.LOOKUP)
        lookup.lookupTopic.topic = topic
        lookup.lookupTopic.request_id = 1
        lookup.lookupTopic.authoritative = authoritative
        writer.write(_frame(lookup))
        return (await _read(reader)).lookupTopicResponse
    finally:
        writer.close()
        await writer.wait_closed()


def _frame(command: api.BaseCommand) -> bytes:
    body = command.SerializeToString()
    return (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


async def _read(reader: asyncio.StreamReader) -> api.BaseCommand:
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = await reader.readexactly(size)
    return api.BaseCommand.FromString(frame[4 : 4 + int.from_bytes(frame[:4], "big")])
