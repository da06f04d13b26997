"""A broker's end of connections that sends exactly what a test says, on virtual time and a simulated network."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.connection_state import Connection, Received, Role
from support.simulation.cluster import SimClock
from support.simulation.loop import Node, VirtualTimeLoop
from support.simulation.network import Network

TYPE = api.BaseCommand
DEADLINE_S = 120


class ScriptedEnd(asyncio.Protocol):
    """One connection. `received` holds the commands that no `take` has taken yet, oldest first."""

    def __init__(self, *, greets: bool) -> None:
        self.wire = Connection(Role.BROKER)
        self.received: list[Received] = []
        self.is_closed = False
        self.pings = 0
        self.answers_pings = True
        self.transport: Any = None
        self._greets = greets
        self._news = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for received in self.wire.receive_data(data):
            if received[0] != TYPE.CONNECT:
                self.received.append(received)
            elif self._greets:
                self.wire.accept("Scripted")
        owed = self.wire.data_to_send()
        self.pings += owed == commands.PONG
        if owed and (self.answers_pings or owed != commands.PONG):
            self.transport.write(owed)
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._news.set()

    async def take(self, command_type: int) -> tuple[Any, bytes]:
        """Wait for the first command of that type, and take it; return it with its entry."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for at, (number, message, entry) in enumerate(self.received):
                    if number == command_type:
                        del self.received[at]
                        return message, entry
                assert not self.is_closed, f"closed by the client; it had said {self.received}"
                self._news.clear()
                await self._news.wait()

    async def expect_closed(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not self.is_closed:
                self._news.clear()
                await self._news.wait()

    def write(self, *frames: bytes) -> None:
        self.transport.write(b"".join(frames))

    def close(self) -> None:
        self.transport.abort()

    # ---- the usual course

    async def accept_producer(self) -> Any:
        """Answer a PRODUCER, and return it."""
        request, _ = await self.take(TYPE.PRODUCER)
        self.write(commands.producer_success(request.request_id, request.producer_name))
        return request

    async def accept_consumer(self, last: tuple[int, int] = (-1, -1)) -> Any:
        """Answer a SUBSCRIBE and the request for the last message; return the SUBSCRIBE after FLOW arrived."""
        request, _ = await self.take(TYPE.SUBSCRIBE)
        self.write(commands.success(request.request_id))
        question, _ = await self.take(TYPE.GET_LAST_MESSAGE_ID)
        self.write(commands.last_message_id(question.request_id, commands.message_id(*last)))
        await self.take(TYPE.FLOW)
        return request

    async def sends(self, count: int) -> list[tuple[int, bytes]]:
        """Take `count` SENDs; return sequence ids and entries."""
        taken = [await self.take(TYPE.SEND) for _ in range(count)]
        return [(send[1], entry) for send, entry in taken]

    def message(self, consumer: Any, place: tuple[int, int], entry: bytes) -> None:
        self.write(commands.message_header(consumer.consumer_id, *place, len(entry)) + entry)


class ScriptedBroker:
    """Listens at `url`; `connection` returns each new connection once."""

    def __init__(self, loop: VirtualTimeLoop, network: Network, name: str, *, greets: bool = True) -> None:
        self.node = Node(loop, name)
        self.url = f"pulsar://{name}:6650"
        self.ends: list[ScriptedEnd] = []
        self._greets = greets
        self._coming: asyncio.Queue[ScriptedEnd] = asyncio.Queue()
        self.server = self.node.call(network.listen, self._accept, name, 6650)

    def _accept(self) -> ScriptedEnd:
        end = ScriptedEnd(greets=self._greets)
        self.ends.append(end)
        self._coming.put_nowait(end)
        return end

    async def connection(self) -> ScriptedEnd:
        async with asyncio.timeout(DEADLINE_S):
            return await self._coming.get()

    @property
    def has_more(self) -> bool:
        """Whether there is a connection that the test has not taken."""
        return not self._coming.empty()


class Scene:
    """A client and the brokers that it may meet. `owner` is what `find_broker` returns; None: no broker serves.

    A test may replace `find_broker`, which the client calls; `find_owner` is what it is at first.
    """

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        self.network = Network(loop, random.Random(1))
        self.broker = self.new_broker("broker-a")
        self.owner: str | None = self.broker.url
        self.asked = 0
        self.find_broker: Callable[[], Awaitable[str | None]] = self.find_owner
        self.client: SystemTopicClient

    def new_broker(self, name: str, *, greets: bool = True) -> ScriptedBroker:
        return ScriptedBroker(self.loop, self.network, name, greets=greets)

    async def find_owner(self) -> str | None:
        self.asked += 1
        return self.owner

    def open(self, settings: ClientSettings) -> None:
        clock = SimClock(self.loop, 0)
        source = random.Random(2)
        self.client = SystemTopicClient(lambda: self.find_broker(), clock=clock, source=source, settings=settings)


def in_a_scene(test: Callable[[Scene], Coroutine[Any, Any, None]], settings: ClientSettings | None = None) -> None:
    """Run a test as the client's process, close the client, and check that no task of it is left."""
    loop = VirtualTimeLoop()  # type: ignore[abstract]
    node = Node(loop, "client")

    async def play() -> None:
        scene = Scene(loop)
        scene.open(settings or ClientSettings())
        try:
            await test(scene)
        finally:
            await scene.client.close()
        await asyncio.sleep(0)
        left = [task for task in loop.running_tasks() if task is not asyncio.current_task()]
        assert left == []
        assert loop.unheard() == []

    try:
        loop.run_until_complete(node.spawn(play(), "test"))
    finally:
        loop.tear_down()
