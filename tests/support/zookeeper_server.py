"""Real ZooKeeper servers on loopback, from the jars of pyspark: one for the tests of a process, or three."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest

from pulsar_barycenter.standalone.cluster import free_ports
from support.certificates import Certificates

TICK_MS = 100
"""Sessions last between 2 and 20 ticks of a server, and end by up to one tick later."""
_JARS = ("zookeeper-*", "slf4j-api-*", "metrics-core-*", "snappy-java-*", "netty-*", "commons-io-*", "commons-cli-*")
_DEADLINE_S = 60.0
_LOOK_AGAIN_S = 0.02


class ZooKeeperServer:
    """One server; `start` may be called again after `kill`, with the same data and port. With `syncs` each write is
    on its disk before it answers."""

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        ensemble: str = "",
        number: int = 0,
        certificates: Certificates | None = None,
        secure_port: int = 0,
        syncs: bool = False,
    ) -> None:
        self.endpoint = f"127.0.0.1:{port}"
        self.url = f"zk:{self.endpoint}"
        self._address = "127.0.0.1", port
        self._process: subprocess.Popen[bytes] | None = None
        data = folder / f"zookeeper-{number}"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(str(number))
        self._log = data / "log"
        configuration = data / "zoo.cfg"
        configuration.write_text(
            f"tickTime={TICK_MS}\ninitLimit=50\nsyncLimit=20\ndataDir={data}\nclientPortAddress=127.0.0.1\n"
            f"clientPort={port}\nadmin.enableServer=false\n4lw.commands.whitelist=ruok,srvr\n"
            f"minSessionTimeout={2 * TICK_MS}\nmaxSessionTimeout=60000\nforceSync={'yes' if syncs else 'no'}\n"
            f"maxClientCnxns=0\n{ensemble}"
        )
        if certificates is not None:
            self.secure_endpoint = f"127.0.0.1:{secure_port}"
            shown = data / "shown.pem"
            shown.write_text(certificates.key.read_text() + certificates.certificate.read_text())
            configuration.write_text(
                f"{configuration.read_text()}secureClientPort={secure_port}\nsecureClientPortAddress=127.0.0.1\n"
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
                f"ssl.keyStore.location={shown}\nssl.keyStore.type=PEM\n"
                f"ssl.trustStore.location={certificates.authority}\nssl.trustStore.type=PEM\n"
            )
        main = "quorum.QuorumPeerMain" if ensemble else "ZooKeeperServerMain"
        self._command = [
            *("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dzookeeper.jmx.log4j.disable=true"),
            *("-cp", _class_path(), f"org.apache.zookeeper.server.{main}", str(configuration)),
        ]

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_ready(self) -> bool:
        """Wait until the server serves; return False if it has ended instead."""
        assert self._process is not None
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LOOK_AGAIN_S)
                return False
            if b"Mode: " in self.say(b"srvr"):
                return True
        raise AssertionError(f"ZooKeeper does not serve after {_DEADLINE_S} s: {self._log.read_text()[-2000:]}")

    @property
    def is_leader(self) -> bool:
        return b"Mode: leader" in self.say(b"srvr")

    def say(self, words: bytes) -> bytes:
        """Return the server's answer to a four-letter command; nothing if there is no server."""
        try:
            with socket.create_connection(self._address, timeout=5) as connection:
                connection.sendall(words)
                answer = bytearray()
                while part := connection.recv(4096):
                    answer += part
                return bytes(answer)
        except OSError:
            return b""

    def shell(self, *words: str) -> str:
        """Return the output of a command of ZooKeeper's own shell."""
        main = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "org.apache.zookeeper.ZooKeeperMain"]
        command = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", _class_path(), *main]
        done = subprocess.run(
            [*command, "-server", self.endpoint, *words],
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=True,
        )
        return done.stdout

    def pause(self) -> None:
        """Stop the process; return when all of its threads are stopped."""
        self.signal(signal.SIGSTOP)
        assert self._process is not None
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


@cache
def _class_path() -> str:
    """Return the jars of a server.

    Skips the calling test if there is no Java, or no pyspark with the jars.
    """
    if shutil.which("java") is None:
        pytest.skip("ZooKeeper's server needs a Java on the PATH")
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        pytest.skip("ZooKeeper's server is among pyspark's jars, and pyspark is not installed")
    jars = Path(found.origin).parent / "jars"
    paths = [str(path) for pattern in _JARS for path in sorted(jars.glob(f"{pattern}.jar"))]
    if not any("/zookeeper-" in path for path in paths):
        pytest.skip("this pyspark brings no ZooKeeper")
    return ":".join(paths)


@contextmanager
def zookeeper_server(
    folder: Path, *, certificates: Certificates | None = None, syncs: bool = False
) -> Iterator[ZooKeeperServer]:
    """Run a server; with certificates it has a second port, where clients must show one."""
    port, secure_port = free_ports(2)
    server = ZooKeeperServer(folder, port, certificates=certificates, secure_port=secure_port, syncs=syncs)
    server.start()
    try:
        assert server.wait_ready()
        yield server
    finally:
        server.kill()


@contextmanager
def zookeeper_ensemble(folder: Path) -> Iterator[list[ZooKeeperServer]]:
    """Three servers, of which two form a majority."""
    ports = free_ports(9)
    peers = "".join(
        f"server.{number}=127.0.0.1:{ports[3 * number - 2]}:{ports[3 * number - 1]}\n" for number in (1, 2, 3)
    )
    servers = [ZooKeeperServer(folder, ports[3 * number - 3], ensemble=peers, number=number) for number in (1, 2, 3)]
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.kill)
            server.start()
        for server in servers:
            assert server.wait_ready()
        yield servers


@cache
def shared_zookeeper() -> ZooKeeperServer:
    """Return the server that all tests of this process share; it ends with the process."""
    _class_path()
    folder = tempfile.TemporaryDirectory(prefix="zookeeper-")
    server = ZooKeeperServer(Path(folder.name), *free_ports(1))
    server.start()
    atexit.register(folder.cleanup)
    atexit.register(server.kill)
    assert server.wait_ready()
    return server
