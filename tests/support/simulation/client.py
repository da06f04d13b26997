"""Clients of a simulated cluster: they use the real binary protocol and reconnect as the C++ client does.

A `SimClient` is a process with connections, one to each broker. A `NumberingProducer` sends messages 0, 1, 2, … and
a `CheckingConsumer` requires them in that order. Behaviour as observed of the real client (binary-protocol
reference, 3.11 and 4.7): after a lost connection or a CLOSE_* without an address, back-off from 100 ms, a new lookup
at the service URL, then PRODUCER with a higher epoch and everything unacknowledged again.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from pulsar_barycenter.protocol import client_commands, commands, frames
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import Connection, KeepAlive, Role
from pulsar_barycenter.protocol.errors import ProtocolError
from support import client_requests
from support.simulation.loop import Node, SimulationError

TYPE = api.BaseCommand
OPERATION_TIMEOUT_S = 30.0
KEEP_ALIVE_S = 30.0
FIRST_BACKOFF_S = 0.1
MAX_BACKOFF_S = 3.0
"""Of clients that are there all the time: the connections that brokers refuse while they are down do not count."""
REAL_MAX_BACKOFF_S = 60.0
"""Of the real client, and of those that come when all brokers are there: each answer that helps nothing counts."""
MAX_REDIRECTS = 20

_LOOKUP_ANSWERS = frozenset(
    {
        TYPE.LOOKUP_RESPONSE,
        TYPE.PARTITIONED_METADATA_RESPONSE,
        TYPE.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        TYPE.GET_SCHEMA_RESPONSE,
    }
)


class RetryError(Exception):
    """Try again later, with a new lookup."""


class RefusedError(RetryError):
    """A broker answered a request with an ERROR."""

    def __init__(self, error: api.CommandError) -> None:
        super().__init__(f"{api.ServerError.Name(error.error)}: {error.message}")
        self.code = error.error


class LinkedProducer(Protocol):
    """A producer of a client, as its connection uses it."""

    def receipt(self, receipt: api.CommandSendReceipt) -> None: ...
    def detached(self, link: "ClientLink", assigned_url: str | None) -> None: ...


def address_of(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("pulsar://").rpartition(":")
    return host, int(port)


def _wait_any_time(limit: asyncio.Timeout, queued: Callable[[], None]) -> None:
    limit.reschedule(None)
    queued()


class ClientLink(asyncio.Protocol):
    """One connection. Lookup requests and the others count in two sequences, as in the C++ client."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.is_lost = False
        self.producers: dict[int, LinkedProducer] = {}
        self.consumers: dict[int, CheckingConsumer] = {}
        self._loop = asyncio.get_running_loop()
        self._protocol = Connection(Role.CLIENT)
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._lookups: dict[int, asyncio.Future[Any]] = {}
        self._requests: dict[int, asyncio.Future[Any]] = {}
        self._queued: dict[int, Callable[[], None]] = {}
        """Requests whose answer is awaited without a limit once they are told to wait, and what is called then."""
        self._next_lookup = 0
        self._next_request = 0
        self._transport: Any = None
        self._keep_alive: asyncio.TimerHandle | None = None

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._protocol.connect("Simulated-Client", protocol_version=20)
        self._flush()
        self._keep_alive = self._loop.call_later(KEEP_ALIVE_S, self._tick)

    def data_received(self, data: bytes) -> None:
        try:
            received = self._protocol.receive_data(data)
        except ProtocolError as error:
            raise SimulationError("protocol", f"a broker sent what a client refuses: {error!r}") from error
        for number, message, entry in received:
            self._handle(number, message, entry)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._keep_alive is not None:
            self._keep_alive.cancel()
        for future in [self._opened, *self._lookups.values(), *self._requests.values()]:
            if not future.done():
                future.set_exception(RetryError("connection lost"))
                future.exception()
        for producer in list(self.producers.values()):
            producer.detached(self, None)
        for consumer in list(self.consumers.values()):
            consumer.detached(self, None)

    def _handle(self, number: int, message: Any, entry: bytes) -> None:
        if number == TYPE.SEND_RECEIPT:
            if (producer := self.producers.get(message.producer_id)) is not None:
                producer.receipt(message)
        elif number == TYPE.MESSAGE:
            if (consumer := self.consumers.get(message.consumer_id)) is not None:
                consumer.message(message, entry)
        elif number == TYPE.CONNECTED:
            self._opened.set_result(None)
        elif number in _LOOKUP_ANSWERS:
            self._answer(self._lookups, message)
        elif number == TYPE.CLOSE_PRODUCER:
            if (producer := self.producers.pop(message.producer_id, None)) is not None:
                producer.detached(self, message.assignedBrokerServiceUrl or None)
        elif number == TYPE.CLOSE_CONSUMER:
            if (consumer := self.consumers.pop(message.consumer_id, None)) is not None:
                consumer.detached(self, message.assignedBrokerServiceUrl or None)
        elif number == TYPE.SEND_ERROR:
            self.abort()  # as the C++ client does for every code but ChecksumError
        elif number == TYPE.ERROR and message.request_id == commands.NO_REQUEST:
            self.abort()
        elif number == TYPE.PRODUCER_SUCCESS and not message.producer_ready:
            if (queued := self._queued.get(message.request_id)) is not None:
                queued()
        elif number in (TYPE.SUCCESS, TYPE.ERROR, TYPE.PRODUCER_SUCCESS, TYPE.GET_LAST_MESSAGE_ID_RESPONSE):
            self._answer(self._requests, message)

    @staticmethod
    def _answer(table: dict[int, asyncio.Future[Any]], message: Any) -> None:
        future = table.pop(message.request_id, None)
        if future is not None and not future.done():
            future.set_result(message)

    # ---- for the client

    async def opened(self) -> None:
        async with asyncio.timeout(10):
            await self._opened

    async def lookup(self, topic: str, *, authoritative: bool) -> api.CommandLookupTopicResponse:
        number = self._next_lookup
        self._next_lookup += 1
        frame = client_requests.lookup(number, topic, authoritative=authoritative)
        answer: api.CommandLookupTopicResponse = await self._ask(self._lookups, number, frame)
        return answer

    async def request(self, build: Callable[[int], bytes], queued: Callable[[], None] = lambda: None) -> Any:
        """Send what `build` makes of a request id; return the answer. An ERROR is a RefusedError.

        `queued` is called when a PRODUCER gets the answer to wait for its turn, which may take any time.
        """
        number = self._next_request
        self._next_request += 1
        answer = await self._ask(self._requests, number, build(number), queued)
        if isinstance(answer, api.CommandError):
            raise RefusedError(answer)
        return answer

    async def _ask(
        self,
        table: dict[int, asyncio.Future[Any]],
        number: int,
        frame: bytes,
        queued: Callable[[], None] = lambda: None,
    ) -> Any:
        if self.is_lost:
            raise RetryError("connection lost")
        future: asyncio.Future[Any] = self._loop.create_future()
        table[number] = future
        self.send(frame)
        try:
            async with asyncio.timeout(OPERATION_TIMEOUT_S) as limit:
                if table is self._requests:
                    self._queued[number] = partial(_wait_any_time, limit, queued)
                return await future
        except TimeoutError:
            raise RetryError("no answer") from None
        finally:
            table.pop(number, None)
            if table is self._requests:
                self._queued.pop(number, None)

    def send(self, frame: bytes) -> None:
        if not self.is_lost:
            self._transport.write(frame)

    def abort(self) -> None:
        self._transport.abort()

    def _flush(self) -> None:
        if data := self._protocol.data_to_send():
            self._transport.write(data)

    def _tick(self) -> None:
        if self._protocol.keep_alive() is KeepAlive.PEER_IS_GONE:
            self.abort()
            return
        self._flush()
        self._keep_alive = self._loop.call_later(KEEP_ALIVE_S, self._tick)


class SimClient:
    """One client process: connections by address, lookups at any of `service_urls`."""

    def __init__(
        self, node: Node, service_urls: list[str], source: random.Random, *, max_backoff_s: float = MAX_BACKOFF_S
    ) -> None:
        self.node = node
        self.max_backoff_s = max_backoff_s
        self.random = source
        self.redirects_exhausted = 0
        self._service_urls = service_urls
        self._links: dict[tuple[str, int], asyncio.Task[ClientLink]] = {}
        self._ids = 0

    def next_id(self) -> int:
        self._ids += 1
        return self._ids - 1

    async def link(self, url: str) -> ClientLink:
        """Return an open connection to the broker at `url`, a shared one if there is one."""
        address = address_of(url)
        connecting = self._links.get(address)
        if connecting is None or (connecting.done() and (connecting.exception() or connecting.result().is_lost)):
            connecting = self._links[address] = self.node.spawn(self._connect(address), f"connect {url}")
        return await asyncio.shield(connecting)

    async def _connect(self, address: tuple[str, int]) -> ClientLink:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(10):
                _, link = await loop.create_connection(lambda: ClientLink(address), *address)
            try:
                await link.opened()
            except (TimeoutError, RetryError):
                link.abort()
                raise
        except (OSError, TimeoutError) as error:
            raise RetryError(f"no connection to {address}: {error!r}") from error
        return link

    async def lookup(self, topic: str, *, at: str | None = None) -> str:
        """Return the URL of the broker that serves `topic`, following redirects; the first request goes to `at`."""
        url = at or self.random.choice(self._service_urls)
        authoritative = False
        for _ in range(MAX_REDIRECTS + 1):
            link = await self.link(url)
            answer = await link.lookup(topic, authoritative=authoritative)
            if answer.response == api.CommandLookupTopicResponse.Connect:
                return answer.brokerServiceUrl
            if answer.response == api.CommandLookupTopicResponse.Failed:
                if answer.error == api.ServiceNotReady:
                    link.abort()  # C++ closes the whole connection at this code
                raise RetryError(f"lookup: {api.ServerError.Name(answer.error)}: {answer.message}")
            url, authoritative = answer.brokerServiceUrl, answer.authoritative
        self.redirects_exhausted += 1
        raise RetryError("too many redirects")


class _Attached:
    """The common part of a producer and a consumer: attaching to a broker repeatedly."""

    def __init__(self, client: SimClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.id = client.next_id()
        self.state = "new"
        self.attachments = 0
        self.last_retry = ""
        self._link: ClientLink | None = None
        self._gone = asyncio.Event()
        self._assigned: str | None = None

    async def run(self) -> None:
        """Stay attached for ever."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            self._gone.clear()
            try:
                self.state = "looking up"
                assigned, self._assigned = self._assigned, None
                url = assigned or await self.client.lookup(self.topic)
                self.state = f"attaching to {url}"
                link = await self.client.link(url)
                self._link = link
                await self._attach(link)
                self.attachments += 1
                self.state = f"attached to {url}"
                backoff_s = FIRST_BACKOFF_S
                await self._gone.wait()
            except RetryError as retry:
                self.last_retry = str(retry)
            self._link = None
            if self._assigned is None:
                self.state = f"waiting after {self.last_retry}"
                await asyncio.sleep(backoff_s * (0.9 + 0.1 * self.client.random.random()))
                backoff_s = min(2 * backoff_s, self.client.max_backoff_s)

    async def _attach(self, link: ClientLink) -> None:
        raise NotImplementedError

    def detached(self, link: ClientLink, assigned_url: str | None) -> None:
        if link is self._link:
            self._link = None
            self._assigned = assigned_url
            self.last_retry = "closed by the broker" if not link.is_lost else "connection lost"
            self._gone.set()


class NumberingProducer(_Attached):
    """Sends messages 0, 1, …, each its number as text; `acknowledged` counts those with a receipt."""

    def __init__(self, client: SimClient, topic: str) -> None:
        super().__init__(client, topic)
        self.sent = 0
        self.acknowledged = 0
        self.duplicates_resent = 0
        self._pending: deque[tuple[int, bytes]] = deque()
        self._name: str | None = None
        self._epoch = 0
        self._ready = False

    def publish(self) -> None:
        """Queue the next message, and send it if attached."""
        loop = asyncio.get_running_loop()
        metadata = api.MessageMetadata(
            producer_name=self._name or "unnamed", sequence_id=self.sent, publish_time=int(loop.time() * 1000)
        )
        entry = frames.encode_entry(metadata.SerializeToString(), b"%d" % self.sent)
        frame = client_commands.send(self.id, self.sent, entry)
        self._pending.append((self.sent, frame))
        self.sent += 1
        if self._ready and self._link is not None:
            self._link.send(frame)

    async def _attach(self, link: ClientLink) -> None:
        self._ready = False
        link.producers[self.id] = self
        answer = await link.request(
            lambda request_id: client_commands.producer(
                request_id,
                self.id,
                self.topic,
                producer_name=self._name,
                user_provided_name=False,
                epoch=self._epoch,
            )
        )
        if self._link is not link:
            raise RetryError("closed while attaching")
        self._name = answer.producer_name
        self._epoch += 1
        self._ready = True
        for _, frame in self._pending:
            link.send(frame)
        self.duplicates_resent += len(self._pending)

    def receipt(self, receipt: api.CommandSendReceipt) -> None:
        """Take a receipt: for the oldest unacknowledged message, or one of an earlier send of an older one."""
        if not self._pending or receipt.sequence_id < self._pending[0][0]:
            return
        if receipt.sequence_id > self._pending[0][0]:
            raise SimulationError(
                "receipts in order", f"{self.topic}: {receipt.sequence_id} before {self._pending[0][0]}"
            )
        self._pending.popleft()
        self.acknowledged += 1

    def detached(self, link: ClientLink, assigned_url: str | None) -> None:
        if link is self._link:
            self._ready = False
        super().detached(link, assigned_url)


class CheckingConsumer(_Attached):
    """Takes the messages of a topic, requires that none is missing, acknowledges most of them after a while."""

    QUEUE = 50

    def __init__(self, client: SimClient, topic: str, subscription: str, *, failover: bool = False) -> None:
        super().__init__(client, topic)
        self.received = 0
        self.duplicates = 0
        self.subscribed = asyncio.Event()
        self._subscription = subscription
        self._type = api.CommandSubscribe.Failover if failover else api.CommandSubscribe.Exclusive
        self._taken = 0
        self._unacked: list[api.MessageIdData] = []
        self._ack_timer: asyncio.TimerHandle | None = None

    async def _attach(self, link: ClientLink) -> None:
        self._taken = 0
        self._unacked.clear()  # acknowledgements not sent yet are lost with the old attachment
        link.consumers[self.id] = self
        await link.request(
            lambda request_id: client_commands.subscribe(
                request_id,
                self.id,
                self.topic,
                self._subscription,
                sub_type=self._type,
                consumer_name=f"consumer-{self.id}",
                initial_position=api.CommandSubscribe.Earliest,
            )
        )
        if self._link is not link:
            raise RetryError("closed while attaching")
        link.send(client_commands.flow(self.id, self.QUEUE))
        self.subscribed.set()

    def message(self, message: api.CommandMessage, entry: bytes) -> None:
        frames.verify_checksum(entry)
        _, payload = frames.split_entry(entry)
        number = int(payload)
        if number > self.received:
            raise SimulationError(
                "every message in order", f"{self.topic}: message {number} came when {self.received} was due"
            )
        if number == self.received:
            self.received += 1
        else:
            self.duplicates += 1
        self._unacked.append(message.message_id)
        self._taken += 1
        if self._taken >= self.QUEUE // 2 and self._link is not None:
            self._link.send(client_commands.flow(self.id, self._taken))
            self._taken = 0
        if self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(0.1, self._acknowledge)

    def _acknowledge(self) -> None:
        self._ack_timer = None
        if self._link is None or not self._unacked:
            return
        if self.client.random.random() < 0.5:
            self._link.send(client_commands.ack(self.id, [self._unacked[-1]], cumulative=True))
        else:
            self._link.send(client_commands.ack(self.id, self._unacked))
        self._unacked.clear()
