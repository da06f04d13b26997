"""Real Oxia servers on loopback: one for the tests of a process, or several for one test.

The program is the `oxia` on the PATH, or the one that BARYCENTER_OXIA names. No package index has it as a binary;
from Oxia's sources (github.com/oxia-db/oxia) `go build -o oxia ./cmd` makes it.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import grpc
import pytest

from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.oxia_api_pb2_grpc import OxiaClientStub
from pulsar_barycenter.standalone.cluster import free_ports

VARIABLE = "BARYCENTER_OXIA"
_DEADLINE_S = 60.0
_LOOK_AGAIN_S = 0.02
_STARTS = 5
"""How often other ports are tried when somebody else took those that were free."""


class OxiaProcess:
    """The program with some arguments; `start` may be called again after `kill`, with the same data and ports."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self._command = [str(program()), *arguments, "--log-level", "warn"]
        if shutil.which("setpriv"):  # ends with this process, however that ends
            self._command[:0] = ["setpriv", "--pdeathsig", "KILL"]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def has_ended(self, within_s: float = 0) -> bool:
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
            return True
        return False

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class OxiaServer(OxiaProcess):
    """One server: a whole Oxia (`standalone`), or one of several (`server`), with additional `options`."""

    def __init__(self, folder: Path, kind: str, name: str, ports: Sequence[int], options: Sequence[str] = ()) -> None:
        self.port, metrics = ports
        self.endpoint = f"127.0.0.1:{self.port}"
        self.url = f"//{self.endpoint}/default"
        self._data = folder / name
        super().__init__(
            folder,
            name,
            *(kind, "--data-dir", str(self._data / "db"), "--wal-dir", str(self._data / "wal")),
            *("--public-addr", self.endpoint, "--metrics-addr", f"127.0.0.1:{metrics}", *options),
        )

    def wait_ready(self) -> bool:
        """Return whether it serves; False if it ended, for example because its port is taken."""
        give_up_at_s = time.monotonic() + _DEADLINE_S
        while time.monotonic() < give_up_at_s:
            if self.has_ended(_LOOK_AGAIN_S):
                return False
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return True
        raise AssertionError(f"oxia does not serve:\n{self._log.read_text(errors='replace')[-4000:]}")

    def leader(self) -> str:
        """Return the address of the leader of the first shard, as this server knows it; empty if it knows none."""
        with self.asked() as stub:
            answer = next(stub.GetShardAssignments(api.ShardAssignmentsRequest(namespace="default"), timeout=2))
            return answer.namespaces["default"].assignments[0].leader

    @contextmanager
    def asked(self) -> Iterator[OxiaClientStub]:
        """Yield a client of the server's API, for requests without a store."""
        with grpc.insecure_channel(self.endpoint) as channel:
            yield OxiaClientStub(channel)

    def end_session(self, session: int) -> None:
        """End a session as if its timeout had passed."""
        with self.asked() as stub:
            stub.CloseSession(api.CloseSessionRequest(shard=0, session_id=session), timeout=10)

    def keys(self, first: str, end: str) -> list[str]:
        """Return the keys from `first` to `end`, exclusive, of the first shard."""
        with self.asked() as stub:
            pages = stub.List(api.ListRequest(shard=0, start_inclusive=first, end_exclusive=end), timeout=10)
            return [key for page in pages for key in page.keys]

    def found(self, key: str, partition_key: str) -> bool:
        """Return whether Oxia's own client finds a key in the shard of a partition key."""
        command = [str(program()), "client", "--service-address", self.endpoint, "get", key]
        asked = subprocess.run([*command, "--partition-key", partition_key], check=False, capture_output=True)
        return asked.returncode == 0 and b"not found" not in asked.stdout + asked.stderr

    def forget(self) -> None:
        """Delete all data of a killed server."""
        shutil.rmtree(self._data)


def program() -> Path | None:
    """Return the path of Oxia's program, if there is one."""
    found = os.environ.get(VARIABLE) or shutil.which("oxia")
    return Path(found) if found else None


def need_oxia() -> None:
    """Skip the test if there is no Oxia."""
    if program() is None:
        pytest.skip(f"there is no oxia on the PATH, and {VARIABLE} names none (see CONTRIBUTING.md)")


@contextmanager
def oxia_server(folder: Path, *, options: Sequence[str] = ()) -> Iterator[OxiaServer]:
    """Run one server while the block lasts."""
    need_oxia()
    for attempt in range(_STARTS):
        place = folder / f"oxia-{attempt}"
        place.mkdir(parents=True)
        server = OxiaServer(place, "standalone", "oxia", free_ports(2), options)
        try:
            server.start()
            if server.wait_ready():
                yield server
                return
        finally:
            server.kill()
    raise AssertionError(f"oxia ended at every start; its logs are in {folder}")


@contextmanager
def oxia_ensemble(folder: Path, size: int = 3, *, options: Sequence[str] = ()) -> Iterator[tuple[OxiaServer, ...]]:
    """Run servers that form one Oxia while the block lasts, and the coordinator that selects a leader: one shard, on
    all servers.

    With `options`, clients may be refused, so the function does not wait for a leader.
    """
    need_oxia()
    for attempt in range(_STARTS):
        place = folder / f"oxia-{attempt}"
        place.mkdir(parents=True)
        ports = free_ports(3 * size + 3)
        inner = [f"127.0.0.1:{port}" for port in ports[2 * size : 3 * size]]
        servers = tuple(
            OxiaServer(place, "server", f"oxia{n}", ports[2 * n : 2 * n + 2], ["--internal-addr", inner[n], *options])
            for n in range(size)
        )
        known = [{"public": server.endpoint, "internal": inner[n]} for n, server in enumerate(servers)]
        shard = {"name": "default", "initialShardCount": 1, "replicationFactor": size}
        (place / "cluster.yaml").write_text(json.dumps({"namespaces": [shard], "servers": known}))
        one, two, three = (f"127.0.0.1:{port}" for port in ports[-3:])
        coordinator = OxiaProcess(
            place,
            "coordinator",
            *("coordinator", "--cconfig", str(place / "cluster.yaml"), "--metadata", "file"),
            *("--file-clusters-status-path", str(place / "status.json")),
            *("--internal-addr", one, "--public-addr", two, "--metrics-addr", three),
        )
        processes = (*servers, coordinator)
        try:
            for process in processes:
                process.start()
            if all(server.wait_ready() for server in servers) and (options or _lead(servers, coordinator)):
                yield servers
                return
        finally:
            for process in processes:
                process.kill()
    raise AssertionError(f"oxia ended at every start; its logs are in {folder}")


def _lead(servers: Sequence[OxiaServer], coordinator: OxiaProcess) -> bool:
    """Return when all know the leader; False if a process ended."""
    give_up_at_s = time.monotonic() + _DEADLINE_S
    while time.monotonic() < give_up_at_s:
        if coordinator.has_ended(_LOOK_AGAIN_S) or any(server.has_ended() for server in servers):
            return False
        with suppress(grpc.RpcError):
            if all(server.leader() for server in servers):
                return True
    raise AssertionError("nobody leads")


def leader_of(servers: Sequence[OxiaServer]) -> OxiaServer | None:
    """Return the leader, if most of the servers that name one agree."""
    named: Counter[str] = Counter()
    for server in servers:
        with suppress(grpc.RpcError):
            named[server.leader()] += 1
    leaders = [server for server in servers if named[server.endpoint] > len(servers) // 2]
    return leaders[0] if leaders else None


@cache
def shared_oxia() -> OxiaServer:
    """Return the one server that the tests of this process share; each test has keys below its own chroot."""
    need_oxia()
    kept = ExitStack()
    folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="oxia-")))
    server = kept.enter_context(oxia_server(folder))
    atexit.register(kept.close)
    return server
