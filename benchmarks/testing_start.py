"""How long a cluster for tests takes to start and to stop, from a cold interpreter and in one process.

    python -m benchmarks testing_start
    python -m benchmarks testing_start --starts 10 --pulsar --pulsar-starts 5

A start ends with the receipt for the first message of a stock client. *Cold* begins before the interpreter of the test
process is started, and the client's import, which the program under test pays, is not counted. *Warm* begins with
`Cluster(…)` in a process that has started one before. CPU seconds are those of all processes, of the start, the message
and the stop; unlike wall times, they hardly depend on what else the machine does. What is left after the last stop is
counted: processes, open files, threads and folders. With `--pulsar`, Apache Pulsar's standalone is started in turns
with the cold cluster of one broker; it comes from Maven.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pulsar

from benchmarks.machine import percentile, print_table
from pulsar_barycenter.standalone.cluster import free_ports

_COLD: Final = """\
from pulsar_barycenter.testing import Cluster
import json, sys, time
with Cluster({arguments}) as cluster:
    serves = time.monotonic()
    import pulsar
    imported = time.monotonic()
    client = pulsar.Client(cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.create_producer("persistent://public/default/first").send(b"x")
    received = time.monotonic()
    client.close()
    closed = time.monotonic()
print(json.dumps({{"serves": serves, "imported": imported, "received": received, "closed": closed}}))
"""
"""What a test does; times are those of the system's monotonic clock, which processes share on Linux."""

_WARM: Final = """\
import gc, json, threading, time
import psutil, pulsar
from pulsar_barycenter.testing import Cluster
me = psutil.Process()
def left():
    gc.collect()
    return {{"processes": len(me.children(recursive=True)), "files": me.num_fds(), "threads": me.num_threads()}}
def once():
    began, cpu = time.monotonic(), me.cpu_times()
    cluster = Cluster({arguments})
    cluster.start()
    client = pulsar.Client(cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.create_producer("persistent://public/default/first").send(b"x")
    received = time.monotonic()
    client.close()
    size = sum(file.stat().st_size for file in cluster.data.rglob("*") if file.is_file())
    brokers = [child for child in me.children() if "broker" in child.cmdline()] or [me]
    resident = max(broker.memory_info().rss for broker in brokers)
    closed = time.monotonic()
    cluster.stop()
    used = sum(me.cpu_times()) - sum(cpu)
    row = {{"start": received - began, "stop": time.monotonic() - closed, "cpu": used}}
    return row | {{"data": size, "resident": resident}}
once()
before = left()
rows = [once() for _ in range({starts})]
print(json.dumps({{"rows": rows, "before": before, "after": left()}}))
"""

_HEADER: Final = (
    *("what", "starts", "start p50 s", "start p99 s", "stop p50 s", "stop p99 s", "CPU p50 s"),
    *("a broker's RSS MiB", "data MiB"),
)
_STANDALONE: Final = "org.apache.pulsar.PulsarStandaloneStarter"
_PULSAR_START_S: Final = 120.0
_MIB: Final = 2**20


def run(code: str) -> tuple[Any, float, float, float]:
    """Run a program; return what it printed as JSON, when it began and ended by the monotonic clock, and its CPU."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)  # with the children that it has waited for
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        raise RuntimeError(f"the program failed with code {process.returncode}; its error is above")
    return json.loads(printed), began, time.monotonic(), usage.ru_utime + usage.ru_stime


class Measured:
    """The starts of one kind; times in seconds, sizes in bytes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.starts: list[float] = []
        self.stops: list[float] = []
        self.cpus: list[float] = []
        self.resident: list[int] = []
        self.data: list[int] = []

    def row(self) -> list[object]:
        times = [percentile(values, percent) for values in (self.starts, self.stops) for percent in (50, 99)]
        sizes = [percentile(values, 50) / _MIB if values else "" for values in (self.resident, self.data)]
        return [self.name, len(self.starts), *times, percentile(self.cpus, 50), *sizes]


def cold(measured: Measured, arguments: str) -> None:
    """Measure one start of a test process."""
    moments, began, ended, cpu = run(_COLD.format(arguments=arguments))
    measured.starts.append(moments["received"] - began - (moments["imported"] - moments["serves"]))
    measured.stops.append(ended - moments["closed"])
    measured.cpus.append(cpu)


def warm(name: str, arguments: str, starts: int) -> tuple[Measured, str]:
    """Measure starts in a row in one process; return also what is left of them."""
    result, *_ = run(_WARM.format(arguments=arguments, starts=starts))
    measured = Measured(name)
    for row in result["rows"]:
        measured.starts.append(row["start"])
        measured.stops.append(row["stop"])
        measured.cpus.append(row["cpu"])
        measured.resident.append(row["resident"])
        measured.data.append(row["data"])
    grown = ", ".join(f"{result['after'][what] - count:+d} {what}" for what, count in result["before"].items())
    return measured, f"{name}: {grown} after {starts} starts."


@contextmanager
def standalone(folder: Path, java: Sequence[str], log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run Apache Pulsar's standalone without functions and stream storage; yield it and its service URL."""
    broker_port, web_port = free_ports(2)
    conf = folder / "standalone.conf"
    keys = {
        "clusterName": "standalone",
        "advertisedAddress": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "brokerServicePort": broker_port,
        "webServicePort": web_port,
        "allowLoopback": "true",
        "managedLedgerDefaultEnsembleSize": 1,
        "managedLedgerDefaultWriteQuorum": 1,
        "managedLedgerDefaultAckQuorum": 1,
        "journalSyncData": "true",
    }
    conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    folders = ["--metadata-dir", str(folder / "metadata"), "--bookkeeper-dir", str(folder / "bookkeeper")]
    command = [*java, _STANDALONE, "-c", str(conf), "-nfw", "-nss", *folders]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
    try:
        yield process, f"pulsar://127.0.0.1:{broker_port}"
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def pulsar_standalone(measured: Measured, java: Sequence[str]) -> None:
    """Measure one start of Apache Pulsar's standalone, from its process to the first receipt."""
    with tempfile.TemporaryDirectory(prefix="barycenter-bench-") as path:
        folder = Path(path)
        log = folder / "standalone.log"
        began = time.monotonic()
        with standalone(folder, java, log) as (process, url):
            client = _served(process, url, log)
            measured.starts.append(time.monotonic() - began)
            client.close()
            measured.resident.append(psutil.Process(process.pid).memory_info().rss)
            measured.data.append(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
            stopping = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            measured.stops.append(time.monotonic() - stopping)
            measured.cpus.append(usage.ru_utime + usage.ru_stime)


def _served(process: subprocess.Popen[bytes], url: str, log: Path) -> pulsar.Client:
    """Return a client whose first message was received; it tries again until the server answers."""
    end = time.monotonic() + _PULSAR_START_S
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, str(log.with_name("client.log")))
    while time.monotonic() < end and process.poll() is None:
        client = pulsar.Client(url, logger=logger, operation_timeout_seconds=2)
        try:
            client.create_producer("persistent://public/default/first").send(b"x")
        except pulsar.PulsarException:
            client.close()
            time.sleep(0.05)
        else:
            return client
    raise RuntimeError(f"Pulsar's standalone did not start:\n{log.read_text(errors='replace')[-6_000:]}")


def java_command() -> tuple[str, list[str]]:
    """Return Pulsar's version, and the command of its standalone with the memory that `bin/pulsar` gives it.

    Raises:
        PeerUnavailableError: there is no Maven, no JDK or no network.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.apache_pulsar import JVM_OPTIONS
    from support.maven import tool
    from support.pulsar_peer import resolve_class_path

    version, jars = resolve_class_path()
    memory = ["-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=4g", "-XX:+UseZGC"]
    return str(version), [tool("java"), *memory, *JVM_OPTIONS, "-cp", os.pathsep.join(jars)]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="barycenter-bench-") as folder:
        os.environ["TMPDIR"] = folder  # of the test processes, so that what they leave is seen
        measure_all(Path(folder))


def measure_all(temporary: Path) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=50, help="of each kind, in a row")
    parser.add_argument("--pulsar", action="store_true", help="start Apache Pulsar's standalone, too")
    parser.add_argument("--pulsar-starts", type=int, default=5)
    options = parser.parse_args()
    loads = [os.getloadavg()[0]]
    one, three = Measured("one broker, cold"), Measured("three brokers, cold")
    rows, notes = [one, three], []
    turns: list[tuple[int, Callable[[], None]]] = [
        (options.starts, lambda: cold(one, "")),
        (options.starts, lambda: cold(three, "brokers=3")),
    ]
    if options.pulsar:
        version, java = java_command()
        theirs = Measured(f"Apache Pulsar {version} standalone")
        rows.append(theirs)
        turns.append((options.pulsar_starts, lambda: pulsar_standalone(theirs, java)))
    for number in range(max(count for count, _ in turns)):
        for count, measure in turns:
            if number < count:
                measure()
        loads.append(os.getloadavg()[0])
    for name, arguments in (("one broker, warm", ""), ("in process, warm", "in_process=True")):
        measured, note = warm(name, arguments, options.starts)
        rows.insert(2, measured)
        notes.append(note)
        loads.append(os.getloadavg()[0])
    print_table("Start and stop of a cluster for tests", _HEADER, [measured.row() for measured in rows])
    print("\n" + " ".join(notes), f"{len(list(temporary.iterdir()))} temporary files or folders are left.")
    print(f"Load average {min(loads):.1f} to {max(loads):.1f}.")


if __name__ == "__main__":
    main()
