"""One connection to the broker that serves the topics, shared by everybody who is attached there.

It is made at once and opens by itself. Whatever goes wrong ends it: it is then *lost*, every request fails with
UnreachableError, and everybody attached is told once. A lost connection stays lost; its users get another one.

What bounds its memory: one frame of Pulsar's usual size and one read; of what goes out, MOST_UNWRITTEN_BYTES and what
is said in one turn of the loop. Everything that comes is handled in the step that received it.
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
"""A broker that leaves more unread is given up: messages whose publishers wait no longer would pile up towards it."""


class Attached(Protocol):
    def detached(self, reason: str) -> None:
        """The broker closed this, or the connection is lost. Told at most once."""
        ...


class AttachedProducer(Attached, Protocol):
    def receipt(self, receipt: api.CommandSendReceipt) -> None: ...
    def send_error(self, error: api.CommandSendError) -> None: ...


class AttachedConsumer(Attached, Protocol):
    def message(self, message: api.CommandMessage, entry: bytes) -> None: ...


def address_of(url: str) -> tuple[str, int, bool]:
    """Return host and port of a broker's service URL, and whether it is reached by TLS.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is no address of the form pulsar://host:port or pulsar+ssl://host:port")
    return parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme], parts.scheme != "pulsar"


class BrokerConnection(asyncio.Protocol):
    """A connection to the broker at `url`, to which it shows who it is; it needs a running loop."""

    def __init__(self, url: str, settings: ClientSettings, tls: ClientTls | None = None) -> None:
        self.url: Final = url
        self.is_lost = False
        self._settings = settings
        self._tls = tls or ClientTls()
        self._shows = self._tls.shows
        self._proof: bytes | None = None
        """What was shown last."""
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
        self._asked = False
        """A PING is out, and nothing came since."""
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._showing: asyncio.Task[None] | None = None
        self._connecting = asyncio.create_task(self._connect(), name=f"connect to {url}")

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._settings.attempt_timeout_s):
                host, port, is_tls = address_of(self.url)
                await self._shows.renew()
                context = self._tls.context() if is_tls else None
                await self._loop.create_connection(lambda: self, host, port, ssl=context)
                await self.opened()
        except UnreachableError:
            pass  # it is lost already
        except TimeoutError:
            self.drop(f"{self.url} does not answer")
        except (OSError, ValueError, KeyMaterialError) as error:
            self.drop(f"cannot connect to {self.url}: {error}")
        finally:
            if self._transport is None:
                _done(self._ended)

    # ---- for its users ----

    async def opened(self) -> None:
        """Return when the broker has greeted.

        Raises:
            UnreachableError: the connection is lost.
        """
        await asyncio.shield(self._opened)

    async def ended(self) -> None:
        """Return when nothing of this is left: no task, no socket. `drop` or `close` it before.

        A broker that does not take what was queued is waited for as long as for a sign of life.
        """
        tasks = (self._connecting, self._showing)
        await asyncio.gather(*(each for each in tasks if each is not None), return_exceptions=True)
        try:
            async with asyncio.timeout(self._settings.probe_s):
                await asyncio.shield(self._ended)
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()
            await asyncio.shield(self._ended)

    async def request(self, build: Callable[[int], bytes]) -> Any:
        """Send what `build` makes of a request id, and return the answer; the time is for the caller to bound.

        Raises:
            RefusedError: the answer is an ERROR.
            UnreachableError: the connection is lost, or was lost meanwhile.
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
        """Queue a frame; it is written with others at the end of this turn of the loop. Nothing happens once lost."""
        if self.is_lost:
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def add_producer(self, producer: AttachedProducer) -> int:
        """Return an id that this connection never had, whose receipts go to `producer`."""
        self._next_id += 1
        self._producers[self._next_id] = producer
        return self._next_id

    def add_consumer(self, consumer: AttachedConsumer) -> int:
        """The same for a consumer and its messages."""
        self._next_id += 1
        self._consumers[self._next_id] = consumer
        return self._next_id

    def close_producer(self, producer_id: int) -> None:
        """Forget a producer, and have the broker close it. Nothing happens if either did that before."""
        if self._producers.pop(producer_id, None) is not None:
            self._close_at_broker(commands.close_producer, producer_id)

    def close_consumer(self, consumer_id: int) -> None:
        if self._consumers.pop(consumer_id, None) is not None:
            self._close_at_broker(commands.close_consumer, consumer_id)

    def _close_at_broker(self, build: Callable[[int, int], bytes], id_: int) -> None:
        """The answer concerns nobody."""
        self.send(build(id_, self._next_request))
        self._next_request += 1

    def probe(self) -> None:
        """Demand a sign of life soon: somebody doubts that this broker is still there. Who doubts again does not put
        off the answer to the first."""
        if self.is_lost or not self._opened.done():
            return
        if self._asked:
            if self._timer is None or self._timer.when() > self._loop.time() + self._settings.probe_s:
                self._tick_in(self._settings.probe_s)
        else:
            self._tick(self._settings.probe_s)

    def close(self) -> None:
        """Write what is queued, then end the connection. Idempotent."""
        self._flush()
        self._lose("the connection was closed", abort=False)

    def drop(self, reason: str) -> None:
        """End the connection at once. Idempotent."""
        self._lose(reason, abort=True)

    def _lose(self, reason: str, *, abort: bool) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._wire.close()
        self._out.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._showing is not None and self._showing is not asyncio.current_task():
            self._showing.cancel()
        if self._transport is not None:
            (self._transport.abort if abort else self._transport.close)()
        elif not self._connecting.done():
            self._connecting.cancel()
        for waiting in (self._opened, *self._requests.values()):
            if not waiting.done():
                waiting.set_exception(UnreachableError(reason))
                waiting.exception()  # nobody may be waiting
        attached: list[Attached] = [*self._producers.values(), *self._consumers.values()]
        self._producers.clear()
        self._consumers.clear()
        for each in attached:
            each.detached(reason)

    # ---- asyncio.Protocol ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_lost:
            self._transport.abort()
            return
        try:
            self._proof = self._shows.auth_data()
        except KeyMaterialError as error:
            self.drop(f"this broker cannot show {self.url} who it is: {error}")
            return
        self._wire.connect(
            _CLIENT_VERSION, auth_method_name=self._shows.method, auth_data=self._proof, feature_flags=_FEATURES
        )
        self._transport.write(self._wire.data_to_send())
        self._tick_in(self._settings.keep_alive_s)

    def data_received(self, data: bytes) -> None:
        if self.is_lost:
            return
        self._asked = False
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
        _done(self._ended)

    # ---- what comes ----

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
            if self._showing is None or self._showing.done():
                self._showing = asyncio.create_task(self._show_again(), name=f"show {self.url} who this is")
        elif number in _ANSWERS and (number != _TYPE.PRODUCER_SUCCESS or message.producer_ready):
            self._answer(message)

    async def _show_again(self) -> None:
        """Answer an AUTH_CHALLENGE with the proof as it is now: a token may have been renewed, or is obtained anew."""
        try:
            async with asyncio.timeout(self._settings.attempt_timeout_s):
                await self._shows.renew(not_this=self._proof)
            self._proof = self._shows.auth_data()
        except TimeoutError:
            self.drop(f"this broker has no proof to show {self.url} in time")
            return
        except KeyMaterialError as error:
            self.drop(f"this broker cannot show {self.url} who it is: {error}")
            return
        if self._proof is None:
            self.drop(f"{self.url} asks for authentication, which this client has not")
            return
        self.send(client_commands.auth_response(_CLIENT_VERSION, self._shows.method, self._proof))

    def _closed_by_broker(self, attached: Attached | None) -> None:
        if attached is not None:
            attached.detached(f"{self.url} closed it")

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

    # ---- what goes ----

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            self._transport.write(b"".join(self._out))
            self._out.clear()
            if self._transport.get_write_buffer_size() > MOST_UNWRITTEN_BYTES:
                self.drop(f"{self.url} does not read what it is sent")

    def _tick(self, next_s: float) -> None:
        if self._wire.keep_alive() is KeepAlive.PEER_IS_GONE:
            self.drop(f"{self.url} gives no sign of life")
            return
        self._asked = True
        self.send(self._wire.data_to_send())
        self._tick_in(next_s)

    def _tick_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._tick, self._settings.keep_alive_s)


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
