"""One connection to the broker that serves the topics, shared by all publishers and readers.

A connection begins to connect when it is created. Any error ends it: it is *lost* then, every request fails with
UnreachableError, and each publisher and reader is detached once. A lost connection is not used again; publishers and
readers get another one.

Its memory is limited: incoming, one frame of Pulsar's usual size and one read; outgoing, MOST_UNWRITTEN_BYTES and the
frames of one iteration of the event loop. Everything that arrives is processed at once.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

from pulsar_barycenter import version
from pulsar_barycenter.broker.system_topics.errors import RefusedError, UnreachableError
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.tls import ClientTls
from pulsar_barycenter.protocol import client_commands, commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import Connection as Wire
from pulsar_barycenter.protocol.connection_state import KeepAlive, Role
from pulsar_barycenter.protocol.errors import ProtocolError

_TYPE: Final = api.BaseCommand
_ANSWERS: Final = frozenset({_TYPE.SUCCESS, _TYPE.PRODUCER_SUCCESS, _TYPE.GET_LAST_MESSAGE_ID_RESPONSE})
_CLIENT_VERSION: Final = f"Barycenter {version()}"
_FEATURES: Final = api.FeatureFlags(supports_auth_refresh=True)
_DEFAULT_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}

MOST_UNWRITTEN_BYTES: Final = 128 << 20
"""The maximum number of bytes that the broker may leave unread. If there are more, the connection is dropped, because
messages whose `publish` has ended already would fill the memory.
"""


class Attached(Protocol):
    def detached(self, reason: str) -> None:
        """Called when this producer or consumer is detached, because the broker closed it or the connection is lost.
        Called at most once.
        """
        ...


class AttachedProducer(Attached, Protocol):
    def receipt(self, receipt: api.CommandSendReceipt) -> None: ...
    def send_error(self, error: api.CommandSendError) -> None: ...


class AttachedConsumer(Attached, Protocol):
    def message(self, message: api.CommandMessage, entry: bytes) -> None: ...


def address_of(url: str) -> tuple[str, int, bool]:
    """Return host and port of a broker's service URL, and whether it uses TLS.

    Raises:
        ValueError: `url` is not a service URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"{url!r} does not have the form pulsar://host:port or pulsar+ssl://host:port")
    return parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme], parts.scheme != "pulsar"


class BrokerConnection(asyncio.Protocol):
    """A connection of a client to the broker at `url`. It begins to connect when it is created, which requires a
    running event loop. `tls` has the credentials that it sends.
    """

    def __init__(self, url: str, settings: ClientSettings, tls: ClientTls | None = None) -> None:
        self.url: Final = url
        self.is_lost = False
        self._settings = settings
        self._tls = tls or ClientTls()
        self._credentials = self._tls.shows
        self._auth_data: bytes | None = None
        """The authentication data that was sent last."""
        self._loop = asyncio.get_running_loop()
        self._wire = Wire(Role.CLIENT)
        self._transport: asyncio.Transport | None = None
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._requests: dict[int, asyncio.Future[Any]] = {}
        self._next_request = 0
        self._producers: dict[int, AttachedProducer] = {}
        self._consumers: dict[int, AttachedConsumer] = {}
        self._next_id = 0
        self._out: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._awaits_pong = False
        """Whether a PING was sent, and nothing was received since."""
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._renewing: asyncio.Task[None] | None = None
        self._connecting = asyncio.create_task(self._connect(), name=f"connect to {url}")

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._settings.attempt_timeout_s):
                host, port, is_tls = address_of(self.url)
                await self._credentials.renew()
                context = self._tls.context() if is_tls else None
                await self._loop.create_connection(lambda: self, host, port, ssl=context)
                await self.opened()
        except UnreachableError:
            pass  # the connection is lost already
        except TimeoutError:
            self.drop(f"{self.url} does not answer")
        except (OSError, ValueError, KeyMaterialError) as error:
            self.drop(f"cannot connect to {self.url}: {error}")
        finally:
            if self._transport is None:
                _resolve(self._ended)

    # ---- for its users ----

    async def opened(self) -> None:
        """Wait until the connection is open: the broker has answered the CONNECT command with CONNECTED.

        Raises:
            UnreachableError: the connection is lost, or could not be opened.
        """
        await asyncio.shield(self._opened)

    async def ended(self) -> None:
        """Wait until no task and no socket of this connection is left. Call `drop` or `close` first.

        If the broker does not read the queued frames, this waits `probe_s` seconds and then aborts the connection.
        """
        tasks = (self._connecting, self._renewing)
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
        try:
            async with asyncio.timeout(self._settings.probe_s):
                await asyncio.shield(self._ended)
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()
            await asyncio.shield(self._ended)

    async def request(self, build: Callable[[int], bytes]) -> Any:
        """Send the frame that `build` returns for a new request id, and return the answer. The caller limits the time.

        Raises:
            RefusedError: the answer is an ERROR.
            UnreachableError: the connection was lost before the answer.
        """
        if self.is_lost:
            raise UnreachableError(f"the connection to {self.url} is lost")
        number = self._next_request
        self._next_request += 1
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._requests[number] = answer
        self.send(build(number))
        try:
            return await answer
        finally:
            self._requests.pop(number, None)

    def send(self, frame: bytes) -> None:
        """Queue a frame. It is written with others at the end of this iteration of the event loop. No effect after the
        connection was lost.
        """
        if self.is_lost:
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def add_producer(self, producer: AttachedProducer) -> int:
        """Return a new producer id of this connection; its receipts go to `producer`."""
        self._next_id += 1
        self._producers[self._next_id] = producer
        return self._next_id

    def add_consumer(self, consumer: AttachedConsumer) -> int:
        """Return a new consumer id of this connection; its messages go to `consumer`."""
        self._next_id += 1
        self._consumers[self._next_id] = consumer
        return self._next_id

    def close_producer(self, producer_id: int) -> None:
        """Close a producer on this connection, and send the broker CLOSE_PRODUCER. No effect if the producer is closed
        already.
        """
        if self._producers.pop(producer_id, None) is not None:
            self._close_at_broker(commands.close_producer, producer_id)

    def close_consumer(self, consumer_id: int) -> None:
        if self._consumers.pop(consumer_id, None) is not None:
            self._close_at_broker(commands.close_consumer, consumer_id)

    def _close_at_broker(self, build: Callable[[int, int], bytes], id_: int) -> None:
        """Send a CLOSE whose answer is ignored."""
        self.send(build(id_, self._next_request))
        self._next_request += 1

    def probe(self) -> None:
        """Send a PING. If the broker does not answer within `probe_s` seconds, the connection is lost.

        Another call before the answer does not prolong this time.
        """
        if self.is_lost or not self._opened.done():
            return
        if self._awaits_pong:
            if self._timer is None or self._timer.when() > self._loop.time() + self._settings.probe_s:
                self._tick_in(self._settings.probe_s)
        else:
            self._tick(self._settings.probe_s)

    def close(self) -> None:
        """Write queued frames, then close the connection. Idempotent."""
        self._flush()
        self._lose("the connection was closed", abort=False)

    def drop(self, reason: str) -> None:
        """Abort the connection. Its publishers and readers are notified with `reason` that they are detached, and
        waiting requests fail with UnreachableError. Idempotent.
        """
        self._lose(reason, abort=True)

    def _lose(self, reason: str, *, abort: bool) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._wire.close()
        self._out.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._renewing is not None and self._renewing is not asyncio.current_task():
            self._renewing.cancel()
        if self._transport is not None:
            (self._transport.abort if abort else self._transport.close)()
        elif not self._connecting.done():
            self._connecting.cancel()
        for waiting in (self._opened, *self._requests.values()):
            if not waiting.done():
                waiting.set_exception(UnreachableError(reason))
                waiting.exception()  # asyncio would log an exception that no caller reads
        attached: list[Attached] = [*self._producers.values(), *self._consumers.values()]
        self._producers.clear()
        self._consumers.clear()
        for user in attached:
            user.detached(reason)

    # ---- asyncio.Protocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_lost:
            self._transport.abort()
            return
        try:
            self._auth_data = self._credentials.auth_data()
        except KeyMaterialError as error:
            self.drop(f"this broker has no credentials for {self.url}: {error}")
            return
        self._wire.connect(
            _CLIENT_VERSION,
            auth_method_name=self._credentials.method,
            auth_data=self._auth_data,
            feature_flags=_FEATURES,
        )
        self._transport.write(self._wire.data_to_send())
        self._tick_in(self._settings.keep_alive_s)

    def data_received(self, data: bytes) -> None:
        if self.is_lost:
            return
        self._awaits_pong = False
        try:
            received = self._wire.receive_data(data)
        except ProtocolError as error:
            self.drop(f"{self.url} broke the protocol: {error}")
            return
        for number, message, entry in received:
            self._handle(number, message, entry)
        owed = self._wire.data_to_send()
        if owed:
            self.send(owed)

    def connection_lost(self, exc: Exception | None) -> None:
        self.drop(f"the connection to {self.url} was lost{f': {exc}' if exc is not None else ''}")
        _resolve(self._ended)

    # ---- received commands ----

    def _handle(self, number: int, message: Any, entry: bytes) -> None:
        if self.is_lost:
            return
        if number == _TYPE.MESSAGE:
            if (consumer := self._consumers.get(message.consumer_id)) is not None:
                consumer.message(message, entry)
        elif number == _TYPE.SEND_RECEIPT:
            if (producer := self._producers.get(message.producer_id)) is not None:
                producer.receipt(message)
        elif number == _TYPE.SEND_ERROR:
            if (producer := self._producers.get(message.producer_id)) is not None:
                producer.send_error(message)
        elif number == _TYPE.CLOSE_PRODUCER:
            self._closed_by_broker(self._producers.pop(message.producer_id, None))
        elif number == _TYPE.CLOSE_CONSUMER:
            self._closed_by_broker(self._consumers.pop(message.consumer_id, None))
        elif number == _TYPE.CONNECTED:
            if not self._opened.done():
                self._opened.set_result(None)
        elif number == _TYPE.ERROR:
            self._refused(message)
        elif number == _TYPE.AUTH_CHALLENGE:
            if self._renewing is None or self._renewing.done():
                self._renewing = asyncio.create_task(self._authenticate_again(), name=f"authenticate to {self.url}")
        elif number in _ANSWERS and (number != _TYPE.PRODUCER_SUCCESS or message.producer_ready):
            self._answer(message)

    async def _authenticate_again(self) -> None:
        """Answer an AUTH_CHALLENGE with the present credentials. A token that expires is renewed first. If there are no
        credentials, or they are not renewed in time, drop the connection.
        """
        try:
            async with asyncio.timeout(self._settings.attempt_timeout_s):
                await self._credentials.renew(not_this=self._auth_data)
            self._auth_data = self._credentials.auth_data()
        except TimeoutError:
            self.drop(f"this broker did not renew its own credentials for {self.url} in time")
            return
        except KeyMaterialError as error:
            self.drop(f"this broker has no credentials for {self.url}: {error}")
            return
        if self._auth_data is None:
            self.drop(f"{self.url} asks for authentication, but this broker has no credentials configured")
            return
        self.send(client_commands.auth_response(_CLIENT_VERSION, self._credentials.method, self._auth_data))

    def _closed_by_broker(self, attached: Attached | None) -> None:
        if attached is not None:
            attached.detached(f"{self.url} closed the producer or consumer")

    def _refused(self, message: api.CommandError) -> None:
        error = RefusedError(message.error, message.message)
        if not self._opened.done() or message.request_id == commands.NO_REQUEST:
            self.drop(f"{self.url} refuses the connection: {error}")
            return
        answer = self._requests.pop(message.request_id, None)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _answer(self, message: Any) -> None:
        answer = self._requests.pop(message.request_id, None)
        if answer is not None and not answer.done():
            answer.set_result(message)

    # ---- sent frames ----

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
            self._out.clear()
            if self._transport.get_write_buffer_size() > MOST_UNWRITTEN_BYTES:
                self.drop(f"{self.url} leaves more than {MOST_UNWRITTEN_BYTES} bytes unread")

    def _tick(self, next_s: float) -> None:
        if self._wire.keep_alive() is KeepAlive.PEER_IS_GONE:
            self.drop(f"{self.url} does not answer PING")
            return
        self._awaits_pong = True
        self.send(self._wire.data_to_send())
        self._tick_in(next_s)

    def _tick_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._tick, self._settings.keep_alive_s)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
