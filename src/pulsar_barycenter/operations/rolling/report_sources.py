"""Reads load reports of a running cluster where they are visible: at the leader, or as brokers published them.

- Barycenter: the leader's snapshot has the reports that it decides by.
- Apache Pulsar, modular or simple load manager: a broker returns its report with the time of its last publication.
- Apache Pulsar, extensible load manager: the leader gets reports from a topic that is not persistent, and so does
  `observer.extensible_topics` with a service URL. Without a service URL the reports are not visible.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, TopBundlesLoadData
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats
from pulsar_barycenter.load.snapshot.document import SnapshotDocument, owned_bundles
from pulsar_barycenter.observer.answers import has_no_report
from pulsar_barycenter.observer.collector import understood
from pulsar_barycenter.operations.admin_cluster import AdminCluster, translated
from pulsar_barycenter.operations.executor import NotNowError, RefusedError
from pulsar_barycenter.operations.rolling.reports import SeenReport, Where

LOAD_REPORT: Final = "/admin/v2/broker-stats/load-report"


class ReportSource(Protocol):
    """A source from which a roll reads the brokers' load reports. Methods raise NotNowError or RefusedError."""

    async def report(self, broker: str) -> SeenReport: ...

    async def loads(self, brokers: Sequence[str]) -> Mapping[str, float]:
        """Return the throughput in bytes/s, in + out, of at least the bundles on `brokers`, from the newest reports;
        bundles without a report are left out.
        """
        ...


class LeaderReports:
    """A source of load reports: the snapshot of Barycenter's leader; `url` is the web address of any broker."""

    def __init__(self, client: AdminClient, url: str) -> None:
        self._client = client
        self._url = url

    async def report(self, broker: str) -> SeenReport:
        document = await self._document()
        if document.extensible is not None:
            load = document.extensible.loads.get(broker)
            return SeenReport(Where.LEADER) if load is None else SeenReport(Where.LEADER, load.reported_at)
        report = document.brokers.get(broker)
        return SeenReport(Where.LEADER) if report is None else _seen(Where.LEADER, report)

    async def loads(self, brokers: Sequence[str]) -> Mapping[str, float]:
        document = await self._document()
        return {bundle: _throughput(stats) for _, bundle, stats in owned_bundles(document) if stats is not None}

    async def _document(self) -> SnapshotDocument:
        try:
            answer = await self._client.call("GET", self._url, "/barycenter/v1/snapshot")
            return msgspec.convert(answer, SnapshotDocument, strict=False)
        except AdminRequestError as error:
            raise translated(error) from error
        except msgspec.ValidationError as error:
            raise RefusedError(f"the leader's snapshot cannot be read: {error}") from error


class PublishedReports:
    """A source of load reports: the report that each broker of Apache Pulsar returns at its own address, with the time
    at which the broker last published it.
    """

    def __init__(self, client: AdminClient, cluster: AdminCluster) -> None:
        self._client = client
        self._cluster = cluster

    async def report(self, broker: str) -> SeenReport:
        report = await report_of(self._client, await self._cluster.address(broker), broker)
        # the bundles are those of now, not those of the publication
        return SeenReport(Where.PUBLISHED, report.last_update, life_of(report))

    async def loads(self, brokers: Sequence[str]) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for broker in brokers:
            report = await report_of(self._client, await self._cluster.address(broker), broker)
            found |= {bundle: _throughput(stats) for bundle, stats in report.last_stats.items()}
        return found


class Topics(Protocol):
    """The part of `observer.extensible_topics.PulsarExtensibleTopics` that a roll uses: the data of brokers with the
    extensible load manager, by broker id.
    """

    @property
    def loads(self) -> Mapping[str, BrokerLoadData]: ...
    @property
    def tops(self) -> Mapping[str, TopBundlesLoadData]: ...


class TopicReports:
    """A source of load reports: the topics in which brokers with the extensible load manager publish. The leader reads
    the same topics, so a report that has arrived here has arrived at the leader, too.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def report(self, broker: str) -> SeenReport:
        load = self._topics.loads.get(broker)
        return SeenReport(Where.PUBLISHED, 0 if load is None else load.reported_at or load.updated_at)

    async def loads(self, brokers: Sequence[str]) -> Mapping[str, float]:
        tops = self._topics.tops.values()
        return {load.bundle_name: _throughput(load.stats) for top in tops for load in top.top_bundles_load_data}


class UnseenReports:
    """The source for a cluster whose load reports cannot be read: `report` returns a report without content, and
    `loads` an empty mapping.
    """

    async def report(self, broker: str) -> SeenReport:
        return SeenReport(Where.UNSEEN)

    async def loads(self, brokers: Sequence[str]) -> Mapping[str, float]:
        return {}


async def unseen_reports() -> ReportSource:
    """Return the source for a cluster whose load reports cannot be read: `UnseenReports`."""
    return UnseenReports()


async def report_of(client: AdminClient, address: str, broker: str) -> LocalBrokerData:
    """Return the load report of the broker at an address.

    Raises:
        NotNowError: the broker returns no report now. RefusedError: it will not return one, for example because it runs
            the extensible load manager.
    """
    try:
        answer = await client.call("GET", address, LOAD_REPORT)
        return understood(broker, answer or {})
    except AdminRequestError as error:
        if has_no_report(error):
            raise RefusedError(
                f"broker {broker} returns no load report, because this broker runs the extensible load manager, which"
                " publishes its load in topics; set the same load manager on all brokers"
            ) from error
        raise translated(error) from error
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise NotNowError(f"the load report of {broker} cannot be read: {error}") from error


def life_of(report: LocalBrokerData) -> str:
    """Return the identity of the broker process that wrote a load report; blank if the report does not have it."""
    return report.incarnation or str(report.start_timestamp or "")


def _seen(where: Where, report: LocalBrokerData) -> SeenReport:
    bundles = frozenset(report.last_stats)
    return SeenReport(where, report.last_update, life_of(report), bundles, lists_bundles=True)


def _throughput(stats: NamespaceBundleStats) -> float:
    return stats.msg_throughput_in + stats.msg_throughput_out
