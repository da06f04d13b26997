"""Real etcd servers on loopback, of the `etcd` on the PATH: one for the tests of a process, or three, or with TLS."""

from __future__ import annotations

import atexit
import base64
import json
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pulsar_barycenter.standalone.cluster import free_ports
from support.certificates import Certificates

_DEADLINE_S = 60.0
_LOOK_AGAIN_S = 0.02
_STARTS = 5
"""How often other ports are tried when somebody else took those that were free."""


class EtcdServer:
    """One server; `start` may be called again after `kill`, with the same data and ports."""

    def __init__(
        self,
        folder: Path,
        ports: Sequence[int],
        *,
        name: str = "etcd",
        peers: str = "",
        certificates: Certificates | None = None,
    ) -> None:
        client_port, peer_port = ports
        self.endpoint = f"127.0.0.1:{client_port}"
        self.url = f"{'https' if certificates else 'http'}://{self.endpoint}"
        self._data = folder / name
        self._certificates = certificates
        peer_url = f"http://127.0.0.1:{peer_port}"
        self._command = [
            *("etcd", "--name", name, "--data-dir", str(self._data), "--log-level", "warn"),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url),
            *("--initial-cluster", peers or f"{name}={peer_url}"),
        ]
        if certificates:
            self._command += ["--cert-file", str(certificates.certificate), "--key-file", str(certificates.key)]
            self._command += ["--trusted-ca-file", str(certificates.authority), "--client-cert-auth"]
        if shutil.which("setpriv"):  # ends with this process, however that ends
            self._command[:0] = ["setpriv", "--pdeathsig", "KILL"]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_ready(self) -> bool:
        """Return whether it serves; False if it ended, for example because its port is taken."""
        assert self._process is not None
        give_up_at_s = time.monotonic() + _DEADLINE_S
        while time.monotonic() < give_up_at_s:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LOOK_AGAIN_S)
                return False
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5, context=self._tls()) as answer:
                    if json.load(answer)["health"] == "true":
                        return True
            except OSError:
                continue
        raise AssertionError(f"etcd does not serve:\n{self._log.read_text(errors='replace')[-4000:]}")

    def call(self, method: str, body: dict[str, Any], *, token: str = "") -> Any:
        """Send a request to the server's JSON API, such as `lease/revoke`; numbers may be texts, bytes are base64."""
        headers = {"Content-Type": "application/json", **({"Authorization": token} if token else {})}
        request = urllib.request.Request(f"{self.url}/v3/{method}", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=10, context=self._tls()) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method}: {error.read().decode(errors='replace')}") from error

    def revision(self) -> int:
        return int(self.call("kv/range", {"key": text("/")})["header"]["revision"])

    def compact(self) -> None:
        """Compact all changes until now."""
        self.call("kv/compaction", {"revision": self.revision()})

    def is_leader(self) -> bool:
        status = self.call("maintenance/status", {})
        return bool(status["leader"] == status["header"]["member_id"])

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Delete all data of a killed server."""
        shutil.rmtree(self._data)

    def _tls(self) -> ssl.SSLContext | None:
        if self._certificates is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self._certificates.authority)
        context.load_cert_chain(self._certificates.certificate, self._certificates.key)
        return context


def text(value: str) -> str:
    """Return `value` in the form of keys and values in the JSON API."""
    return base64.b64encode(value.encode()).decode()


def need_etcd() -> None:
    """Skip the test if there is no etcd."""
    if shutil.which("etcd") is None:
        pytest.skip("there is no etcd on the PATH (Debian: apt-get install etcd-server)")


@contextmanager
def etcd_server(folder: Path, *, certificates: Certificates | None = None) -> Iterator[EtcdServer]:
    """Run one server while the block lasts."""
    with etcd_ensemble(folder, 1, certificates=certificates) as (server,):
        yield server


@contextmanager
def etcd_ensemble(
    folder: Path, size: int = 3, *, certificates: Certificates | None = None
) -> Iterator[tuple[EtcdServer, ...]]:
    """Run servers that form one store while the block lasts."""
    need_etcd()
    for attempt in range(_STARTS):
        place = folder / f"etcd-{attempt}"
        place.mkdir(parents=True)
        ports = free_ports(2 * size)
        peers = ",".join(f"etcd{number}=http://127.0.0.1:{ports[size + number]}" for number in range(size))
        servers = tuple(
            EtcdServer(
                place,
                (ports[number], ports[size + number]),
                name=f"etcd{number}",
                peers=peers,
                certificates=certificates,
            )
            for number in range(size)
        )
        try:
            for server in servers:
                server.start()
            if all(server.wait_ready() for server in servers):
                yield servers
                return
        finally:
            for server in servers:
                server.kill()
    raise AssertionError(f"etcd ended at every start; its logs are in {folder}")


@cache
def shared_etcd() -> EtcdServer:
    """Return the one server that the tests of this process share; each test has keys below its own chroot."""
    need_etcd()
    kept = ExitStack()
    folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="etcd-")))
    server = kept.enter_context(etcd_server(folder))
    atexit.register(kept.close)
    return server
