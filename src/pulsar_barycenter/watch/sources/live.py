"""Reads a cluster by asking its brokers, as `collect` does.

Nothing is written but a small folder that is deleted at the end. The brokers are asked for their load, their settings
and the rules of administrators. All requests are GETs.
"""

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from pulsar_barycenter.admin.client import NewClient
from pulsar_barycenter.admin.client_conf import ClientConf
from pulsar_barycenter.balancer.facts import FactsError, one_cluster
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.observer.collecting import Collection, open_collector
from pulsar_barycenter.observer.collector import CollectError, Collector
from pulsar_barycenter.observer.recorded_settings import SETTINGS_FILE, read_settings
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.policies_read import PoliciesOfCluster
from pulsar_barycenter.watch.sources.error import WatchError
from pulsar_barycenter.watch.watched_cluster import Beside, Look

_REQUEST_TIMEOUT_S: Final = 20.0


class _Reports:
    """A `ReportLog` that keeps the reports in memory; `LiveCluster` empties it before each round of the collector."""

    def __init__(self) -> None:
        self.reports: list[LocalBrokerData] = []

    def append(self, report: LocalBrokerData) -> None:
        self.reports.append(report)

    def close(self) -> None:
        pass


class LiveCluster:
    """A source that reads the load of a running cluster: `collector` queries its brokers and appends their reports to
    `log`; `folder` is the folder into which the collector writes the recorded settings.
    """

    def __init__(self, urls: tuple[str, ...], collector: Collector, log: _Reports, folder: Path) -> None:
        self._urls = urls
        self._collector = collector
        self._log = log
        self._folder = folder
        self._troubles: list[str] = []

    @property
    def name(self) -> str:
        return ", ".join(self._urls)

    def problems(self) -> tuple[str, ...]:
        return tuple(self._troubles)

    async def read(self) -> list[Look]:
        """Query all brokers once, and return one look with the reports of this round.

        Raises:
            WatchError: the brokers cannot be listed.
        """
        self._log.reports.clear()
        try:
            found = await self._collector.collect()
        except CollectError as error:
            raise WatchError(str(error)) from error
        reports = tuple(self._log.reports)
        self._troubles = [f"{broker} reports no load: {why}" for broker, why in found.failed.items()]
        self._troubles += [found.ownership] if found.ownership else []
        if found.policies:
            self._troubles.append(
                f"the rules of administrators cannot be read, so rounds are recomputed with those read before, if any: "
                f"{found.policies}"
            )
        records = await asyncio.to_thread(read_settings, self._folder / SETTINGS_FILE)
        record = records[-1] if records else None
        beside = Beside(
            cluster=record.cluster if record else "",
            leader=record.leader if record else "",
            settings=record.settings if record else None,
            policies=self._collector.policies,
        )
        return [Look(found.at, reports, frozenset(self._collector.addresses), beside)]


@asynccontextmanager
async def live_cluster(
    new_client: NewClient,
    conf: ClientConf,
    urls: tuple[str, ...],
    *,
    interval_s: float,
    service_url: str,
) -> AsyncIterator[LiveCluster]:
    """Open the running cluster with brokers at `urls` as a source, and close it when the block ends. `interval_s` is
    the time between two readings. `service_url` is needed if brokers run the extensible load manager, else "".

    Raises:
        WatchError: no broker answers, or they belong to several clusters.
    """
    client = new_client(timeout_s=_REQUEST_TIMEOUT_S)
    try:
        try:
            await one_cluster({url: AdminCluster(client, url) for url in urls})
        except FactsError as error:
            raise WatchError(str(error)) from error
        with tempfile.TemporaryDirectory(prefix="barycenter-watch-") as folder:
            wanted = Collection(urls, Path(folder), interval_s, 0, 1.0, service_url or None)
            name = f"barycenter-watch-{socket.gethostname()}-{os.getpid()}"
            log = _Reports()
            async with open_collector(
                *(new_client, conf, wanted, log, lambda _document: None),
                subscription=name,
                new_policies=PoliciesOfCluster,
            ) as collector:
                yield LiveCluster(urls, collector, log, Path(folder))
    finally:
        await client.close()
