"""Whatever a client says over the binary protocol, in whatever order and cuts, the broker goes on serving the others.

    .venv/bin/python -m pytest tests/fuzz --fuzz-examples 100000        # the long form

`hostile_frames` has what is said. A broker on the running loop hears it, and one in a process of its own.
"""

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from pulsar_barycenter.broker.clients.consumer import MAX_MESSAGES_IN_ENTRY
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.protocol import client_commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.fuzzed_broker import DEADLINE_S, fuzzed_broker
from support.hostile_frames import ALONE, TOPIC, frames_field_by_field, streams, valid_frames
from support.one_broker import OneBroker
from support.wire_client import WireClient

SHARED = api.CommandSubscribe.Shared


def faults(logged: list[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    return [each for each in logged if "exc_info" in each or each["log_level"] in ("error", "critical")]


async def _play(reads: list[bytes], *, attached: bool) -> None:
    crashes: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: crashes.append(context))
    broker = await OneBroker().start()
    topic = TOPIC + "-of-others"
    good = await WireClient.connect(broker.port)
    await good.produce(topic)
    await good.subscribe(topic, permits=100, sub_type=SHARED)
    with capture_logs() as logged:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        if attached:
            # All in one read, not waiting for CONNECTED.
            writer.write(client_commands.connect("Fuzz") + b"".join(valid_frames()[:5]))
            connection = list(broker.server.connections)[-1]
            assert isinstance(connection, Connection)
            async with asyncio.timeout(60):
                while not (connection.producers and len(connection.consumers) == 2):
                    await asyncio.sleep(0)
            writer.write(client_commands.flow(1, 100) + client_commands.flow(2, 100))
        for read in reads:
            writer.write(read)
            for _ in range(10):
                await asyncio.sleep(0)
            for found in list(broker.registry.loaded()):
                for consumer in found.consumers():
                    assert consumer.permits >= -MAX_MESSAGES_IN_ENTRY
        # It goes in the middle, maybe of a frame.
        async with asyncio.timeout(10):
            with suppress(OSError):
                writer.write_eof()
                await reader.read(-1)
        writer.close()
        assert await good.send_all(3)
        await good.messages(3)
        await broker.unload()
        for found in list(broker.registry.loaded()):
            assert found.pending == 0
    assert not faults(logged) + crashes, faults(logged) + crashes
    good.close()
    await broker.stop()


def for_drawn_streams(pytestconfig: pytest.Config, play: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """Call `play` with what a client says, and whether it attached before."""

    @settings(
        max_examples=pytestconfig.getoption("--fuzz-examples"),
        suppress_health_check=list(HealthCheck),
        deadline=None,
        print_blob=True,
    )
    @given(streams(), st.sampled_from([True, True, False]))
    def run(reads: list[bytes], attached: bool) -> None:
        asyncio.run(play(reads, attached=attached))

    run()


def test_no_client_hurts_a_broker(pytestconfig: pytest.Config) -> None:
    for_drawn_streams(pytestconfig, _play)


@pytest.mark.integration
@pytest.mark.xdist_group("cluster in trouble")
def test_no_client_hurts_a_broker_process(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """A whole broker, its files included; others are served between whatever is said."""

    async def play(reads: list[bytes], *, attached: bool) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        if attached:
            reads = [client_commands.connect("Fuzz") + b"".join(valid_frames()[:5]), *reads]
        async with asyncio.timeout(DEADLINE_S):
            with suppress(OSError):
                for read in reads:
                    writer.write(read)
                    await writer.drain()
                writer.write_eof()
                await reader.read(-1)
        writer.close()
        other = await WireClient.connect(broker.port)
        await other.produce(TOPIC + "-of-others")
        await other.subscribe(TOPIC + "-of-others", permits=100)
        await other.send_all(1)
        await other.messages(1)
        other.close()

    with fuzzed_broker(tmp_path) as broker:
        for name in ("t", "t-of-others"):
            broker.ask("PUT", f"/admin/v2/persistent/public/default/{name}")
        for_drawn_streams(pytestconfig, play)


async def test_no_field_of_a_frame_hurts_a_broker() -> None:
    """And whoever comes next to the topics is served."""
    broker = await OneBroker().start()
    crashes: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: crashes.append(context))
    with capture_logs() as logged:
        for change, frame in frames_field_by_field():
            client = await WireClient.connect(broker.port)
            await client.produce(TOPIC)
            await client.subscribe(TOPIC, permits=100, sub_type=SHARED)
            await client.subscribe(TOPIC, "k", 2, permits=100, sub_type=api.CommandSubscribe.Key_Shared)
            client.write(frame)
            with suppress(AssertionError):  # it may cost the connection
                await client.settled()
            client.close()
            following = await WireClient.connect(broker.port)
            answer = await following.produce(ALONE, access_mode=api.WaitForExclusive)
            assert isinstance(answer, api.CommandProducerSuccess), change
            assert not faults(logged) + crashes, (change, faults(logged), crashes)
            following.close()
            logged.clear()
    await broker.stop()
