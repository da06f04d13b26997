"""Pulsar's own `pulsar-admin` in one JVM that runs line after line."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.apache_pulsar_5 import VERSION as VERSION_5
from support.apache_pulsar_5 import resolve_class_path_5_0_1
from support.maven import Dependency, class_path, java_of

VERSION_4: Final = "4.0.8"
"""The newest 4.x tool that Maven Central has."""
VERSIONS: Final = (VERSION_4, VERSION_5)

_SOURCE: Final = Path(__file__).parent / "java" / "AdminLines.java"
_LIST: Final = "?"
_STATUS: Final = re.compile(r"^(?:HTTP|[\w.]*[Ee]rror code:?|.*[Hh][Tt][Tt][Pp]) (\d{3})\b", re.MULTILINE)
_REASON: Final = re.compile(r"^Reason: (.*)", re.MULTILINE | re.DOTALL)
_HIDDEN: Final = {"persistent", "non-persistent", "documents"}
"""Old names of `topics`, and the generator of the tool's own documents."""


async def run_source(version: str, source: Path, *arguments: str, within_s: float) -> str:
    """Run a Java source file with the jars of a version of the tool, and return what it printed.

    Raises:
        PeerUnavailableError: there is no JDK, no Maven or no network.
        TimeoutError: it did not end in time.
    """
    java, jars = await asyncio.to_thread(tool_class_path, version)
    quick = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    process = await asyncio.create_subprocess_exec(
        *(java, *quick, "-cp", os.pathsep.join(jars), str(source), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        printed, errors = await asyncio.wait_for(process.communicate(), within_s)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, (printed + errors).decode(errors="replace")[-3_000:]
    return printed.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a line of the tool led to: whether it succeeded, what it printed and what it said of errors."""

    succeeded: bool
    printed: str
    errors: str

    @property
    def reason(self) -> str:
        """Why the broker refused the request, as the tool shows it; empty if it did not ask a broker."""
        found = _REASON.search(self.errors)
        return found[1].strip() if found else ""


class AdminTool:
    """One JVM with the tool, for the broker at one URL."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def run(self, words: Sequence[str]) -> Outcome:
        """Run one line."""
        return self._ask("\t".join(words))

    def verbs(self) -> list[tuple[str, str]]:
        """Return group and name of each verb that the tool shows, in the order of the alphabet."""
        rows = (line.split("\t") for line in self._ask(_LIST).printed.splitlines())
        return [(row[0], row[1]) for row in rows if len(row) > 1 and row[0] not in _HIDDEN]

    def _ask(self, line: str) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write((line + "\n").encode())
        self._process.stdin.flush()
        while True:
            answer = self._process.stdout.readline().decode()
            if not answer:
                raise RuntimeError(f"the JVM of pulsar-admin ended at: {line}")
            told = answer.split(" ")
            if len(told) == 3 and told[1].startswith("="):  # all else is what some library of theirs logs
                printed, errors = (base64.b64decode(each.strip().removeprefix("=")).decode() for each in told[1:])
                return Outcome(told[0] == "true", printed, errors)


def tool_class_path(version: str) -> tuple[str, list[str]]:
    """Return the path of a Java that runs the tool of a version, and its jars.

    Raises:
        PeerUnavailableError: there is no Maven, no network or no JDK.
    """
    if version == VERSION_5:
        return java_of(21)[0], resolve_class_path_5_0_1()
    parent = Dependency("org.apache.pulsar:pulsar", version)
    jars = class_path(Dependency("org.apache.pulsar:pulsar-client-tools", version), versions_of=parent)
    return java_of(17)[0], jars


@contextmanager
def admin_tool(version: str, web_url: str) -> Iterator[AdminTool]:
    """Run the tool of a version.

    Raises:
        PeerUnavailableError: there is no Maven, no network or no JDK.
    """
    java, jars = tool_class_path(version)
    quick = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = [java, *quick, "-cp", os.pathsep.join(jars), str(_SOURCE), web_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield AdminTool(process)
        finally:
            process.kill()
