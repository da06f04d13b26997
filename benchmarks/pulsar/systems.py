"""The two systems that are compared, as processes on loopback: their addresses, and the CPU time they used."""

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import psutil
import pulsar

from pulsar_barycenter.credentials.authorities import client_context
from pulsar_barycenter.standalone.cluster import free_ports
from pulsar_barycenter.standalone.process import PARENT_VARIABLE
from pulsar_barycenter.standalone.ready import READY

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.apache_pulsar import DURABLE, apache_pulsar
from support.certificates import Certificates
from support.pulsar_peer import newest_version

PULSAR: Final = "Pulsar"
BARYCENTER: Final = "Barycenter"
_PATIENCE_S: Final = 240


@dataclass(frozen=True, slots=True)
class TlsPorts:
    """Where a server listens by TLS; `trust_file` has the authority of its certificate."""

    url: str
    web_url: str
    trust_file: Path


@dataclass(frozen=True, slots=True)
class System:
    """A running server; `process_ids` are those that serve, their children count with them. `store_ids` are the
    processes of the store that it shares with other systems: bookies and ZooKeeper.

    With `trust_file` it is meant by TLS, and clients check its certificate and host.
    """

    name: str
    url: str
    web_url: str
    process_ids: tuple[int, ...]
    started_in_s: float
    """From the start of its first process to the first receipt, without what is done once in a cluster's life."""
    tls: TlsPorts | None = None
    trust_file: Path | None = None
    store_ids: tuple[int, ...] = ()

    def by_tls(self) -> "System":
        """Return the same server as clients reach it by TLS."""
        assert self.tls is not None
        url, web_url, trust_file = self.tls.url, self.tls.web_url, self.tls.trust_file
        return replace(self, name=f"{self.name} by TLS", url=url, web_url=web_url, trust_file=trust_file)

    def client_context(self) -> ssl.SSLContext | None:
        """Return by what a client of this process connects; None is without TLS."""
        return None if self.trust_file is None else client_context(str(self.trust_file), "the authority's file")

    def cpu_s(self) -> float:
        """Processor seconds used until now."""
        return _cpu_s(self.process_ids)

    def store_cpu_s(self) -> float:
        """Processor seconds that the shared store used until now, 0 without one."""
        return _cpu_s(self.store_ids)

    def resident_mib(self) -> float:
        return sum(process.memory_info().rss for process in _processes(self.process_ids)) / 2**20


def _cpu_s(process_ids: tuple[int, ...]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in _processes(process_ids))


def _processes(process_ids: tuple[int, ...]) -> Iterator[psutil.Process]:
    for process_id in process_ids:
        process = psutil.Process(process_id)
        yield process
        yield from process.children(recursive=True)


Start: TypeAlias = Callable[[Path], AbstractContextManager[System]]


def quiet_client(url: str) -> "pulsar.Client":
    """Return a client that waits long for a server on a busy machine."""
    return pulsar.Client(
        url,
        operation_timeout_seconds=_PATIENCE_S,
        io_threads=1,
        message_listener_threads=1,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


@contextmanager
def pulsar_itself(folder: Path) -> Iterator[System]:
    """Raises PeerUnavailableError without Maven, a JDK or the network."""
    began = time.perf_counter()
    with apache_pulsar(folder, brokers=1, deployment=DURABLE) as cluster:
        broker = cluster.brokers[0]
        _produce_once(broker.service_url)
        took_s = time.perf_counter() - began - cluster.set_up_s
        tls = TlsPorts(broker.tls_service_url, broker.tls_web_url, cluster.certificate)
        yield System(PULSAR, broker.service_url, broker.web_url, tuple(cluster.process_ids), took_s, tls)


@contextmanager
def barycenter_itself(
    folder: Path, certificates: Certificates | None = None, configuration: Mapping[str, str] | None = None
) -> Iterator[System]:
    """With `certificates` it listens by TLS, too; `configuration` overrides its keys."""
    web_port, broker_port, tls_web_port, tls_broker_port = free_ports(4)
    keys = {
        "clusterName": "standalone",
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
        "webServicePort": web_port,
        "brokerServicePort": broker_port,
        "metadataStoreUrl": f"sqlite:{folder / 'metadata.sqlite'}",
        "barycenterDataDir": folder,
        "loadReportLogEnabled": "true",
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
    }
    tls = None
    if certificates is not None:
        keys |= {"webServicePortTls": tls_web_port, "brokerServicePortTls": tls_broker_port}
        keys |= {"tlsCertificateFilePath": certificates.certificate, "tlsKeyFilePath": certificates.key}
        urls = f"pulsar+ssl://127.0.0.1:{tls_broker_port}", f"https://127.0.0.1:{tls_web_port}"
        tls = TlsPorts(*urls, certificates.authority)
    keys |= configuration or {}
    conf = folder / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    command = [sys.executable, "-m", "pulsar_barycenter", "broker", "--config", str(conf)]
    url = f"pulsar://127.0.0.1:{broker_port}"
    began = time.perf_counter()
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env={**os.environ, PARENT_VARIABLE: str(os.getpid())}
        )
    try:
        assert process.stdout is not None
        if not process.stdout.readline().startswith(READY.encode()):
            raise RuntimeError(f"the broker did not start:\n{(folder / 'broker.log').read_text()}")
        _produce_once(url)
        took_s = time.perf_counter() - began
        yield System(BARYCENTER, url, f"http://127.0.0.1:{web_port}", (process.pid,), took_s, tls)
    finally:
        process.kill()
        process.wait()


def _produce_once(url: str) -> None:
    client = quiet_client(url)
    client.create_producer("persistent://public/default/first").send(b"x")
    client.close()


STARTS: Final[dict[str, Start]] = {PULSAR: pulsar_itself, BARYCENTER: barycenter_itself}


def pulsar_version() -> str:
    """Return Pulsar's version.

    Raises:
        PeerUnavailableError: there is no Maven or no network, and no earlier answer either.
    """
    return str(newest_version())
