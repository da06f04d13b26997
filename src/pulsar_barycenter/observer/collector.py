"""Collect the load of a running cluster, of Apache Pulsar or Barycenter, into a report log.

Each round asks every live broker for its load report over the admin API and appends it to the log that the pipeline
reads, as that broker's own report. A broker of Apache Pulsar does not number its reports and dates them by their last
write to the metadata store, up to a quarter of an hour ago, though the figures are of the moment of asking: what is
collected is therefore dated by the collector's clock, and numbered by the collector. Two collectors of one cluster
count every sample twice, so run one.

Brokers of the extensible load manager have no report to ask for: their topics tell their loads and heaviest bundles,
and the ownership channel all bundles that each owns. What was collected of them is also kept as a snapshot.

Bundle figures change once per `statsUpdateFrequencyInSecs` of the brokers (60 by default): asking more often repeats
samples.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol

import msgspec
from yarl import URL

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.cluster_logs.load_report_log import ReportLog
from pulsar_barycenter.load.managers import ManagerKind, short_name
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData, BrokerLookupData, TopBundlesLoadData
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.reports.simple_load_report import as_local_broker_data, decode_load_report
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.load.snapshot.extensible_snapshot import as_report
from pulsar_barycenter.observer.addresses import address_of
from pulsar_barycenter.observer.answers import has_no_report, without_report
from pulsar_barycenter.observer.collected_snapshot import collected_snapshot
from pulsar_barycenter.observer.report_numbers import OF_APACHE_PULSAR, ReportNumbers

_AT_ONCE: Final = 16
_NO_SUCH_PATH: Final = (404, 405)
MOST_BROKERS: Final = 10_000
"""So many brokers are asked; a cluster that names more is no cluster."""
_Ids = Annotated[list[Annotated[str, msgspec.Meta(max_length=2_048)]], msgspec.Meta(max_length=MOST_BROKERS)]
_PLACE_KEY: Final = "loadManagerServiceUnitStateTableViewClassName"
_IN_TOPIC: Final = "ServiceUnitStateTableViewImpl"
_IN_STORE: Final = "ServiceUnitStateMetadataStoreTableViewImpl"
_BY_LISTS: Final = "a bundle counts for the broker that lists it as one of its heaviest, and others for none"
_NOTHING_YET: Final = (
    "it has published no load since its topics are read; one without much change does so once in "
    "loadBalancerReportUpdateMaxIntervalMinutes (15 by default)"
)


class CollectError(Exception):
    """The cluster cannot be asked; the text says what was tried."""


class OwnershipUnreadableError(Exception):
    """The records of the ownership channel cannot be read to their end; the text says why."""


class ExtensibleTopics(Protocol):
    """What brokers of the extensible load manager publish, by broker id."""

    @property
    def loads(self) -> Mapping[str, BrokerLoadData]: ...

    @property
    def tops(self) -> Mapping[str, TopBundlesLoadData]: ...

    def owners(self) -> Mapping[str, str]:
        """Return the broker that owns each bundle, by the ownership channel where it is a topic; blocks.

        Raises:
            OwnershipUnreadableError: it cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Round:
    """What one round found. `failed` says of each broker without a report why; times are epoch ms.

    `owned` counts the bundles whose owner is known by the ownership channel of the extensible load manager; None: there
    is none, or it could not be read, and `ownership` says why.
    """

    at: int
    brokers: int
    bundles: int
    failed: dict[str, str] = field(default_factory=dict)
    owned: int | None = None
    ownership: str = ""


def admin_urls(text: str) -> tuple[str, ...]:
    """Return the web addresses that `text` names as Pulsar's tools take them: `http://host:8080,host:8080`.

    Raises:
        ValueError: these are none; the text says why.
    """
    scheme, separator, rest = text.strip().partition("://")
    if not separator or scheme not in ("http", "https"):
        raise ValueError(f"a web address begins with http:// or https://, as http://broker-1:8080, not {text!r}")
    urls = tuple(f"{scheme}://{host.strip().rstrip('/')}" for host in rest.split(","))
    for url in urls:
        try:
            is_address = URL(url).host is not None
        except ValueError:
            is_address = False
        if not is_address:
            raise ValueError(f"{url} is no web address, as http://broker-1:8080 is")
    return urls


class Collector:
    """Asks the cluster at `urls` (`admin_urls`), web addresses of some of its brokers or of a proxy before them.

    The first that answers tells which brokers there are. Once it is known which these are, any of them may tell.
    """

    def __init__(
        self,
        urls: Sequence[str],
        client: AdminClient,
        log: ReportLog,
        numbers: ReportNumbers,
        *,
        clock_ms: Callable[[], int],
        extensible: Callable[[], ExtensibleTopics] | None = None,
        keep_snapshot: Callable[[SnapshotDocument], None] = lambda _document: None,
    ) -> None:
        """`extensible` is asked once brokers turn out to run that load manager, which has no load report to ask for;
        `keep_snapshot` gets what was collected of them in a round."""
        self._given = list(urls)
        self._address: dict[str, str] = {}
        self._client = client
        self._log = log
        self._numbers = numbers
        self._clock_ms = clock_ms
        self._open_topics = extensible
        self._keep_snapshot = keep_snapshot
        self._topics: ExtensibleTopics | None = None

    async def collect(self) -> Round:
        """Ask all brokers once and append their reports.

        Raises:
            CollectError: the cluster does not tell its brokers, the topics of the extensible load manager cannot be
                opened, or the numbers of the reports or the snapshot cannot be kept.
        """
        told_by, brokers = await self._live_brokers()
        self._address = {broker: url for broker, url in self._address.items() if broker in brokers}
        gate = asyncio.Semaphore(_AT_ONCE)
        answers = await asyncio.gather(*(self._ask(broker, told_by, gate) for broker in brokers))
        if None in answers and self._topics is None and self._open_topics is not None:
            self._topics = await asyncio.to_thread(self._open_topics)
        extensible = [broker for broker, asked in zip(brokers, answers, strict=True) if asked is None]
        owners, why_not = await self._owners(extensible)
        owned = _by_broker(owners or {})
        found: list[LocalBrokerData] = []
        failed: dict[str, str] = {}
        for broker, asked in zip(brokers, answers, strict=True):
            answer = self._from_topics(broker, owned.get(broker, ())) if asked is None else asked
            if isinstance(answer, str):
                failed[broker] = answer
            else:
                life = answer.incarnation or f"{OF_APACHE_PULSAR}{answer.start_timestamp}"
                incarnation, sequence = self._numbers.take(broker, life)
                found.append(msgspec.structs.replace(answer, incarnation=incarnation, sequence=sequence))
        try:
            self._numbers.keep()
        except OSError as error:
            raise CollectError(f"cannot go on without keeping the numbers of the reports: {error}") from error
        for report in found:
            self._log.append(report)
        self._tell_snapshot(extensible, owners)
        bundles = sum(len(report.last_stats) for report in found)
        count = None if owners is None else len(owners)
        return Round(self._clock_ms(), len(found), bundles, failed, count, why_not)

    async def _live_brokers(self) -> tuple[str, list[str]]:
        """Return the ids of the brokers, sorted, and the address that told them."""
        failure = ""
        for url in (*self._given, *self._address.values()):
            try:
                return url, sorted(msgspec.convert(await self._brokers_at(url), _Ids))
            except AdminRequestError as error:
                failure = failure or without_report(error)
            except msgspec.ValidationError:
                failure = failure or f"{url} answers, but not as Pulsar does; is it the web service of a broker?"
        raise CollectError(f"cannot list the brokers: {failure}")

    async def _brokers_at(self, url: str) -> Any:
        try:
            return await self._client.call("GET", url, "/admin/v2/brokers")
        except AdminRequestError as error:
            if error.status not in _NO_SUCH_PATH:
                raise
            none_there = error
        # before 2.10 one has to name the cluster
        try:
            clusters = msgspec.convert(await self._client.call("GET", url, "/admin/v2/clusters"), list[str])
        except AdminRequestError:
            raise none_there from None
        live: set[str] = set()
        for cluster in clusters:
            if cluster != "global":
                live.update(await self._client.call("GET", url, f"/admin/v2/brokers/{cluster}"))
        return list(live)

    async def _ask(self, broker: str, told_by: str, gate: asyncio.Semaphore) -> LocalBrokerData | str | None:
        """Return the broker's report as of now, or why there is none; None for one that has none to be asked for."""
        async with gate:
            try:
                if broker not in self._address:
                    self._address[broker] = await address_of(self._client, broker, told_by)
                answer = await self._client.call("GET", self._address[broker], "/admin/v2/broker-stats/load-report")
            except AdminRequestError as error:
                return None if has_no_report(error) else without_report(error)
        if not answer:
            return None
        try:
            return msgspec.structs.replace(understood(broker, answer), last_update=self._clock_ms())
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            return f"its load report cannot be read: {error}"

    # ---- the extensible load manager ----

    async def _owners(self, brokers: Sequence[str]) -> tuple[Mapping[str, str] | None, str]:
        """Return which broker owns each bundle by the ownership channel, else why that is not known.

        Neither without such `brokers` or their topics.
        """
        if not brokers or self._topics is None:
            return None, ""
        try:
            place = await self._place_of_records(self._address[brokers[0]])
        except AdminRequestError as error:
            return None, f"it is not known where ownership is kept: {without_report(error)}; {_BY_LISTS}"
        if place == _IN_STORE:
            return None, f"ownership is kept in the metadata store ({_PLACE_KEY}), which no client reads; {_BY_LISTS}"
        if place != _IN_TOPIC:
            return None, f"ownership is kept by {place} ({_PLACE_KEY}), which is not known here; {_BY_LISTS}"
        try:
            return await asyncio.to_thread(self._topics.owners), ""
        except OwnershipUnreadableError as error:
            return None, f"{error}; {_BY_LISTS}"

    async def _place_of_records(self, address: str) -> str:
        """Return the short name of what keeps the ownership records; versions that cannot choose have the topic.

        The broker is asked before the topic is read: reading one that there is not would make it.
        """
        answer = await self._client.call("GET", address, "/admin/v2/brokers/configuration/runtime")
        told = answer.get(_PLACE_KEY) if isinstance(answer, dict) else None
        return short_name(str(told))[:200] if told else _IN_TOPIC

    def _tell_snapshot(self, brokers: Sequence[str], owners: Mapping[str, str] | None) -> None:
        """Have what is known of the brokers of the extensible load manager kept as a snapshot.

        Raises:
            CollectError: it cannot be kept.
        """
        if not brokers or self._topics is None:
            return
        addresses = {broker: self._address[broker] for broker in brokers}
        document = collected_snapshot(
            addresses, self._topics.loads, self._topics.tops, owners, taken_at_ms=self._clock_ms()
        )
        try:
            self._keep_snapshot(document)
        except OSError as error:
            raise CollectError(f"cannot keep the snapshot: {error}") from error

    def _from_topics(self, broker: str, owned: Sequence[str]) -> LocalBrokerData | str:
        """Return what a broker published, with the bundles that it owns, as its report; else why there is none."""
        if self._topics is None:
            return "it runs the extensible load manager; give --service-url to read its topics"
        load = self._topics.loads.get(broker)
        if load is None:
            return _NOTHING_YET
        lookup = BrokerLookupData(load_manager_class_name=ManagerKind.EXTENSIBLE.class_name)
        report = as_report(load, lookup, self._topics.tops.get(broker))
        return msgspec.structs.replace(
            report,
            broker_id=broker,
            last_update=self._clock_ms(),
            bundles=tuple(sorted({*report.bundles, *owned})),
        )


def _by_broker(owners: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for bundle, broker in owners.items():
        found.setdefault(broker, []).append(bundle)
    return found


def understood(broker: str, answer: Any) -> LocalBrokerData:
    """Return the load report of either kind, the simple manager's as the modular one would put it.

    Raises:
        msgspec.ValidationError: a field has another type.
    """
    if isinstance(answer, dict) and answer.get("loadReportType") == "LoadReport":
        report = as_local_broker_data(decode_load_report(msgspec.json.encode(answer)))
    else:
        report = msgspec.convert(answer, LocalBrokerData)
    return msgspec.structs.replace(report, broker_id=broker)
