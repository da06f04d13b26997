"""One child process of a cluster: starts it, waits for its ready line, and stops it by its process id."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pulsar_barycenter.standalone.errors import NotReadyError, ProcessFailedError
from pulsar_barycenter.standalone.ready import READY, READY_JSON

PARENT_VARIABLE = "BARYCENTER_PARENT_PID"
"""The variable with the parent's process id for a child; see `parent_watch`."""


class ChildProcess:
    """A Python module that runs as a process in its own session, with its log appended to a file.

    In its own session it does not receive Ctrl-C from the terminal: the parent process decides in which order its child
    processes end.
    """

    def __init__(
        self, name: str, module: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._module = tuple(module)
        self._environment = dict(environment or {})
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[None] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._process else None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process and return immediately; `wait_ready` waits until the process is ready."""
        environment = {**os.environ, **self._environment, PARENT_VARIABLE: str(os.getpid())}
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *self._module),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    async def wait_ready(self, *, timeout_s: float, on_line: Callable[[str], None] = lambda line: None) -> str:
        """Wait for the child's ready line and return it; `on_line` receives the lines before it.

        Raises:
            ProcessFailedError: the child ended before it was ready.
            NotReadyError: the child was not ready within `timeout_s`, and was killed.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                while line := await self._process.stdout.readline():
                    text = line.decode(errors="replace").rstrip("\n")
                    if text.startswith((READY, READY_JSON)):
                        self._drain = asyncio.create_task(self._discard_output(), name=f"output of {self.name}")
                        return text
                    on_line(text)
                await self._process.wait()
        except TimeoutError:
            await self.kill()
            raise NotReadyError(self.name, timeout_s, self.log, self._last_lines()) from None
        raise ProcessFailedError(self.name, self.exit_code, self.log, self._last_lines())

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                # asyncio's `send_signal` could reap a process that has just ended, and its waiter would lose the code
                os.kill(self._process.pid, number)

    async def terminate(self, *, timeout_s: float) -> bool:
        """Send SIGTERM, so that the process finishes its work and ends, and wait; kill it if it has not ended after
        `timeout_s` seconds. Return False if this call has killed it; True if it ended without that, or did not run.
        """
        if not self.is_running:
            return True
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(timeout_s):
                await self.wait()
        except TimeoutError:
            await self.kill()
            return False
        await self._end_drain()
        return True

    async def kill(self) -> None:
        """Kill the process and all processes that it started, such as the pipeline's Java, which would keep the output
        of the process open.

        If the process itself has ended already, the processes that it started are killed as long as they keep its
        output open.
        """
        if self._process is not None and self._holds_output(self._process):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # it is the leader of its own session and process group
            await self.wait()
        await self._end_drain()

    @staticmethod
    def _holds_output(process: asyncio.subprocess.Process) -> bool:
        return process.returncode is None or (process.stdout is not None and not process.stdout.at_eof())

    async def _discard_output(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while await self._process.stdout.read(65536):
            pass

    async def _end_drain(self) -> None:
        if self._drain is not None:
            await self._drain
            self._drain = None

    def _last_lines(self, count: int = 15) -> str:
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(self._log_start)  # skip the output of earlier runs
            return "\n".join(log.read().decode(errors="replace").splitlines()[-count:])
