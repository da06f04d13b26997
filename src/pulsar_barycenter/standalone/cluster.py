"""A cluster on one machine: N broker processes, the pipeline process, and one data directory.

The parent starts the children, restarts those that fail, and ends them in order. Brokers find each other through the
metadata store, which is in the data directory if none is configured; no data passes through the parent.

Brokers do not need the pipeline: without it the leader decides by its own fold of the load reports. The pipeline's Java
takes much longer to start than a broker. Therefore the pipeline starts when the brokers serve clients, so that it does
not slow down their start.
"""

import asyncio
import os
import random
import socket
import time
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pulsar_barycenter.config.broker_conf import read_conf_text, read_pairs
from pulsar_barycenter.standalone.data_directory import DataDirectory
from pulsar_barycenter.standalone.errors import (
    NotReadyError,
    PortInUseError,
    PortRangeError,
    ProcessFailedError,
    SharedPortError,
)
from pulsar_barycenter.standalone.process import ChildProcess
from pulsar_barycenter.standalone.progress import SilentProgress, StartProgress
from pulsar_barycenter.standalone.ready import BrokerReady, ClusterReady, parse_broker_ready
from pulsar_barycenter.standalone.restarts import Restart, RestartNote

OWN_KEYS = ("bindAddress", "webServicePort", "brokerServicePort", "metadataStoreUrl", "barycenterDataDir")
"""Keys that a cluster on one machine always sets itself; values in the configuration are ignored."""
_TLS_PORTS = ("brokerServicePortTls", "webServicePortTls")
_LOOPBACK = "127.0.0.1"
_BROKER_READY_TIMEOUT_S = 60.0
_PIPELINE_READY_TIMEOUT_S = 600.0
_DID_NOT_START = (ProcessFailedError, NotReadyError, OSError)
"""What is raised if a child does not become ready."""
"""Ten times the start time on a busy machine: nothing waits for the pipeline, and a killed start has to begin again."""
_STOP_TIMEOUT_S = 30.0
_RESTART_PAUSES_S = (1.0, 2.0, 5.0, 15.0, 60.0)
"""The last delay applies to all later attempts."""
_CHOSEN_BY_SYSTEM = 0
_PORTS_FOR_TRIALS = (20_000, 32_000)
_OWN_CHANCE = random.SystemRandom()
"""Not the global generator: processes with the same seed, as in tests, would choose the same ports."""
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings of a cluster on one machine.

    `configuration` maps keys of broker.conf to texts, the same for all brokers; the cluster adds the keys that differ
    between brokers. Broker number i (from 0 on) listens on `web_port + i` and `broker_port + i`. If a port is 0, the
    system chooses a port for each broker; the broker keeps it when it is restarted. `restart` says whether a child that
    fails is restarted. `metadata_store_url` is the store of the brokers; blank means a file in the directory.
    `ephemeral` says that the caller deletes the directory when the cluster has stopped; the cluster only reports this
    in its ready message.
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
    ephemeral: bool = False


class BrokerProcess(ChildProcess):
    """Broker number `index` of a cluster on one machine."""

    def __init__(self, index: int, settings: ClusterSettings) -> None:
        self.index = index
        self.web_port = settings.web_port and settings.web_port + index
        self.broker_port = settings.broker_port and settings.broker_port + index
        self.ready: BrokerReady | None = None
        """The broker's last ready line, None before the first one."""
        self.configuration_file = settings.directory.configurations / f"broker-{index}.conf"
        self._settings = settings
        super().__init__(
            f"broker-{index}",
            ["pulsar_barycenter", "broker", "--config", str(self.configuration_file), "--json"],
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

    def serves(self, line: str) -> None:
        """Record the ports on which the broker serves clients; `line` is the line that it printed when it became
        ready.
        """
        self.take_ports(parse_broker_ready(line))

    def take_ports(self, ready: BrokerReady) -> None:
        """Record the ports of a broker that serves clients, so that the broker listens on the same ports when it is
        restarted.
        """
        self.ready = ready
        self.web_port = self.web_port or _port_of(self.ready.web_url)
        self.broker_port = self.broker_port or _port_of(self.ready.broker_url)

    def write_configuration(self) -> None:
        """Write this broker's broker.conf: the keys of the cluster, then the keys that differ between brokers, which
        override them.
        """
        directory = self._settings.directory
        keys = {  # those after the settings are OWN_KEYS
            "clusterName": "standalone",
            # without a pipeline no process reads the report log; an operator who wants it for later sets the key
            "loadReportLogEnabled": str(self._settings.pipeline).lower(),
            "advertisedAddress": _LOOPBACK,
            **{key: text for key, text in self._settings.configuration.items() if text},
            "bindAddress": _LOOPBACK,
            "webServicePort": str(self.web_port),
            "brokerServicePort": str(self.broker_port),
            "metadataStoreUrl": self._settings.metadata_store_url or f"sqlite:{directory.metadata}",
            "barycenterDataDir": str(directory.root),
        }
        if self.ready is not None:
            chosen = {"brokerServicePortTls": self.ready.broker_url_tls, "webServicePortTls": self.ready.web_url_tls}
            keys |= {key: str(_port_of(url)) for key, url in chosen.items() if url and _is_chosen(keys.get(key, ""))}
        text = "".join(f"{key}={value}\n" for key, value in keys.items())
        if not self.configuration_file.exists() or self.configuration_file.read_text() != text:
            self.configuration_file.write_text(text)


class StandaloneCluster:
    """Starts, watches and stops the processes of a cluster on one machine.

    The caller must hold the `DataDirectoryLock` of the directory until the cluster has stopped.
    """

    def __init__(self, settings: ClusterSettings, *, progress: StartProgress | None = None) -> None:
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
        self._progress = progress or SilentProgress()
        self._restart_note = RestartNote(settings.directory)
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._expected_to_end: set[str] = set()
        self._start_again = asyncio.Event()

    @property
    def service_url(self) -> str:
        """The service URL with all brokers, so that clients can reconnect if one fails."""
        return "pulsar://" + ",".join(f"{_LOOPBACK}:{broker.broker_port}" for broker in self.brokers)

    @property
    def children(self) -> list[ChildProcess]:
        return [*self.brokers, *([self.pipeline] if self.pipeline else [])]

    def ready(self) -> ClusterReady:
        """Return the ready message of the cluster (its URLs and brokers). Call this only when all brokers serve
        clients.
        """
        brokers = [broker.ready for broker in self.brokers if broker.ready is not None]
        return ClusterReady.of(
            brokers,
            data=str(self.settings.directory.root),
            pid=os.getpid(),
            has_pipeline=self.pipeline is not None,
            ephemeral=self.settings.ephemeral,
        )

    async def serve(self) -> None:
        """Start the brokers and return when all of them serve clients. If the call is cancelled, brokers may run: call
        `stop` then.

        Raises:
            PortRangeError, PortInUseError, SharedPortError: a port cannot be used; nothing was started.
            NotReadyError, ProcessFailedError: a broker did not become ready; all brokers were ended.
        """
        self.check_ports()
        try:
            await self.start_brokers(self.brokers)
        except Exception:
            await self.kill()
            raise

    def bring_up_pipeline(self) -> None:
        """Begin to start the pipeline, if the cluster has one, and return without waiting for it.

        The result of the start is shown as progress. After a failed start the pipeline is started again if
        `ClusterSettings.restart` is True.
        """
        if self.pipeline is not None:
            self._watches[self.pipeline.name] = asyncio.create_task(self._bring_up(self.pipeline), name="pipeline")

    async def start(self) -> None:
        """Start brokers and pipeline in parallel, and return when all are ready.

        Raises:
            PortRangeError, PortInUseError, SharedPortError: a port cannot be used; nothing was started.
            NotReadyError, ProcessFailedError: a child did not become ready; all children were ended.
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
        """Start the given brokers in parallel and return when all are ready. If one fails, cancel the start of the
        others and raise its error; brokers that run already are not ended here.
        """
        await _all_or_first_error([self._start_broker(broker) for broker in brokers])

    async def start_pipeline(self) -> None:
        assert self.pipeline is not None
        await self._start(self.pipeline, _PIPELINE_READY_TIMEOUT_S)

    def start_again(self) -> None:
        """Start again those brokers that an operator has stopped by a request or SIGTERM. Return without waiting for
        them.
        """
        self._start_again.set()

    async def kill_broker(self, broker: BrokerProcess) -> None:
        """End a broker with SIGKILL, like a crash; it is not restarted."""
        self._expected_to_end.add(broker.name)
        await broker.kill()

    async def stop(self) -> None:
        """End the cluster: first all brokers leave it, in parallel, and end; then the pipeline is ended. A process that
        does not end within _STOP_TIMEOUT_S seconds is killed.
        """
        self._expected_to_end.update(child.name for child in self.children)
        await self._cancel_watches()
        self._progress.event("stopping the brokers")
        await asyncio.gather(*(broker.terminate(timeout_s=_STOP_TIMEOUT_S) for broker in self.brokers))
        if self.pipeline:
            self._progress.event("stopping the pipeline")
            await self.pipeline.terminate(timeout_s=_STOP_TIMEOUT_S)

    async def kill(self) -> None:
        """End all processes of the cluster with SIGKILL, without letting the brokers leave the cluster first."""
        self._expected_to_end.update(child.name for child in self.children)
        await self._cancel_watches()
        await asyncio.gather(*(child.kill() for child in self.children))

    def check_ports(self) -> None:
        """Check, before anything starts, that each broker can use its ports.

        Raises:
            PortRangeError, PortInUseError, SharedPortError: a port cannot be used; the text says what to do.
        """
        settings = self.settings
        for key in _TLS_PORTS if settings.brokers > 1 else ():
            port = settings.configuration.get(key, "").strip()
            if port and not _is_chosen(port):
                raise SharedPortError(key, port, settings.brokers)
        first = [port for port in (settings.web_port, settings.broker_port) if port != _CHOSEN_BY_SYSTEM]
        last = max(first, default=0) + settings.brokers - 1
        if last > _LAST_PORT or (len(first) > 1 and abs(first[0] - first[1]) < settings.brokers):
            raise PortRangeError(settings.brokers, settings.web_port, settings.broker_port)
        for broker in self.brokers:
            for needed, option in ((broker.web_port, "--web-port"), (broker.broker_port, "--broker-port")):
                if needed != _CHOSEN_BY_SYSTEM:
                    _check_port(needed, option)

    async def _start_broker(self, broker: BrokerProcess) -> None:
        await self._start(broker, _BROKER_READY_TIMEOUT_S)

    async def _start(self, child: ChildProcess, timeout_s: float) -> None:
        began_s = time.monotonic()
        self._progress.phase(child.name, "starting")
        try:
            await self._start_process(child, timeout_s, show=True)
        except _DID_NOT_START:
            self._progress.done(child.name, f"failed after {time.monotonic() - began_s:.1f} s")
            raise
        self._progress.done(child.name, f"ready after {time.monotonic() - began_s:.1f} s")
        if self.settings.restart:
            watch = asyncio.create_task(self._keep_running(child, timeout_s), name=f"watch {child.name}")
            self._watches[child.name] = watch

    async def _start_process(self, child: ChildProcess, timeout_s: float, *, show: bool) -> None:
        if isinstance(child, BrokerProcess):
            child.write_configuration()
        await child.start()
        on_line = partial(self._progress.phase, child.name) if show else _ignore
        line = await child.wait_ready(timeout_s=timeout_s, on_line=on_line)
        if isinstance(child, BrokerProcess):
            child.serves(line)

    async def _bring_up(self, pipeline: ChildProcess) -> None:
        """Start the pipeline while brokers serve clients. Show a failed start as progress; then start it again if
        `ClusterSettings.restart` is True.
        """
        try:
            await self._start(pipeline, _PIPELINE_READY_TIMEOUT_S)
        except _DID_NOT_START as error:
            self._progress.event(f"the brokers serve without the pipeline: {error}")
            if self.settings.restart:
                await self._keep_running(pipeline, _PIPELINE_READY_TIMEOUT_S, failure="did not start")

    async def _keep_running(self, child: ChildProcess, timeout_s: float, *, failure: str = "") -> None:
        """Restart `child` whenever it fails, with growing delays while it keeps failing.

        If `child` has failed before the call, `failure` describes how, and `child` is restarted first. If `failure` is
        blank, `child` runs. A broker that ended with code 0 stopped on request (`POST /admin/v2/brokers/shutdown`,
        SIGTERM): it is started again only by `start_again`.
        """
        failures = 1 if failure else 0
        since_ms = _now_ms()
        while True:
            if not failures:
                code = await child.wait()
                if child.name in self._expected_to_end:
                    return
                failure, since_ms = f"ended with code {code}", _now_ms()
                if code == 0 and isinstance(child, BrokerProcess):
                    await self._until_asked_for(child)
                    failure = ""
            if failure:
                pause_s = _RESTART_PAUSES_S[min(failures, len(_RESTART_PAUSES_S) - 1)]
                if child is self.pipeline:
                    self._note_restart(since_ms, failures + 1, failure)
                self._progress.event(f"{child.name} {failure}; restarting it in {pause_s:g} s (log: {child.log})")
                await asyncio.sleep(pause_s)
            try:
                await self._start_process(child, timeout_s, show=False)
            except NotReadyError:
                failures += 1
                failure = f"was not ready within {timeout_s:g} s"
            except (ProcessFailedError, OSError):
                failures += 1
                failure = "failed to start" if child.exit_code is None else f"ended with code {child.exit_code}"
            else:
                failures = 0
                if child is self.pipeline:
                    self._restart_note.remove()
                self._progress.event(f"{child.name} is back")

    async def _until_asked_for(self, broker: BrokerProcess) -> None:
        again = f"kill -USR1 {os.getpid()}"
        self._progress.event(f"{broker.name} stopped on request; to start it again: {again}")
        self._start_again.clear()
        await self._start_again.wait()

    def _note_restart(self, since_ms: int, attempt: int, failure: str) -> None:
        self._restart_note.write(
            Restart(
                by="barycenter standalone",
                pid=os.getpid(),
                since_ms=since_ms,
                attempt=attempt,
                reason=f"the process before {failure}",
            )
        )

    async def _cancel_watches(self) -> None:
        watches = list(self._watches.values())
        self._watches.clear()
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        self._restart_note.remove()


def _ignore(line: str) -> None:
    pass


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _is_chosen(port: str) -> bool:
    """Return whether the system chooses the port: its value in the configuration is 0."""
    return port.strip() == str(_CHOSEN_BY_SYSTEM)


def _port_of(url: str | None) -> int:
    """Return the port in the URL of a broker."""
    return int((url or "").rpartition(":")[2])


async def _all_or_first_error(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all of `works` in parallel; if one of them fails, cancel the others and raise the first error unchanged."""
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
    """Return `count` consecutive ports that no process uses now. They are below the range from which the system takes
    ports for outgoing connections.
    """
    while True:
        start = _OWN_CHANCE.randrange(*_PORTS_FOR_TRIALS)
        ports = list(range(start, start + count))
        with suppress(PortInUseError):
            for port in ports:
                _check_port(port, "")
            return ports


def read_configuration(path: Path) -> dict[str, str]:
    """Return the keys of a broker.conf file as texts, in file order; their values are not checked here
    (`config.broker_conf` does that).
    """
    return read_pairs(read_conf_text(path), str(path))
