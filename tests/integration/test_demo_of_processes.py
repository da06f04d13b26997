"""`barycenter demo` from its first broker to its report, on the shortest run there is."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from pulsar_barycenter.standalone.cluster import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.pipeline, pytest.mark.xdist_group("cluster")]


async def test_a_demo_loses_a_broker_and_no_message_and_tells_it(tmp_path: Path) -> None:
    """Two brokers, of which the busiest is killed; stock clients count every message."""
    ports = free_ports(4)
    out = tmp_path / "out"
    words = ["--brokers", "2", "--duration", "10", "--out", str(out), "--json"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", "demo", *words),
        *("--web-port", str(ports[0]), "--broker-port", str(ports[2])),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        told, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()
    text = (out / "summary.json").read_text()
    assert told.decode() == text
    summary = json.loads(text)
    assert summary["messages_produced"] == summary["messages_consumed"] > 0
    assert (summary["messages_lost"], summary["out_of_order"]) == (0, 0)
    assert summary["killed_broker"] in {f"127.0.0.1:{port}" for port in ports[:2]}
    assert summary["assignments"] >= 4
    assert f"broker killed  {summary['killed_broker']}" in said.decode()
    report = (out / "report.html").read_text()
    assert "barycenter demo --brokers 2 --duration 10" in report
    assert "broker killed" in report
