"""Runs what restarts a broker: a command of the operator, or the operator.

A command runs in a shell, in a process group of its own. `{broker}`, `{host}`, `{port}` and `{pod}` (the first label of
the host) in it are replaced by quoted texts; its environment has the same values as BARYCENTER_BROKER, and so on. The
command must be safe to run twice, since a roll that was killed while the command ran may run it again.
"""

import asyncio
import os
import re
import shlex
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Final

from pulsar_barycenter.operations.rolling.contract import RollStopped

PLACES: Final = ("broker", "host", "port", "pod")
_PLACE: Final = re.compile(r"\{(" + "|".join(PLACES) + r")\}")
_POLL_S: Final = 0.05
_SHOWN_BYTES: Final = 2_000
_MAX_LINE: Final = 300


def places_of(broker: str) -> dict[str, str]:
    """Return the values that replace names in braces (`{host}`) in the template of a command: `broker`, `host`, `port`
    and `pod` of a broker.
    """
    host, _, port = broker.rpartition(":")
    return {"broker": broker, "host": host, "port": port, "pod": host.partition(".")[0]}


def command_for(template: str, broker: str) -> str:
    """Return the command line for a broker: the template with the names in braces that `places_of` returns replaced by
    their values; other braces stay as they are.
    """
    texts = places_of(broker)
    return _PLACE.sub(lambda place: shlex.quote(texts[place[1]]), template)


@dataclass(frozen=True, slots=True)
class CommandHooks:
    """Hooks that restart, end or start a broker by running a command; `timeout_s` is the time limit of each command. If
    `start_with` is blank, no command is run to start a broker: `say` gets a text that asks the operator to start it.

    The processes of a command that does not end within its time limit get SIGTERM. Those that still run
    `ends_within_s` seconds later get SIGKILL.
    """

    restart_with: str
    start_with: str
    timeout_s: float
    say: Callable[[str], None]
    ends_within_s: float = 5.0

    async def restart(self, broker: str) -> None:
        await self._run(self.restart_with, broker)

    async def start(self, broker: str) -> None:
        if self.start_with:
            await self._run(self.start_with, broker)
        else:
            self.say(f"start {broker} now; the roll goes on when it is in service")

    async def _run(self, template: str, broker: str) -> None:
        line = command_for(template, broker)
        environment = {f"BARYCENTER_{name.upper()}": text for name, text in places_of(broker).items()}
        # a file instead of a pipe: a broker that the command starts may keep its output open
        with tempfile.TemporaryFile() as output:
            process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", line),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )
            try:
                status = await asyncio.wait_for(process.wait(), self.timeout_s)
            except TimeoutError:
                await _end(process, self.ends_within_s)
                raise RollStopped(
                    f"the shell command for {broker} did not end within {self.timeout_s:g} s and was stopped:"
                    f" {line}{_last_line(output)}; check the state of the broker, then start `barycenter roll` again"
                    " with the same options"
                ) from None
            except asyncio.CancelledError:
                await _end(process, self.ends_within_s)
                raise
            if status != 0:
                raise RollStopped(
                    f"the shell command for {broker} failed with status {status}: {line}{_last_line(output)}; repair"
                    " the cause of the failure, and start `barycenter roll` again with the same options"
                )


@dataclass(frozen=True, slots=True)
class PersonHooks:
    """Hooks that ask a person to restart, end or start a broker; the roll then waits until this has happened."""

    say: Callable[[str], None]
    is_pool: bool = False

    async def restart(self, broker: str) -> None:
        words = f"stop {broker} now" if self.is_pool else f"restart {broker} now"
        self.say(f"{words}: it serves no bundles; the roll goes on by itself")

    async def start(self, broker: str) -> None:
        self.say(f"start {broker} now; the roll goes on when it is in service")


async def _end(process: asyncio.subprocess.Process, within_s: float) -> None:
    """Send SIGTERM to all processes of a command's group. Send SIGKILL to those that have not ended after `within_s`
    seconds. Then wait until the process of the command itself has ended.
    """
    with suppress(ProcessLookupError):  # from the first signal on that no process of the group is left to get
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await process.wait()
                while True:
                    os.killpg(process.pid, 0)
                    await asyncio.sleep(_POLL_S)
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _last_line(output: IO[bytes]) -> str:
    """Return the last line that a command printed to `output`, in brackets, for an error message; "" if it printed
    nothing.
    """
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _SHOWN_BYTES))
    lines = output.read().decode(errors="replace").strip().splitlines()
    return f" (it printed: {lines[-1].strip()[:_MAX_LINE]})" if lines else ""
