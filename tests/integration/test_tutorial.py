"""docs/tutorial.md, walked as it is written, on free ports: every command works, and load moves to the empty broker."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pulsar_barycenter.standalone.cluster import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("tutorial")]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BROKERS = 3
DEADLINE_S = 120
PROGRAMS = {
    ".venv/bin/barycenter": [sys.executable, "-m", "pulsar_barycenter"],
    ".venv/bin/python": [sys.executable],
}


def commands(ports: list[int]) -> list[list[str]]:
    """Return the command lines of the page, in order, as argument lists for a cluster at `ports`."""
    text = PAGE
    for number in range(BROKERS):
        text = text.replace(f":808{number}", f":{ports[number]}").replace(
            f":665{number}", f":{ports[BROKERS + number]}"
        )
    blocks = re.findall(r"^```(?:sh)?\n(\.venv/.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    lines[0] += ["--web-port", str(ports[0]), "--broker-port", str(ports[BROKERS])]
    return [[*PROGRAMS[program], *words] for program, *words in lines]


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[str]:
    """Run a command until the end of the block; give the first line that it prints."""
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()


def bundles(environment: dict[str, str]) -> dict[str, int]:
    """Return how many bundles each broker serves besides its own."""
    command = [*PROGRAMS[".venv/bin/barycenter"], "status", "--json"]
    told = json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout)
    return {broker["broker"]: broker["bundles"] for broker in told["brokers"]}


def wait_for_bundles(broker: str, environment: dict[str, str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not bundles(environment)[broker]:
        assert time.monotonic() < deadline, bundles(environment)


def test_every_command_of_the_tutorial_works_and_load_moves(tmp_path: Path) -> None:
    ports = free_ports(2 * BROKERS)
    third = f"127.0.0.1:{ports[2]}"
    environment = os.environ | {"BARYCENTER_URL": f"http://127.0.0.1:{ports[0]}", "COLUMNS": "200"}
    start, *rest = commands(ports)
    with ExitStack() as stack:
        assert stack.enter_context(running(start, environment)).startswith("ready: ")
        printed: dict[str, list[str]] = {}
        for command in rest:
            if command[-2].endswith("traffic.py"):
                assert stack.enter_context(running(command, environment)).startswith("sending to 12 topics")
                wait_for_bundles(f"127.0.0.1:{ports[1]}", environment)
                continue
            words = [str(ROOT / word) if word.startswith("docs/") else word for word in command]
            done = subprocess.run(
                words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
            )
            verb = command[len(PROGRAMS[".venv/bin/barycenter"])]
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            printed.setdefault(verb, []).append(done.stdout)
            if verb == "drain":
                assert bundles(environment)[third] == 0
            if verb == "undrain":
                wait_for_bundles(third, environment)
        assert any("drained" in line for line in printed["status"][0].splitlines() if line.startswith(third))
        assert f"127.0.0.1:{ports[0]}" in printed["move"][1]
        assert "UniformLoadShedder" in printed["explain"][1]
        assert len(printed) == 8, [*printed]
