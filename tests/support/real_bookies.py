"""Bookies of Apache BookKeeper itself on loopback, each in its own JVM, and a ZooKeeper for them.

The classes are those that the peer suite resolves for Pulsar. The cluster is initialized and the bookies run by
BookKeeper's own programs, with BookKeeper's own driver of metadata.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Final

from pulsar_barycenter.standalone.cluster import free_ports
from support.maven import tool
from support.pulsar_peer import resolve_class_path, silent
from support.zookeeper_server import zookeeper_server

_START_S: Final = 300.0
_LOOK_AGAIN_S: Final = 0.1
_JVM: Final = (
    *("-Xms32m", "-Xmx128m", "-XX:MaxDirectMemorySize=96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Djava.net.preferIPv4Stack=true",
    *("-Xshare:auto", "-Dio.netty.tryReflectionSetAccessible=true", "-Dbookkeeper.root.logger=WARN"),
)


class RealBookie:
    """One bookie; `start` may be called again after `kill`, with the same data and port. `zookeeper` are the servers
    with the metadata, `HOST:PORT` separated by commas."""

    def __init__(
        self,
        folder: Path,
        class_path: str,
        zookeeper: str,
        number: int,
        port: int,
        http_port: int,
        configuration: Mapping[str, str],
    ) -> None:
        self.name = f"127.0.0.1:{port}"
        self._address = "127.0.0.1", port
        self._zookeeper = zookeeper
        self.folder = folder / f"bookie-{number}"
        self.folder.mkdir()
        self.conf = self.folder / "bookie.conf"
        keys = {
            "metadataServiceUri": f"zk+hierarchical://{zookeeper.replace(',', ';')}/ledgers",
            "bookiePort": port,
            "allowLoopback": "true",
            "listeningInterface": "lo",
            "advertisedAddress": "127.0.0.1",
            "journalDirectories": self.folder / "journal",
            "ledgerDirectories": self.folder / "entries",
            "httpServerEnabled": "false",
            "prometheusStatsHttpPort": http_port,
            "nettyMaxFrameSizeBytes": 5_253_120,
            "journalSyncData": "false",
            "diskUsageThreshold": "0.99",
            "diskUsageWarnThreshold": "0.98",
            "diskUsageLwmThreshold": "0.98",
            "numAddWorkerThreads": 1,
            "numReadWorkerThreads": 1,
            "numJournalCallbackThreads": 1,
            "serverNumIOThreads": 2,
            "zkTimeout": 4000,
            **configuration,
        }
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        self._class_path = class_path
        self._process: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        command = [
            "java",
            *_JVM,
            "-cp",
            self._class_path,
            "org.apache.bookkeeper.server.Main",
            "--conf",
            str(self.conf),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)]

    def wait_ready(self) -> bool:
        """Wait until the bookie serves and is registered; return False if it has ended instead."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if not self.is_running():
                return False
            with suppress(OSError):
                socket.create_connection(self._address, timeout=5).close()
                if self.name in registered(self._zookeeper):
                    return True
            time.sleep(_LOOK_AGAIN_S)
        raise AssertionError(f"bookie {self.name} does not serve after {_START_S} s: {self.log()}")

    def signal(self, number: signal.Signals) -> None:
        self._process[0].send_signal(number)

    def is_running(self) -> bool:
        return bool(self._process) and self._process[0].poll() is None

    def kill(self) -> None:
        """End the process as a crash does. Idempotent."""
        for process in self._process:
            process.kill()
            process.wait()
        self._process.clear()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]


class RealBookies:
    """A running cluster."""

    def __init__(self, bookies: list[RealBookie], zookeeper: str, class_path: str) -> None:
        self.bookies = bookies
        self.zookeeper = zookeeper
        self.url = f"zk:{zookeeper}"
        self.class_path = class_path

    def named(self, name: str) -> RealBookie:
        return next(bookie for bookie in self.bookies if bookie.name == name)

    def shell(self, *words: str) -> str:
        """Return what a command of BookKeeper's shell prints. Most commands log their results, so they print nothing
        without the library that logs, which the bookies lack.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        with_log = os.pathsep.join(resolve_class_path()[1])
        level = "-Dorg.apache.logging.log4j.level=INFO"
        main = "org.apache.bookkeeper.bookie.BookieShell"
        return run_java(with_log, level, main, "-conf", str(self.bookies[0].conf), *words)

    def wait_registered(self) -> None:
        """Return once all bookies that run are registered."""
        deadline = time.monotonic() + _START_S
        expected = {bookie.name for bookie in self.bookies if bookie.is_running()}
        while not expected <= registered(self.zookeeper):
            broken = [bookie for bookie in self.bookies if bookie.name in expected and not bookie.is_running()]
            assert not broken, broken[0].log()
            assert time.monotonic() < deadline, self.bookies[0].log()
            time.sleep(_LOOK_AGAIN_S)


def registered(zookeeper: str) -> set[str]:
    """Return the names of the bookies that are registered at these servers of ZooKeeper."""
    from kazoo.client import KazooClient

    client = KazooClient(zookeeper)
    client.start()
    try:
        return set(client.get_children("/ledgers/available"))
    finally:
        client.stop()
        client.close()


def run_java(class_path: str, *command: str) -> str:
    """Return what a Java program prints.

    Raises:
        subprocess.CalledProcessError: it failed; its output is in the exception.
    """
    done = subprocess.run(
        ["java", *_JVM, "-cp", class_path, *command], capture_output=True, text=True, timeout=_START_S, check=False
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout


@contextmanager
def real_bookies(folder: Path, count: int, configurations: Sequence[Mapping[str, str]] = ()) -> Iterator[RealBookies]:
    """Run ZooKeeper and `count` bookies, whose data and logs are in `folder`. `configurations` are further keys of the
    first bookies, in their order.

    Raises:
        PeerUnavailableError: there is no Maven, no JDK or no network.
    """
    class_path = bookkeeper_class_path()
    with (
        zookeeper_server(folder) as server,
        bookies_on(server.endpoint, folder, count, class_path, configurations) as cluster,
    ):
        yield cluster


def bookkeeper_class_path() -> str:
    """Return the jars of a bookie.

    Raises:
        PeerUnavailableError: there is no Maven, no JDK or no network.
    """
    tool("java")
    return os.pathsep.join(silent(resolve_class_path()[1]))


@contextmanager
def bookies_on(
    zookeeper: str, folder: Path, count: int, class_path: str, configurations: Sequence[Mapping[str, str]] = ()
) -> Iterator[RealBookies]:
    """Initialize a cluster of bookies on running servers of ZooKeeper, `HOST:PORT` separated by commas, and run `count`
    bookies, as `real_bookies` does. `class_path` is from `bookkeeper_class_path`."""
    with ExitStack() as stack:
        ports = free_ports(2 * count)
        bookies = [
            RealBookie(folder, class_path, zookeeper, number, ports[2 * number], ports[2 * number + 1], keys)
            for number, keys in zip(range(count), chain(configurations, repeat({})), strict=False)
        ]
        cluster = RealBookies(bookies, zookeeper, class_path)
        cluster.shell("initnewcluster")
        for bookie in bookies:
            stack.callback(bookie.kill)
            bookie.start()
        cluster.wait_registered()
        yield cluster
