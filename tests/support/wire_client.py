"""A client that sends exactly what a test says, over a real socket, and keeps everything that the broker sends."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import Connection, Received, Role
from pulsar_barycenter.protocol.frames import encode_entry
from support import client_requests

DEADLINE_S = 30
TYPE = api.BaseCommand


def entry_of(
    payload: bytes,
    *,
    sequence_id: int = 0,
    batch: int | None = None,
    producer: str = "p",
    key: str | None = None,
    **more: Any,
) -> bytes:
    """Return an entry as a producer would send it; `batch` marks it as a batch of that number of messages. `more` are
    further fields of the metadata.
    """
    fields = {"producer_name": producer, "sequence_id": sequence_id, "publish_time": 1_700_000_000_000, **more}
    metadata = api.MessageMetadata(**fields)
    if batch is not None:
        metadata.num_messages_in_batch = batch
    if key is not None:
        metadata.partition_key = key
    return encode_entry(metadata.SerializeToString(), payload)


class WireClient(asyncio.Protocol):
    """`received` holds the commands that no `expect` has taken yet, oldest first."""

    def __init__(self) -> None:
        self.wire = Connection(Role.CLIENT)
        self.received: list[Received] = []
        self.closed = asyncio.Event()
        self.answers_pings = True
        self._news = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._request_id = 0

    @classmethod
    async def connect(
        cls, port: int, *, version: int = commands.PROTOCOL_VERSION, tls: ssl.SSLContext | None = None, **proof: Any
    ) -> "WireClient":
        client = await cls.introduced(port, version=version, tls=tls, **proof)
        await client.expect(TYPE.CONNECTED)
        return client

    @classmethod
    async def introduced(
        cls, port: int, *, version: int = commands.PROTOCOL_VERSION, tls: ssl.SSLContext | None = None, **proof: Any
    ) -> "WireClient":
        """Connect and send CONNECT with a `proof`, without awaiting the broker's answer."""
        client = await cls.open(port, tls)
        client.wire.connect("Test", protocol_version=version, **proof)
        client.write(client.wire.data_to_send())
        return client

    @classmethod
    async def open(cls, port: int, tls: ssl.SSLContext | None = None) -> "WireClient":
        """Connect without sending anything."""
        _, client = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port, ssl=tls)
        return client

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.received.extend(self.wire.receive_data(data))
        owed = self.wire.data_to_send()
        if owed and self.answers_pings:
            self.write(owed)
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self._news.set()

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def request_id(self) -> int:
        self._request_id += 1
        return self._request_id

    async def take(self, condition: Callable[[int, Any], bool]) -> Received:
        """Wait for the first command that fulfils `condition`, and take it out of `received`."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for at, (number, message, entry) in enumerate(self.received):
                    if condition(number, message):
                        del self.received[at]
                        return number, message, entry
                assert not self.closed.is_set(), f"closed by the broker; it had said {self.received}"
                self._news.clear()
                await self._news.wait()

    async def expect(self, command_type: int) -> Any:
        """Wait for a command of that type and return its sub-message."""
        return (await self.take(lambda number, _: number == command_type))[1]

    async def expect_closed(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self.closed.wait()

    async def ask(self, frame: bytes, *answers: int) -> tuple[int, Any]:
        """Send a request and return the type and sub-message of the first answer of these types."""
        self.write(frame)
        number, message, _ = await self.take(lambda number, _: number in answers)
        return number, message

    async def settled(self) -> None:
        """Wait until the broker has handled everything sent so far."""
        await self.ask(client_requests.get_schema(self.request_id(), "persistent://a/b/c"), TYPE.GET_SCHEMA_RESPONSE)

    async def produce(self, topic: str, producer_id: int = 1, **options: Any) -> Any:
        """Create a producer and return its PRODUCER_SUCCESS, or the ERROR."""
        frame = client_commands.producer(self.request_id(), producer_id, topic, **options)
        return (await self.ask(frame, TYPE.PRODUCER_SUCCESS, TYPE.ERROR))[1]

    async def subscribe(
        self, topic: str, subscription: str = "s", consumer_id: int = 1, *, permits: int = 0, **options: Any
    ) -> Any:
        """Create a consumer, give it permits, and return SUCCESS or ERROR."""
        frame = client_commands.subscribe(self.request_id(), consumer_id, topic, subscription, **options)
        answer = (await self.ask(frame, TYPE.SUCCESS, TYPE.ERROR))[1]
        if permits:
            self.write(client_commands.flow(consumer_id, permits))
        return answer

    def send(
        self,
        sequence_id: int,
        payload: bytes = b"x",
        producer_id: int = 1,
        *,
        batch: int | None = None,
        **metadata: Any,
    ) -> None:
        entry = entry_of(payload, sequence_id=sequence_id, batch=batch, **metadata)
        self.write(client_commands.send(producer_id, sequence_id, entry, num_messages=batch))

    async def send_all(self, count: int, *, first: int = 0, producer_id: int = 1) -> list[tuple[int, int]]:
        """Send entries with the payloads 0, 1, … and return their positions once all have receipts."""
        for number in range(first, first + count):
            self.send(number, b"%d" % number, producer_id)
        receipts = [await self.expect(TYPE.SEND_RECEIPT) for _ in range(count)]
        assert [receipt.sequence_id for receipt in receipts] == list(range(first, first + count))
        return [(receipt.message_id.ledgerId, receipt.message_id.entryId) for receipt in receipts]

    async def messages(self, count: int) -> list[tuple[Any, bytes]]:
        """Wait for `count` MESSAGEs; return their commands and entries."""
        taken = [await self.take(lambda number, _: number == TYPE.MESSAGE) for _ in range(count)]
        return [(message, entry) for _, message, entry in taken]

    def pending(self, command_type: int) -> list[Any]:
        """Return the commands of that type that arrived and were not taken."""
        return [message for number, message, _ in self.received if number == command_type]
