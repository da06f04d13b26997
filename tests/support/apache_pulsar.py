"""A cluster of Apache Pulsar itself on loopback, in separate processes: ZooKeeper, bookies and brokers.

The classes are those of the version that the peer suite resolves, with the dependencies that Pulsar pins for it. No
broker is Pulsar's standalone: on loopback its clients reach all other brokers through it, as a proxy.

For tests it starts fast and keeps nothing after a crash of the machine. For benchmarks (`DURABLE`) it runs as
operators run it: acknowledged messages are synced, and the JVMs compile hot code.
"""

import asyncio
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from json import loads
from pathlib import Path
from typing import Any, Final

import aiohttp

from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.standalone.cluster import free_ports
from support.maven import Dependency, class_path, default_cache, tool
from support.pulsar_peer import resolve_class_path
from support.running_cluster import eventually, lookup_path

MODULAR: Final = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
EXTENSIBLE: Final = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"

_PERF_VERSION: Final = "4.0.8"
"""The newest `pulsar-testclient` on Maven Central; it runs with the client of the broker's version."""
_START_S: Final = 900
_OPENED: Final = (
    *("java.base/java.lang", "java.base/java.io", "java.base/java.nio", "java.base/java.util.zip", "java.base/sun.net"),
    *("java.base/jdk.internal.loader", "java.base/jdk.internal.misc", "java.base/jdk.internal.platform"),
    *("java.management/sun.management", "jdk.management/com.sun.management.internal"),
)
JVM_OPTIONS: Final = (
    "-Djava.net.preferIPv4Stack=true",  # the IPv6 address of `lo` is not a valid bookie id
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
)

_LOGGING: Final = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %-5level %logger{1} - %m%n%throwable
"""

_CONFIGURATION: Final[dict[str, str]] = {
    "clusterName": "c1",
    "advertisedAddress": "localhost",
    "bindAddress": "127.0.0.1",
    "listeningInterface": "lo",  # the bookie's key
    "allowLoopback": "true",
    "nettyMaxFrameSizeBytes": "5253120",  # as Pulsar's bookkeeper.conf has it, for the largest of messages
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    # no moves but those that are asked for
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


@dataclass(frozen=True, slots=True)
class Deployment:
    """How the processes run: options of their JVMs, keys of ZooKeeper, of the brokers and of the bookies.

    With `own_bookie` a bookie is BookKeeper's server; otherwise it is the one that Pulsar's standalone starts,
    made for small machines. Without `bookies` no persistent topic can be loaded; several are possible with
    `own_bookie` only. Without `has_tls` the brokers have only plain ports. With `maps_classes` the JVMs map the
    classes that a broker of the first such cluster had loaded when it was ready, instead of reading them again.
    """

    jvm: tuple[str, ...]
    zookeeper: Mapping[str, str]
    broker: Mapping[str, str]
    bookie: Mapping[str, str]
    own_bookie: bool
    bookies: int = 1
    has_tls: bool = True
    maps_classes: bool = False


_QUICK_KEYS: Final[dict[str, str]] = {
    "journalSyncData": "false",
    "managedLedgerCacheSizeMB": "32",
    "numIOThreads": "2",
    "numHttpServerThreads": "8",
    "metadataStoreSessionTimeoutMillis": "5000",
    # figures soon
    "statsUpdateInitialDelayInSecs": "1",
    "statsUpdateFrequencyInSecs": "1",
    "loadBalancerHostUsageCheckIntervalMinutes": "1",
    "loadBalancerReportUpdateMinIntervalMillis": "500",
    "loadBalancerReportUpdateMaxIntervalMinutes": "1",
}
QUICK: Final = Deployment(
    jvm=(
        *("-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-Xshare:auto"),
        "-XX:TieredStopAtLevel=1",  # a server that lives for a minute is not worth more compiling
    ),
    zookeeper={"forceSync": "no", "tickTime": "500"},
    broker=_QUICK_KEYS,
    bookie=_QUICK_KEYS,
    own_bookie=False,
    maps_classes=True,
)
MIXED: Final = replace(QUICK, bookies=0, has_tls=False)
"""For brokers that share a cluster with Barycenter's: those have no TLS, and keep messages elsewhere."""
DURABLE: Final = Deployment(
    jvm=("-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-XX:+UseG1GC"),
    zookeeper={"forceSync": "yes", "tickTime": "2000"},
    broker={},
    # what Pulsar's bookkeeper.conf says otherwise than BookKeeper would by itself, and is felt under load
    bookie={
        "zkTimeout": "30000",
        "journalSyncData": "true",
        "journalMaxGroupWaitMSec": "1",
        "journalFormatVersionToWrite": "5",
        "journalAlignmentSize": "4096",
        "fileInfoFormatVersionToWrite": "0",
        "flushEntrylogBytes": "33554432",
        "entryLogFilePreallocationEnabled": "true",
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
        "numHighPriorityWorkerThreads": "8",
        "maxPendingAddRequestsPerThread": "10000",
        "gcWaitTime": "900000",
    },
    own_bookie=True,
)
"""All that is acknowledged was synced; one GiB of heap and of direct memory for each JVM, at the most."""


class ApacheBroker:
    """One broker; `broker_id` is its name in the cluster, `host` a name of this machine."""

    def __init__(self, host: str, broker_port: int, web_port: int, tls_broker_port: int, tls_web_port: int) -> None:
        self.host = host
        self.ports = {"brokerServicePort": str(broker_port), "webServicePort": str(web_port)}
        self.tls_ports = {"brokerServicePortTls": str(tls_broker_port), "webServicePortTls": str(tls_web_port)}
        self.broker_id = f"{host}:{web_port}"
        self.web_url = f"http://{self.broker_id}"
        self.service_url = f"pulsar://{host}:{broker_port}"
        self.tls_web_url = f"https://{host}:{tls_web_port}"
        self.tls_service_url = f"pulsar+ssl://{host}:{tls_broker_port}"
        self.process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """End the process as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


class ApachePulsar:
    """A running cluster; what its processes print is in `folder`/*.log."""

    def __init__(
        self,
        folder: Path,
        class_path: str,
        configuration: Mapping[str, str],
        hosts: Sequence[str],
        deployment: Deployment = QUICK,
        java: str = "java",
    ) -> None:
        self.folder = folder
        self.logging = folder / "log4j2.properties"
        """What its processes log, and where: for others of Pulsar's programs, too."""
        self.set_up_s = 0.0
        """What initialising the cluster's metadata took, which is done once in its life."""
        ports = free_ports(4 * len(hosts) + 1 + deployment.bookies)
        self.brokers = [
            ApacheBroker(host, *ports[1 + 4 * number : 5 + 4 * number]) for number, host in enumerate(hosts)
        ]
        self.certificate = folder / "certificate.pem"
        self._key = folder / "key.pem"
        self._class_path = class_path
        self._java_path = java
        self._deployment = deployment
        # Java 25 crashed in LambdaProxyClassDictionary after it wrote the archive
        maps_classes = deployment.maps_classes and java == "java"
        self._classes = _archive_of(java, class_path) if maps_classes else None
        self._configuration = _CONFIGURATION | dict(configuration)
        self._metadata_port = ports[0]
        self._bookie_ports = ports[1 + 4 * len(hosts) :]
        self.metadata_url = f"zk:127.0.0.1:{ports[0]}"
        """The `metadataStoreUrl` of its brokers."""
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def service_url(self) -> str:
        """The URL with all brokers."""
        return "pulsar://" + ",".join(broker.service_url.removeprefix("pulsar://") for broker in self.brokers)

    @property
    def process_ids(self) -> list[int]:
        """The process ids of ZooKeeper, the bookies and the brokers."""
        return [process.pid for process in self._started.values()]

    @property
    def store_process_ids(self) -> list[int]:
        """The process ids of ZooKeeper and the bookies."""
        return [process.pid for name, process in self._started.items() if not name.startswith("broker")]

    def start(self) -> None:
        """Return once every broker serves."""
        self.logging.write_text(_LOGGING)
        self._make_certificate()
        metadata = self._conf(
            "zookeeper",
            {"clientPort": str(self._metadata_port), "dataDir": str(self.folder / "zookeeper")}
            | {"clientPortAddress": "127.0.0.1", "admin.enableServer": "false", **self._deployment.zookeeper},
        )
        self._java("zookeeper", "org.apache.zookeeper.server.ZooKeeperServerMain", str(metadata))
        web, service = (f"{scheme}://localhost:1" for scheme in ("http", "pulsar"))  # not asked for
        began = time.monotonic()
        setup = self._java(
            "setup",
            "org.apache.pulsar.PulsarClusterMetadataSetup",
            *("--cluster", "c1", "--metadata-store", self.metadata_url, "--configuration-store", self.metadata_url),
            *("--web-service-url", web, "--broker-service-url", service),
        )
        assert setup.wait(_START_S) == 0
        self.set_up_s = time.monotonic() - began
        del self._started["setup"]
        for number in range(self._deployment.bookies):
            self.start_bookie(number)
        for broker in self.brokers:
            self._start_broker(broker)
        for broker in self.brokers:
            self._wait_until_ready(broker)
        self._keep_classes()

    def restart(self, *brokers: ApacheBroker) -> None:
        """Start brokers that were killed; return once all of them serve."""
        for broker in brokers:
            self._start_broker(broker)
        for broker in brokers:
            self._wait_until_ready(broker)

    def stop(self, broker: ApacheBroker) -> None:
        """End a broker as an operator does; from then on it may be away."""
        assert broker.process is not None
        broker.process.terminate()
        broker.process.wait(_START_S)
        self._started.pop(f"broker-{self.brokers.index(broker)}", None)

    def start_bookie(self, number: int) -> None:
        """Start a bookie, with the data that it had if it was killed. Does not wait until it serves."""
        name = _bookie_name(number)
        keys = {**self._configuration, **self._deployment.bookie}
        ledgers = self.folder / f"ledgers-{number}"
        if self._deployment.own_bookie:
            keys |= {"journalDirectories": str(ledgers / "journal"), "ledgerDirectories": str(ledgers / "entries")}
            keys |= {"bookiePort": str(self._bookie_ports[number]), "advertisedAddress": "127.0.0.1"}
            keys |= {"metadataServiceUri": f"metadata-store:{self.metadata_url}"}
            self._java(name, "org.apache.bookkeeper.server.Main", "--conf", str(self._conf(name, keys)))
            return
        conf = self._conf(name, keys)
        self._java(
            *(name, "org.apache.pulsar.PulsarStandaloneStarter", "--no-broker", "-nfw", "-nss", "-c", str(conf)),
            *("--metadata-url", self.metadata_url, "--bookkeeper-dir", str(ledgers)),
        )

    def kill_bookie(self, number: int) -> None:
        """End a bookie as a crash does; from then on it may be away, until `start_bookie`."""
        process = self._started.pop(_bookie_name(number))
        process.kill()
        process.wait()

    def end(self) -> None:
        """End all processes at once, without saving anything."""
        for process in self._started.values():
            process.kill()
            process.wait()

    def call(self, method: str, path: str, *, broker: int = 0, json: Any = None) -> tuple[int, Any]:
        """Return the status and the decoded body of an answer of the admin REST; redirects are followed."""

        async def ask() -> tuple[int, Any]:
            url = f"{self.brokers[broker].web_url}{path}"
            timeout = aiohttp.ClientTimeout(total=60)
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                # it refuses a request without this, also one without a body
                session.request(method, url, json=json, headers={"Content-Type": "application/json"}) as answer,
            ):
                text = await answer.text()
                try:
                    return answer.status, loads(text)
                except ValueError:  # it says of some of its texts that they are JSON
                    return answer.status, text

        return asyncio.run(ask())

    def expect(self, status: int, method: str, path: str, *, broker: int = 0, json: Any = None) -> Any:
        got, body = self.call(method, path, broker=broker, json=json)
        assert got == status, f"{method} {path}: {got} {body}"
        return body

    def owner(self, topic: str) -> ApacheBroker:
        """Return the broker that serves a topic; the topic is loaded if no broker did."""
        answer = self.expect(200, "GET", lookup_path(topic))
        return next(broker for broker in self.brokers if broker.service_url == answer["brokerUrl"])

    def bundle_path(self, topic: str) -> str:
        """Return the path of the admin REST of the bundle of a topic."""
        bundle = str(self.expect(200, "GET", f"{lookup_path(topic)}/bundle")).strip('"')
        return f"/admin/v2/namespaces/{TopicName.parse(topic).namespace}/{bundle}"

    def logs(self) -> str:
        """Return the end of what each process printed."""
        said = ((file.name, file.read_text(errors="replace")[-6_000:]) for file in sorted(self.folder.glob("*.log")))
        return "\n".join(f"--- {name}\n{text}" for name, text in said)

    def _broken(self) -> str | None:
        """Return the name of a process that ended, None if all run."""
        return next((name for name, process in self._started.items() if process.poll() is not None), None)

    def _start_broker(self, broker: ApacheBroker) -> None:
        number = self.brokers.index(broker)
        conf = self._broker_conf(number, broker)
        broker.process = self._java(f"broker-{number}", "org.apache.pulsar.PulsarBrokerStarter", "-c", str(conf))

    def _make_certificate(self) -> None:
        command = [
            tool("openssl"),
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-days",
            "2",
        ]
        command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(self._key), "-out", str(self.certificate)]
        subprocess.run(command, capture_output=True, check=True)

    def _wait_until_ready(self, broker: ApacheBroker) -> None:
        def is_ready() -> bool:
            assert self._broken() is None, f"{self._broken()} ended"
            try:
                return self.call("GET", "/admin/v2/brokers/ready", broker=self.brokers.index(broker))[0] == 200
            except (aiohttp.ClientError, TimeoutError):
                return False

        soon(is_ready, within_s=_START_S, what=f"Pulsar's broker {broker.broker_id} ready")

    def _broker_conf(self, number: int, broker: ApacheBroker) -> Path:
        stores = {"metadataStoreUrl": self.metadata_url, "configurationMetadataStoreUrl": self.metadata_url}
        own = broker.ports | stores | {"advertisedAddress": broker.host}
        if self._deployment.has_tls:
            own |= broker.tls_ports
            own |= {"tlsCertificateFilePath": str(self.certificate), "tlsKeyFilePath": str(self._key)}
        return self._conf(f"broker-{number}", {**self._deployment.broker, **self._configuration, **own})

    def _conf(self, name: str, keys: Mapping[str, str]) -> Path:
        file = self.folder / f"{name}.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        return file

    def _keep_classes(self) -> None:
        """Make a broker write the list of its loaded classes, unless that was done before or there is no jcmd."""
        asking = shutil.which("jcmd")
        if self._classes is None or self._classes.exists() or asking is None:
            return
        self._classes.parent.mkdir(parents=True, exist_ok=True)
        made = self._classes.with_suffix(f".{os.getpid()}")
        command = [asking, str(self._started["broker-0"].pid), "VM.cds", "dynamic_dump", str(made)]
        subprocess.run(command, capture_output=True, timeout=_START_S, check=False)
        if made.exists():
            made.replace(self._classes)

    def _class_options(self) -> list[str]:
        if self._classes is None:
            return []
        if self._classes.exists():
            return [f"-XX:SharedArchiveFile={self._classes}", "-Xlog:disable"]  # silent of one that does not fit
        return ["-XX:+RecordDynamicDumpInfo"]

    def _java(self, name: str, *command: str) -> "subprocess.Popen[bytes]":
        logs = f"-Dlog4j2.configurationFile={self.logging}"
        options = [*self._deployment.jvm, *self._class_options(), *JVM_OPTIONS, logs]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [self._java_path, *options, "-cp", self._class_path, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        self._started[name] = process
        return process


def _bookie_name(number: int) -> str:
    return f"bookie-{number}"


def _archive_of(java_path: str, class_path: str) -> Path:
    """Return the path of the class archive of a Java and these jars; Java itself checks that they are unchanged."""
    java = Path(tool(java_path)).resolve()
    made_from = f"{java} {java.stat().st_mtime_ns} {class_path}"
    return default_cache() / "classes" / f"broker-{hashlib.sha256(made_from.encode()).hexdigest()[:16]}.jsa"


@contextmanager
def apache_pulsar(
    folder: Path,
    *,
    brokers: int = 2,
    configuration: Mapping[str, str] | None = None,
    deployment: Deployment = QUICK,
    hosts: Sequence[str] = (),
    java_and_jars: tuple[str, Sequence[str]] | None = None,
) -> Iterator[ApachePulsar]:
    """Run a cluster whose data and logs are in `folder`; `configuration` overrides that of all brokers.

    `hosts` are the names of this machine by which the brokers are known, one each. By default all are localhost, the
    only name in their certificate. `java_and_jars` are those of another version than the newest 4.x.

    Raises:
        PeerUnavailableError: there is no Maven, no JDK or no network.
    """
    java, jars = java_and_jars or ("java", resolve_class_path()[1])
    cluster = ApachePulsar(
        folder, os.pathsep.join(jars), configuration or {}, hosts or ("localhost",) * brokers, deployment, java
    )
    try:
        cluster.start()
        yield cluster
    except BaseException as error:
        error.add_note(cluster.logs())
        raise
    finally:
        cluster.end()


def perf_command(*arguments: str, logging: Path | None = None) -> list[str]:
    """Return the command of `pulsar-perf`; it logs as the file `logging` says.

    Raises:
        PeerUnavailableError: Maven cannot provide it.
    """
    (perf,) = class_path(Dependency("org.apache.pulsar:pulsar-testclient", _PERF_VERSION, without=("*:*",)))
    jars = resolve_class_path()[1]
    main = "org.apache.pulsar.testclient.PulsarPerfTestTool"
    said = [] if logging is None else [f"-Dlog4j2.configurationFile={logging}"]
    options = ["-Xmx1g", "-XX:+UseG1GC", *said, "-cp", os.pathsep.join([perf, *jars])]
    return ["java", *options, main, os.devnull, *arguments]


def soon(holds: Callable[[], bool], *, within_s: float = 60, what: str) -> None:
    """`eventually` for tests that do not run in a loop; `holds` may have its own loop."""

    async def asked() -> bool:
        return await asyncio.to_thread(holds)

    asyncio.run(eventually(asked, within_s=within_s, what=what))
