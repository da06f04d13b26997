"""A cluster on an event loop in a thread of its own, for browsers that are driven from the thread of the test."""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.load.reports.load_over_time import LoadTables
from support.rest_cluster import RestCluster

T = TypeVar("T")
DEADLINE_S = 60


class ServedCluster:
    """Brokers that run what their configuration names; `url` is that of one that does not lead, if there is one."""

    def __init__(
        self, folder: Path, brokers: int = 2, *, load_tables: LoadTables | None = None, **settings: Any
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._count = brokers
        self._load_tables = load_tables
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="served-cluster", daemon=True)
        self.cluster: RestCluster

    def __enter__(self) -> "ServedCluster":
        self._thread.start()
        self.cluster = self.run(self._start())
        return self

    async def _start(self) -> RestCluster:
        cluster = RestCluster(self._load_tables)
        for number in range(self._count):
            await cluster.add(
                configured_load_manager,
                broker_shutdown_timeout_ms=0,
                barycenter_data_dir=str(self._folder / str(number)),
                **self._settings,
            )
        return cluster

    @property
    def url(self) -> str:
        brokers = sorted(self.cluster.brokers, key=lambda broker: broker.leadership.is_leader())
        return str(brokers[0].urls.web_url)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop of the brokers and return what it returns."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def get(self, path: str, **query: Any) -> Any:
        """Return the JSON that the cluster answers to a GET."""
        return self.run(self.cluster.expect(200, "GET", path, **query)).json

    def report(self) -> None:
        """Let every broker report its load, so that the leader has its bundles."""

        async def all_report() -> None:
            for broker in self.cluster.brokers:
                await broker.control.load_manager.write_report(force=True)

        self.run(all_report())

    def __exit__(self, *_: object) -> None:
        try:
            self.run(self.cluster.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(DEADLINE_S)
            self._loop.close()
