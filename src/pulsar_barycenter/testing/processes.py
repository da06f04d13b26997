"""Brokers of a test cluster as processes, as `barycenter standalone` runs them."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pulsar_barycenter.standalone.cluster import BrokerProcess, ClusterSettings, StandaloneCluster

_STOP_TIMEOUT_S: Final = 30.0


class BrokerAsProcess:
    """Implements `RunningBroker` with a broker that is a process of its own."""

    def __init__(self, cluster: StandaloneCluster, process: BrokerProcess) -> None:
        self._cluster = cluster
        self._process = process

    @property
    def index(self) -> int:
        return self._process.index

    @property
    def service_url(self) -> str:
        return self._process.service_url

    @property
    def web_url(self) -> str:
        return self._process.web_url

    @property
    def log(self) -> Path:
        return self._process.log

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    async def start(self) -> None:
        if not self.is_running:
            await self._cluster.start_brokers([self._process])

    async def stop(self) -> None:
        await self._process.terminate(timeout_s=_STOP_TIMEOUT_S)

    async def kill(self) -> None:
        await self._cluster.kill_broker(self._process)

    def pause(self) -> None:
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.signal(signal.SIGCONT)


class ProcessBrokers:
    """Implements `Brokers` with brokers that are processes; the caller holds the lock of their data directory."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._cluster = StandaloneCluster(settings)
        self._brokers = [BrokerAsProcess(self._cluster, process) for process in self._cluster.brokers]

    @property
    def brokers(self) -> Sequence[BrokerAsProcess]:
        return self._brokers

    async def start(self) -> None:
        await self._cluster.start()

    async def stop(self) -> None:
        await self._cluster.stop()
        await self._cluster.kill()  # what a process that ended left running

    async def kill(self) -> None:
        await self._cluster.kill()
