"""A whole cluster on one machine: N broker processes, the pipeline process, one data directory.

The parent starts the children, restarts those that end by themselves, and ends them in order. Brokers find
each other through the metadata store, in the data directory if none is named; nothing passes through the parent.
"""

import asyncio
import os
import random
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulsar_barycenter.config.broker_conf import read_conf_text, read_pairs
from pulsar_barycenter.standalone.data_directory import DataDirectory
from pulsar_barycenter.standalone.errors import PortInUseError, PortRangeError, ProcessFailedError, SharedPortError
from pulsar_barycenter.standalone.process import ChildProcess

OWN_KEYS = ("bindAddress", "webServicePort", "brokerServicePort", "metadataStoreUrl", "barycenterDataDir")
"""Keys that a cluster on one machine sets itself, whatever its configuration says."""
_TLS_PORTS = ("brokerServicePortTls", "webServicePortTls")
_LOOPBACK = "127.0.0.1"
_BROKER_READY_TIMEOUT_S = 60.0
_PIPELINE_READY_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 30.0
_RESTART_PAUSES_S = (1.0, 2.0, 5.0, 15.0)
_PORTS_FOR_TRIALS = (20_000, 32_000)
_OWN_CHANCE = random.SystemRandom()
"""Processes that are seeded alike, as tests are, would draw the same ports at the same time."""
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What a cluster on one machine is started with.

    `configuration` maps keys of broker.conf to texts and is the same for every broker; what distinguishes
    the brokers is added to it. `restart` tells whether a child that ends by itself is started again.
    `metadata_store_url` is where the brokers find each other; blank, it is a file in the directory.
    """

    directory: DataDirectory
    brokers: int = 1
    web_port: int = 8080
    broker_port: int = 6650
    configuration: Mapping[str, str] = field(default_factory=dict)
    pipeline: bool = True
    pipeline_trigger_s: float = 2.0
    restart: bool = True
    metadata_store_url: str = ""


class BrokerProcess(ChildProcess):
    """Broker number `index` of a cluster on one machine."""

    def __init__(self, index: int, settings: ClusterSettings) -> None:
        self.index = index
        self.web_port = settings.web_port + index
        self.broker_port = settings.broker_port + index
        self.configuration_file = settings.directory.configurations / f"broker-{index}.conf"
        self._settings = settings
        super().__init__(
            f"broker-{index}",
            ["pulsar_barycenter", "broker", "--config", str(self.configuration_file)],
            settings.directory.logs / f"broker-{index}.log",
        )

    @property
    def broker_id(self) -> str:
        return f"{self._settings.configuration.get('advertisedAddress') or _LOOPBACK}:{self.web_port}"

    @property
    def web_url(self) -> str:
        return f"http://{_LOOPBACK}:{self.web_port}"

    @property
    def service_url(self) -> str:
        return f"pulsar://{_LOOPBACK}:{self.broker_port}"

    def write_configuration(self) -> None:
        """Write this broker's broker.conf: the cluster's keys, and after them its own."""
        directory = self._settings.directory
        keys = {  # those after the settings are OWN_KEYS
            "clusterName": "standalone",
            # without a pipeline nobody reads the log, and none shall be missed; whoever wants it for later sets the key
            "loadReportLogEnabled": str(self._settings.pipeline).lower(),
            "advertisedAddress": _LOOPBACK,
            **{key: text for key, text in self._settings.configuration.items() if text},
            "bindAddress": _LOOPBACK,
            "webServicePort": str(self.web_port),
            "brokerServicePort": str(self.broker_port),
            "metadataStoreUrl": self._settings.metadata_store_url or f"sqlite:{directory.metadata}",
            "barycenterDataDir": str(directory.root),
        }
        text = "".join(f"{key}={value}\n" for key, value in keys.items())
        if not self.configuration_file.exists() or self.configuration_file.read_text() != text:
            self.configuration_file.write_text(text)


class StandaloneCluster:
    """Start, watch and stop the processes of a cluster on one machine.

    The caller holds the `DataDirectoryLock` of the directory.
    """

    def __init__(self, settings: ClusterSettings, *, tell: Callable[[str], None] = lambda text: None) -> None:
        self.settings = settings
        self.brokers = [BrokerProcess(index, settings) for index in range(settings.brokers)]
        self.pipeline = (
            ChildProcess(
                "pipeline",
                [
                    "pulsar_barycenter.pipeline.job",
                    *("--data", str(settings.directory.root)),
                    *("--trigger-seconds", str(settings.pipeline_trigger_s)),
                ],
                settings.directory.logs / "pipeline.log",
            )
            if settings.pipeline
            else None
        )
        self._tell = tell
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._expected_to_end: set[str] = set()
        self._start_again = asyncio.Event()

    @property
    def service_url(self) -> str:
        """The service URL that names every broker, so that clients survive the loss of any."""
        return "pulsar://" + ",".join(f"{_LOOPBACK}:{broker.broker_port}" for broker in self.brokers)

    @property
    def children(self) -> list[ChildProcess]:
        return [*self.brokers, *([self.pipeline] if self.pipeline else [])]

    async def start(self) -> None:
        """Start everything and return when the whole cluster serves.

        Raises:
            PortRangeError, PortInUseError, SharedPortError: before anything was started.
            ProcessFailedError: a child did not become ready; the others were ended.
        """
        self.check_ports()
        starts = [self.start_brokers(self.brokers)]
        if self.pipeline:
            starts.append(self.start_pipeline())
        try:
            await _all_or_first_error(starts)
        except BaseException:
            await self.kill()
            raise

    async def start_brokers(self, brokers: list[BrokerProcess]) -> None:
        """Start the given brokers side by side and return when each is ready."""
        await _all_or_first_error([self._start_broker(broker) for broker in brokers])

    async def start_pipeline(self) -> None:
        assert self.pipeline is not None
        await self._start(self.pipeline, _PIPELINE_READY_TIMEOUT_S)

    def start_again(self) -> None:
        """Start the brokers that stopped because they were asked to."""
        self._start_again.set()

    async def kill_broker(self, broker: BrokerProcess) -> None:
        """End a broker with SIGKILL, as a crash would; it is not started again."""
        self._expected_to_end.add(broker.name)
        await broker.kill()

    async def stop(self) -> None:
        """End in order: the brokers leave the cluster and drain side by side, then the pipeline finishes."""
        self._expected_to_end.update(child.name for child in self.children)
        self._cancel_watches()
        self._tell("stopping the brokers")
        await asyncio.gather(*(broker.terminate(timeout_s=_STOP_TIMEOUT_S) for broker in self.brokers))
        if self.pipeline:
            self._tell("stopping the pipeline")
            await self.pipeline.terminate(timeout_s=_STOP_TIMEOUT_S)

    async def kill(self) -> None:
        """End everything at once."""
        self._expected_to_end.update(child.name for child in self.children)
        self._cancel_watches()
        await asyncio.gather(*(child.kill() for child in self.children))

    def check_ports(self) -> None:
        """Find out before anything starts whether each broker can have its ports.

        Raises:
            PortRangeError, PortInUseError, SharedPortError: which, and what to do.
        """
        settings = self.settings
        for key in _TLS_PORTS if settings.brokers > 1 else ():
            if port := settings.configuration.get(key):
                raise SharedPortError(key, port, settings.brokers)
        last = max(settings.web_port, settings.broker_port) + settings.brokers - 1
        if last > _LAST_PORT or abs(settings.web_port - settings.broker_port) < settings.brokers:
            raise PortRangeError(settings.brokers, settings.web_port, settings.broker_port)
        for broker in self.brokers:
            _check_port(broker.web_port, "--web-port")
            _check_port(broker.broker_port, "--broker-port")

    async def _start_broker(self, broker: BrokerProcess) -> None:
        broker.write_configuration()
        await self._start(broker, _BROKER_READY_TIMEOUT_S)

    async def _start(self, child: ChildProcess, timeout_s: float) -> None:
        await child.start()
        await child.wait_ready(timeout_s=timeout_s)
        if self.settings.restart:
            self._watches[child.name] = asyncio.create_task(self._watch(child, timeout_s), name=f"watch {child.name}")

    async def _watch(self, child: ChildProcess, timeout_s: float) -> None:
        """Start `child` again whenever it ends by itself, with growing pauses while it keeps failing.

        A broker that ended with 0 was asked to (`POST /admin/v2/brokers/shutdown`, SIGTERM): it then waits for
        `start_again`.
        """
        failures = 0
        while True:
            code = await child.wait()
            if child.name in self._expected_to_end:
                return
            if code == 0 and isinstance(child, BrokerProcess):
                self._tell(f"{child.name} stopped as it was asked to; to start it again: kill -USR1 {os.getpid()}")
                self._start_again.clear()
                await self._start_again.wait()
            else:
                pause_s = _RESTART_PAUSES_S[min(failures, len(_RESTART_PAUSES_S) - 1)]
                after = f"ended with code {code}; starting it again in {pause_s:g} s"
                self._tell(f"{child.name} {after} (log: {child.log})")
                await asyncio.sleep(pause_s)
            try:
                await child.start()
                await child.wait_ready(timeout_s=timeout_s)
            except (ProcessFailedError, OSError):
                failures += 1
            else:
                failures = 0
                self._tell(f"{child.name} is back")

    def _cancel_watches(self) -> None:
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()


async def _all_or_first_error(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all of `works` side by side; when one fails, cancel the rest and raise its error as it is."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _check_port(port: int, option: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_LOOPBACK, port))
        except OSError:
            raise PortInUseError(_LOOPBACK, port, option) from None


def free_ports(count: int) -> list[int]:
    """Return `count` consecutive ports that are free now, from below those that the system gives to clients."""
    while True:
        start = _OWN_CHANCE.randrange(*_PORTS_FOR_TRIALS)
        ports = list(range(start, start + count))
        with suppress(PortInUseError):
            for port in ports:
                _check_port(port, "")
            return ports


def read_configuration(path: Path) -> dict[str, str]:
    """Return the keys of a broker.conf file as texts, in file order; `broker_conf` checks their values."""
    return read_pairs(read_conf_text(path), str(path))
