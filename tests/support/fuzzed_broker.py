"""A broker process that accepts any input of a test; at the end it has to be sound."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

DEADLINE_S = 30
"""No answer within this time is taken for none."""
MOST_MEMORY = 600 << 20
ENDS_THE_BROKER = "/admin/v2/brokers/shutdown"


@dataclass
class FuzzedBroker:
    """A broker process, and its OpenAPI document."""

    url: str
    port: int
    document: dict[str, Any]

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """Send a request over a separate connection; `path` is encoded already."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body or None, {name.replace("_", "-"): headers[name] for name in headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except TimeoutError:
            pytest.fail(f"no answer within {DEADLINE_S} s: {shown(method, path, body)}")
        finally:
            connection.close()

    def refuses(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        status, answer = self.ask(method, path, body, **headers)
        assert 400 <= status < 500, f"{shown(method, path, body)}: {status} {answer[:300]!r}"

    def bears(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        status, answer = self.ask(method, path, body, **headers)
        assert status < 500, f"{shown(method, path, body)}: {status} {answer[:300]!r}"

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for path, methods in self.document["paths"].items():
            for method, described in methods.items():
                if path != ENDS_THE_BROKER:
                    yield method.upper(), path, described


def shown(method: str, path: str, body: bytes = b"") -> str:
    return f"{method} {path[:200]} ({len(path)} characters) {body[:100]!r} ({len(body)} bytes)"


@contextmanager
def fuzzed_broker(folder: Path) -> Iterator[FuzzedBroker]:
    """Start a broker; after the block it must run, be healthy and lean, and have logged no traceback."""
    keys = {"barycenterDataDir": folder / "data", "webServicePort": 0, "brokerServicePort": 0}
    (folder / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    log = folder / "broker.log"
    words = [sys.executable, "-m", "pulsar_barycenter", "broker", "--config", str(folder / "broker.conf")]
    with log.open("w") as errors, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("ready"), log.read_text()
            service, _, web = ready.rpartition(" (web ")
            broker = FuzzedBroker(web.rstrip(")\n"), int(service.rpartition(":")[2]), {})
            broker.document = json.loads(broker.ask("GET", "/barycenter/v1/openapi.json")[1])
            yield broker
            assert process.poll() is None, "the broker has ended"
            assert psutil.Process(process.pid).memory_info().rss < MOST_MEMORY
            assert broker.ask("GET", "/admin/v2/brokers/health")[0] == 200
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
    assert "Traceback" not in log.read_text()
