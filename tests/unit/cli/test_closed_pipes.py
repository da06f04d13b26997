"""Commands whose output is not read to the end, as before `| head -1`: they end without an error message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECORDED = str(ROOT / "tests" / "data" / "pipeline" / "cluster")
EXAMPLE = str(ROOT / "docs" / "examples" / "snapshot.json")

COMMANDS = [
    ["--help"],
    ["decide", EXAMPLE],
    ["decide", EXAMPLE, "--json"],
    ["explain", "--snapshot", EXAMPLE, "--broker", "broker-1:8080"],
    ["history", "top", "--data", RECORDED],
    ["history", "imbalance", "--data", RECORDED],
    ["history", "brokers", "--data", RECORDED, "--format", "csv"],
    ["history", "bundle", "public/default/0x00000000_0x55555555", "--data", RECORDED, "--format", "json"],
    ["pipeline", "status", "--data", RECORDED],
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_a_closed_pipe_is_no_failure_to_tell_of(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "pulsar_barycenter", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert "pipe" not in done.stderr.lower()
    assert "Traceback" not in done.stderr
