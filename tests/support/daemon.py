"""A server in a process of its own, waited for by what it prints."""

from __future__ import annotations

import queue
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_DEADLINE_S = 180.0


class Daemon:
    """A running daemon: copies its output to its log, and reports a line that a test waits for."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        stream = process.stdout
        assert stream is not None
        self.process = process
        self._log = log
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._copier = threading.Thread(target=self._copy, args=(stream,), name=f"output to {log.name}")
        self._copier.start()

    def _copy(self, stream: IO[bytes]) -> None:
        with self._log.open("wb", buffering=0) as log:
            for line in stream:
                log.write(line)
                self._lines.put(line.decode(errors="replace"))
        self._lines.put(None)

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Return the first match in a line that was not searched before."""
        while True:
            try:
                line = self._lines.get(timeout=_DEADLINE_S)
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"no {pattern.pattern!r}:\n{self._log.read_text(errors='replace')}")
            if found := pattern.search(line):
                return found

    def join(self) -> None:
        self._copier.join()


@contextmanager
def daemon(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """Run `command` while the block lasts, then end it by its id; its output goes to `log`.

    Its standard input is a pipe of this process: a daemon that reads it sees its end when this process dies.
    """
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        started = Daemon(running, log)
        try:
            yield started
        finally:
            running.terminate()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
            started.join()
