"""One child process of a cluster: started, awaited until it says that it is ready, stopped by its id."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pulsar_barycenter.standalone.errors import ProcessFailedError
from pulsar_barycenter.standalone.ready import READY, READY_JSON

PARENT_VARIABLE = "BARYCENTER_PARENT_PID"
"""Tells a child whose death it must not outlive; see `parent_watch`."""


class ChildProcess:
    """A Python module run as a process of its own session, its log appended to a file.

    Its own session keeps a terminal's Ctrl-C from reaching it: its parent decides in which order the
    cluster ends.
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
        """Start the process; `wait_ready` tells when it serves."""
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
        """Wait for the child's ready line and return it; `on_line` gets those that it prints before.

        Raises:
            ProcessFailedError: it ended, or said nothing within `timeout_s`.
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
        raise ProcessFailedError(self.name, self.exit_code, self.log, self._last_lines())

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                # its own `send_signal` would take the exit code of one that just ended from who waits for it
                os.kill(self._process.pid, number)

    async def terminate(self, *, timeout_s: float) -> bool:
        """Ask the process to end in order; after `timeout_s` end it at once. Tell whether it ended by itself."""
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
        """End the process at once, with all that it started: Java of the pipeline, which would hold its output open.

        Also what a process that has ended left running is ended, as long as that has its output.
        """
        if self._process is not None and self._holds_output(self._process):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # it leads a session, so a group, of its own
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
            log.seek(self._log_start)  # what earlier runs said does not explain this one
            return "\n".join(log.read().decode(errors="replace").splitlines()[-count:])
