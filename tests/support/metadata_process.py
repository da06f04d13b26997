"""A process with a client of a store, controlled over its standard input and output by JSON lines.

`python -m support.metadata_process URL SESSION_TIMEOUT_MS` reads `{"id", "do", ...}` and writes `{"id", "result" or
"error"}`, and `{"told": ...}` for session events and dropped caches as they arrive.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from pulsar_barycenter.metadata.cache import MetadataCache
from pulsar_barycenter.metadata.errors import BadVersionError, MetadataError
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.metadata.store import MetadataStore

TESTS = Path(__file__).parent.parent


class ProcessClient:
    """The test's end of such a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[str] = []
        self._news = asyncio.Event()
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read(), name="metadata process reader")

    @classmethod
    async def start(cls, url: str, session_timeout_ms: int) -> "ProcessClient":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "support.metadata_process", url, str(session_timeout_ms)),
            cwd=TESTS,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        client = cls(process)
        await client.do("get", path="/")
        return client

    async def do(self, operation: str, **arguments: object) -> Any:
        """Send the operation and return its result; an error arrives as the name of its class."""
        number = len(self._replies)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": number, "do": operation, **arguments}).encode() + b"\n")
        return await reply

    async def until_told(self, what: str) -> list[str]:
        async with asyncio.timeout(30):
            while what not in self.told:
                self._news.clear()
                await self._news.wait()
        return self.told

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def end(self) -> None:
        if self.process.returncode is None:
            self.signal(signal.SIGKILL)
            self.signal(signal.SIGCONT)
        await self.process.wait()
        await self._reader

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            message = json.loads(line)
            if "told" in message:
                self.told.append(message["told"])
                self._news.set()
            else:
                self._replies[message["id"]].set_result(message.get("result", message.get("error")))


def say(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def count(store: MetadataStore, path: str, times: int) -> int:
    """Add 1 to the number at `path` the given number of times by compare-and-set; return the number of conflicts."""
    conflicts = 0
    while times:
        record = await store.get(path)
        assert record is not None
        try:
            await store.put(path, b"%d" % (int(record.value) + 1), expected_version=record.stat.version)
            times -= 1
        except BadVersionError:
            conflicts += 1
    return conflicts


async def serve(url: str, session_timeout_ms: int) -> None:
    store = await open_store(url, session_timeout_ms=session_timeout_ms)
    cache = MetadataCache(store, int)
    store.add_invalidator(lambda change: say(told="caches dropped") if change is None else None)
    store.add_session_listener(lambda event: say(told=event.value))

    async def put(request: dict[str, Any]) -> int:
        stat = await store.put(request["path"], request["value"].encode(), ephemeral=request.get("ephemeral", False))
        return stat.version

    async def get(request: dict[str, Any]) -> str | None:
        record = await store.get(request["path"])
        return None if record is None else record.value.decode()

    operations: dict[str, Callable[[dict[str, Any]], Any]] = {
        "put": put,
        "get": get,
        "cached": lambda request: cache.get(request["path"]),
        "count": lambda request: count(store, request["path"], request["times"]),
    }

    async def answer(request: dict[str, Any]) -> None:
        try:
            say(id=request["id"], result=await operations[request["do"]](request))
        except MetadataError as error:
            say(id=request["id"], error=type(error).__name__)

    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with asyncio.TaskGroup() as answers:
        async for line in reader:
            answers.create_task(answer(json.loads(line)))
    cache.close()
    await store.close()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
