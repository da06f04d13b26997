"""Runs a test's coroutine on virtual time, with a memory store whose clients are simulated processes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from pulsar_barycenter.metadata.memory.memory_store import MemoryBackend, MemoryStore
from support.simulation.loop import Node, VirtualTimeLoop


class LoopClock:
    """Wall-clock time that follows the running loop."""

    def now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)


class Machine:
    """A simulated process with a client of the store."""

    def __init__(self, loop: VirtualTimeLoop, backend: MemoryBackend, name: str, session_timeout_ms: int) -> None:
        self.node = Node(loop, name)
        self.store: MemoryStore = self.node.call(backend.connect, LoopClock(), session_timeout_ms)


class World:
    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        self.backend = MemoryBackend()

    def machine(self, name: str = "broker", session_timeout_ms: int = 10_000) -> Machine:
        return Machine(self.loop, self.backend, name, session_timeout_ms)


def on_virtual_time(test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualTimeLoop()  # type: ignore[abstract]

    async def run() -> None:
        await test(World(loop))

    try:
        loop.run_until_complete(run())
        assert loop.failures == []
    finally:
        loop.tear_down()
