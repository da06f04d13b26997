"""The simulator itself: the properties of virtual time, simulated processes and the network in memory."""

import asyncio
import gc
import random
import warnings

import pytest

from support.simulation.loop import START_S, Node, SimulationError, VirtualTimeLoop
from support.simulation.network import Network


@pytest.fixture
def loop():
    loop = VirtualTimeLoop(max_steps_at_once=1_000)
    yield loop
    loop.tear_down()


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
        self.received = b""
        self.lost = asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.received += data
        self.transport.write(data.upper())

    def connection_lost(self, error):
        self.lost.set_result(error)


class Caller(Echo):
    def data_received(self, data):
        self.received += data


def test_time_jumps_to_the_next_timer_and_nothing_waits(loop):
    async def nap():
        await asyncio.sleep(86_400)
        return loop.time()

    assert loop.run_until_complete(nap()) == START_S + 86_400


def test_timers_of_one_moment_run_in_the_order_in_which_they_were_set(loop):
    order = []
    for number in range(20):
        loop.call_later(1, order.append, number)
    loop.run_until_complete(loop.create_task(asyncio.sleep(2)))
    assert order == list(range(20))


def test_waiting_for_what_nobody_will_do_is_a_deadlock(loop):
    with pytest.raises(SimulationError, match="deadlock"):
        loop.run_until_complete(loop.create_future())


def test_being_busy_without_time_going_on_is_a_livelock(loop):
    async def spin():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SimulationError, match="livelock"):
        loop.run_until_complete(loop.create_task(spin()))


def test_a_thread_is_refused(loop):
    with pytest.raises(SimulationError, match="executor"):
        loop.run_in_executor(None, print)


def test_a_crashed_node_does_nothing_more_and_a_paused_one_catches_up(loop):
    seen = []

    async def tick(name):
        while True:
            seen.append((name, int(loop.time() - START_S)))
            await asyncio.sleep(1)

    crashing, pausing = Node(loop, "crashing"), Node(loop, "pausing")
    crashing.spawn(tick("crashing"), "tick")
    pausing.spawn(tick("pausing"), "tick")

    async def script():
        await asyncio.sleep(1.5)
        crashing.crash()
        pausing.pause()
        await asyncio.sleep(10)
        pausing.resume()
        await asyncio.sleep(1)

    loop.run_until_complete(loop.create_task(script()))
    assert [time for name, time in seen if name == "crashing"] == [0, 1]
    assert [time for name, time in seen if name == "pausing"] == [0, 1, 11, 12]


def simulate_echo(loop, seed, faults):
    """Have a client write to an echoing server and run `faults(network, server_node, served)` meanwhile."""
    network = Network(loop, random.Random(seed))
    server_node, client_node = Node(loop, "server"), Node(loop, "client")
    served = []

    def factory():
        served.append(Echo())
        return served[-1]

    async def serve():
        await loop.create_server(factory, "server", 6650)

    async def call():
        _, caller = await loop.create_connection(Caller, "server", 6650)
        for number in range(10):
            caller.transport.write(b"line %d\n" % number)
            await asyncio.sleep(0.1)
        await asyncio.sleep(5)
        return caller

    async def script():
        await server_node.spawn(serve(), "serve")
        calling = client_node.spawn(call(), "call")
        await asyncio.sleep(0.35)
        await faults(network, server_node, served)
        return await calling

    return loop.run_until_complete(loop.create_task(script())), served


WHOLE = b"".join(b"LINE %d\n" % number for number in range(10))


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_though_late_and_in_pieces(loop, seed):
    async def nothing(*_):
        pass

    caller, _ = simulate_echo(loop, seed, nothing)
    assert caller.received == WHOLE


def test_a_partition_holds_bytes_up_and_healing_lets_them_through(loop):
    async def cut(network, _, served):
        network.partition("server", "client")
        await asyncio.sleep(2)
        assert len(served[0].received) < len(WHOLE)
        network.heal()

    caller, _ = simulate_echo(loop, 1, cut)
    assert caller.received == WHOLE


def test_a_crash_resets_the_connections_of_its_peers(loop):
    async def crash(network, server, _):
        server.crash()
        network.crashed(server)
        with pytest.raises(ConnectionRefusedError):
            await Node(loop, "other").spawn(loop.create_connection(Caller, "server", 6650), "connect")

    caller, served = simulate_echo(loop, 1, crash)
    assert isinstance(caller.lost.result(), ConnectionResetError)
    assert not served[0].lost.done()


def test_a_lost_machine_says_nothing(loop):
    async def crash(network, server, _):
        server.crash()
        network.crashed(server, silently=True)

    caller, _ = simulate_echo(loop, 1, crash)
    assert not caller.lost.done()


def test_the_same_seed_gives_the_same_run():
    async def pause(_, server, __):
        server.pause()
        await asyncio.sleep(1)
        server.resume()

    runs = []
    for _ in range(2):
        loop = VirtualTimeLoop()
        simulate_echo(loop, 7, pause)
        runs.append((loop.steps, loop.time()))
        loop.tear_down()
    assert runs[0] == runs[1]


def test_a_task_whose_node_crashes_before_its_first_step_ends_without_a_word():
    async def crash_at_once(loop):
        async def work():
            raise AssertionError("it never ran")

        node = Node(loop, "broker")
        node.spawn(work(), "work")
        node.crash()
        await asyncio.sleep(1)

    def play():
        loop = VirtualTimeLoop()
        loop.run_until_complete(loop.create_task(crash_at_once(loop)))
        loop.tear_down()

    with warnings.catch_warnings(record=True) as heard:
        play()
        gc.collect()
    assert not [str(each.message) for each in heard if "never awaited" in str(each.message)]
