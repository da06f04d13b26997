"""Reads a cluster by asking its brokers, as `collect` does; nothing is written but a small folder that goes at the end.

The brokers are asked for their load, their settings and the rules of administrators. All requests are GETs.
"""

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.admin.client import NewClient
from pulsar_barycenter.admin.client_conf import ClientConf
from pulsar_barycenter.balancer.facts import FactsError, one_cluster, policies_of
from pulsar_barycenter.load.policies import ClusterPolicies
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.observer.collecting import Collection, open_collector
from pulsar_barycenter.observer.collector import CollectError, Collector
from pulsar_barycenter.observer.recorded_settings import SETTINGS_FILE, read_settings
from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.watch.sources.error import WatchError
from pulsar_barycenter.watch.watched_cluster import MINUTE_MS, Beside, Look

_POLICIES_MS: Final = 5 * MINUTE_MS
_REQUEST_TIMEOUT_S: Final = 20.0


class _Reports:
    """A `ReportLog` that keeps the reports of one round of the collector in memory."""

    def __init__(self) -> None:
        self.reports: list[LocalBrokerData] = []

    def append(self, report: LocalBrokerData) -> None:
        self.reports.append(report)

    def close(self) -> None:
        pass


class LiveCluster:
    """A source of a running cluster: `collector` queries its brokers and appends their reports to `log`; `folder` has
    the files that the collector keeps.
    """

    def __init__(
        self, urls: tuple[str, ...], collector: Collector, log: _Reports, cluster: AdminCluster, folder: Path
    ) -> None:
        self._urls = urls
        self._collector = collector
        self._log = log
        self._cluster = cluster
        self._folder = folder
        self._policies, self._policies_ms = ClusterPolicies(), 0
        self._troubles: list[str] = []

    @property
    def name(self) -> str:
        return ", ".join(self._urls)

    def problems(self) -> tuple[str, ...]:
        return tuple(self._troubles)

    async def read(self) -> list[Look]:
        """Query all brokers once, and return what is new.

        Raises:
            WatchError: the brokers cannot be listed.
        """
        self._log.reports.clear()
        try:
            found = await self._collector.collect()
        except CollectError as error:
            raise WatchError(str(error)) from error
        reports = tuple(self._log.reports)
        self._troubles = [f"{broker} tells no load: {why}" for broker, why in found.failed.items()]
        self._troubles += [found.ownership] if found.ownership else []
        records = await asyncio.to_thread(read_settings, self._folder / SETTINGS_FILE)
        record = records[-1] if records else None
        beside = Beside(
            cluster=record.cluster if record else "",
            leader=record.leader if record else "",
            settings=record.settings if record else None,
            policies=await self._read_policies(reports),
        )
        return [Look(found.at, reports, frozenset(self._collector.addresses), beside)]

    async def _read_policies(self, reports: Sequence[LocalBrokerData]) -> ClusterPolicies:
        now_ms = _now_ms()
        if now_ms - self._policies_ms < _POLICIES_MS:
            return self._policies
        namespaces = {bundle.rpartition("/")[0] for report in reports for bundle in report.bundles}
        try:
            self._policies = await policies_of(self._cluster, namespaces)
            self._policies_ms = now_ms
        except (NotNowError, RefusedError, TimeoutError, msgspec.ValidationError) as error:
            self._troubles.append(
                f"the rules of administrators cannot be read, so rounds are recomputed without them: {error}"
            )
        return self._policies


@asynccontextmanager
async def live_cluster(
    new_client: NewClient,
    conf: ClientConf,
    urls: tuple[str, ...],
    *,
    interval_s: float,
    service_url: str,
) -> AsyncIterator[LiveCluster]:
    """Open the brokers at `urls` as a source; close it at the end.

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
                new_client, conf, wanted, log, lambda _document: None, subscription=name
            ) as collector:
                yield LiveCluster(urls, collector, log, AdminCluster(client, urls[0]), Path(folder))
    finally:
        await client.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
