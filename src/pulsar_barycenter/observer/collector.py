"""Collects the load of a running cluster of Apache Pulsar or Barycenter into a report log.

A round requests the load report of every live broker by the admin API, and appends it to the log that the pipeline
reads, as the broker's own report. A broker of Apache Pulsar does not number its reports. Their time is that of the last
write to the metadata store, up to 15 minutes ago, although the values are those at the request. Therefore the collector
sets the time by its own clock, and numbers the reports. Two collectors of one cluster would count every sample twice:
run only one.

Brokers with the extensible load manager have no report. Their topics have their load and their heaviest bundles, and
the ownership channel has the owners of all bundles. This data is also written as a snapshot.

The rules of administrators (isolation policies, failure domains, anti-affinity groups) are read and recorded beside the
load. A round whose rules cannot be read has its load nevertheless.

Brokers update the values of bundles every `statsUpdateFrequencyInSecs` (60 by default); shorter intervals repeat
samples.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol

import msgspec
from yarl import URL

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.cluster_logs.load_report_log import ReportLog
from pulsar_barycenter.load.managers import ManagerKind, short_name
from pulsar_barycenter.load.policies import NO_POLICIES, ClusterPolicies
from pulsar_barycenter.load.reports.extensible_reports import (
    BrokerLoadData,
    BrokerLookupData,
    TopBundlesLoadData,
    as_report,
)
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.reports.simple_load_report import as_local_broker_data, decode_load_report
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.naming.bundle import is_of_a_broker_itself
from pulsar_barycenter.observer.addresses import address_of
from pulsar_barycenter.observer.answers import has_no_report, without_report
from pulsar_barycenter.observer.collected_snapshot import collected_snapshot
from pulsar_barycenter.observer.recorded_settings import RecordedSettings, recorded_settings
from pulsar_barycenter.observer.report_numbers import OF_APACHE_PULSAR, ReportNumbers

_AT_ONCE: Final = 16
_RUNTIME: Final = "/admin/v2/brokers/configuration/runtime"
_NO_SUCH_PATH: Final = (404, 405)
MAX_BROKERS: Final = 10_000
"""The maximum number of brokers; a longer list is refused as not valid."""
_Ids = Annotated[list[Annotated[str, msgspec.Meta(max_length=2_048)]], msgspec.Meta(max_length=MAX_BROKERS)]
_PLACE_KEY: Final = "loadManagerServiceUnitStateTableViewClassName"
_IN_TOPIC: Final = "ServiceUnitStateTableViewImpl"
_IN_STORE: Final = "ServiceUnitStateMetadataStoreTableViewImpl"
_BY_LISTS: Final = "a bundle counts for the broker that lists it among its heaviest; other bundles count for none"
_NOTHING_YET: Final = (
    "it has not published its load since the start; a broker with steady load publishes once in "
    "loadBalancerReportUpdateMaxIntervalMinutes (15 by default)"
)


class CollectError(Exception):
    """The cluster cannot be queried; the text says which request failed, and why."""


class OwnershipUnreadableError(Exception):
    """The ownership records in the ownership channel's topic cannot be read completely; the text says why."""


class PoliciesUnreadableError(Exception):
    """The rules of administrators cannot be read; the text says why."""


class PoliciesSource(Protocol):
    """Reads the rules of administrators."""

    async def read(self, url: str, namespaces: Collection[str], now_ms: int) -> ClusterPolicies:
        """Return the rules for these namespaces, from the broker at the web address `url`; `now_ms` (epoch ms) is the
        present time, which decides what is due to be read again.

        Raises:
            PoliciesUnreadableError: the rules cannot be read.
        """
        ...


class ExtensibleTopics(Protocol):
    """The data that brokers with the extensible load manager have published in the load topics, by broker id."""

    @property
    def loads(self) -> Mapping[str, BrokerLoadData]: ...

    @property
    def tops(self) -> Mapping[str, TopBundlesLoadData]: ...

    def owners(self) -> Mapping[str, str]:
        """Return the owner of each bundle, as the ownership channel says. Blocks the calling thread. Call it only if
        the cluster keeps the ownership records in a topic: otherwise reading would create that topic.

        Raises:
            OwnershipUnreadableError: the channel cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round, in which all brokers were queried once. `failed` maps each broker that returned no
    report to the reason. Times are epoch ms.

    `owned` is the number of bundles with an owner in the ownership channel of the extensible load manager. It is None
    if there is no channel, or if the channel could not be read. `ownership` says why the channel could not be read;
    otherwise it is blank. `policies` says why the rules of administrators could not be read; it is blank if they were
    read or are not to be read.
    """

    at: int
    brokers: int
    bundles: int
    failed: dict[str, str] = field(default_factory=dict)
    owned: int | None = None
    ownership: str = ""
    policies: str = ""


def admin_urls(text: str) -> tuple[str, ...]:
    """Return the web addresses in `text`, in the form of Pulsar's tools: `http://host:8080,host:8080`.

    An address may also have a scheme of its own, as in `http://host:8080,http://host:8080`.

    Raises:
        ValueError: the text is not valid; the message says why.
    """
    scheme, separator, rest = text.strip().partition("://")
    if not separator or scheme not in ("http", "https"):
        raise ValueError(f"a web address begins with http:// or https://, as http://broker-1:8080, not {text!r}")
    hosts = [host.strip().rstrip("/") for host in rest.split(",")]
    urls = tuple(host if "://" in host else f"{scheme}://{host}" for host in hosts)
    for url in urls:
        try:
            is_address = URL(url).host is not None and URL(url).scheme in ("http", "https")
        except ValueError:
            is_address = False
        if not is_address:
            raise ValueError(f"{url} is not a web address; give one such as http://broker-1:8080")
    return urls


class Collector:
    """Queries the brokers of a cluster. `urls` are web addresses of some of its brokers, or of a proxy (see
    `admin_urls`).

    The first address that answers provides the list of brokers. In later rounds any broker of that list may provide it.
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
        keep_settings: Callable[[RecordedSettings], None] | None = None,
        source_of_policies: PoliciesSource | None = None,
        keep_policies: Callable[[int, ClusterPolicies], None] = lambda _at_ms, _policies: None,
    ) -> None:
        """Make a collector. `urls` are the addresses at which it begins, `client` sends the requests, `log` receives
        the load reports, `numbers` numbers them, and `clock_ms` returns epoch ms. `extensible` opens the topics of the
        extensible load manager; it is called when the first broker is found that runs it. `keep_snapshot` is called in
        each round with the snapshot of these brokers, to store it. `keep_settings` gets the settings of the cluster
        when they have changed; if it is None, the settings are not read. `source_of_policies` reads the rules of
        administrators in each round, and `keep_policies` gets the time (epoch ms) and these rules; if
        `source_of_policies` is None, the rules are not read.
        """
        self._given = list(urls)
        self._address: dict[str, str] = {}
        self._client = client
        self._log = log
        self._numbers = numbers
        self._clock_ms = clock_ms
        self._open_topics = extensible
        self._keep_snapshot = keep_snapshot
        self._keep_settings = keep_settings
        self._source_of_policies = source_of_policies
        self._keep_policies = keep_policies
        self._settings: RecordedSettings | None = None
        self._policies = NO_POLICIES
        self._namespaces: dict[str, frozenset[str]] = {}
        """The namespaces of each listed broker, from its last report. A broker without a report in a round keeps its
        entry.
        """
        self._topics: ExtensibleTopics | None = None

    @property
    def addresses(self) -> Mapping[str, str]:
        """The web addresses of the brokers that were queried in the last round, by broker id."""
        return self._address

    @property
    def policies(self) -> ClusterPolicies:
        """The rules of administrators that were read last. If a reading fails, the rules of the reading before stay;
        before the first reading there are no rules.
        """
        return self._policies

    async def collect(self) -> Round:
        """Query all brokers once, and append their load reports to the log. A broker that returns no report is in
        `Round.failed`. If this raises, the reports of the round may be in the log already.

        Raises:
            CollectError: the brokers cannot be listed, the topics of the extensible load manager cannot be opened, or
                the numbers of the reports, the settings, the policies or the snapshot cannot be written.
        """
        source, brokers = await self._live_brokers()
        self._address = {broker: url for broker, url in self._address.items() if broker in brokers}
        gate = asyncio.Semaphore(_AT_ONCE)
        answers = await asyncio.gather(*(self._ask(broker, source, gate) for broker in brokers))
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
            raise CollectError(
                "cannot store the numbers of the load reports, which the command needs to continue after a restart:"
                f" {error}"
            ) from error
        if self._keep_settings is not None:
            await self._tell_settings(source, self._keep_settings)
        for report in found:
            self._log.append(report)
        self._namespaces = {broker: known for broker, known in self._namespaces.items() if broker in brokers}
        self._namespaces |= {str(report.broker_id): _namespaces_of(report) for report in found}
        no_policies = await self._read_policies(source)
        self._tell_snapshot(extensible, owners)
        bundles = sum(len(report.last_stats) for report in found)
        count = None if owners is None else len(owners)
        return Round(self._clock_ms(), len(found), bundles, failed, count, why_not, no_policies)

    async def _live_brokers(self) -> tuple[str, list[str]]:
        """Return the address that returned the list of brokers, and the ids of these brokers, sorted.

        Raises:
            CollectError: no address returned the list.
        """
        failure = ""
        for url in (*self._given, *self._address.values()):
            try:
                return url, sorted(msgspec.convert(await self._brokers_at(url), _Ids))
            except AdminRequestError as error:
                failure = failure or without_report(error)
            except msgspec.ValidationError:
                failure = failure or f"{url} answers, but is not the web service of a broker"
        raise CollectError(f"cannot list the brokers: {failure}")

    async def _brokers_at(self, url: str) -> Any:
        try:
            return await self._client.call("GET", url, "/admin/v2/brokers")
        except AdminRequestError as error:
            if error.status not in _NO_SUCH_PATH:
                raise
            none_there = error
        # Pulsar before 2.10 needs the name of the cluster
        try:
            clusters = msgspec.convert(await self._client.call("GET", url, "/admin/v2/clusters"), list[str])
        except AdminRequestError:
            raise none_there from None
        live: set[str] = set()
        for cluster in clusters:
            if cluster != "global":
                live.update(await self._client.call("GET", url, f"/admin/v2/brokers/{cluster}"))
        return list(live)

    async def _ask(self, broker: str, source: str, gate: asyncio.Semaphore) -> LocalBrokerData | str | None:
        """Query a broker for its present load report. Return the report; or, if there is none, a text that says why; or
        None if the broker runs the extensible load manager, which has no such report. `gate` limits the number of
        requests at the same time; `source` is the address that returned the list of brokers.
        """
        async with gate:
            try:
                if broker not in self._address:
                    self._address[broker] = await address_of(self._client, broker, source)
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
        """Return two values: the owner of each bundle in the ownership channel and ""; or, if the channel cannot be
        read, None and the reason.

        Return None and "" if there is nothing to read: `brokers`, those with the extensible load manager, is empty, or
        its topics are not open.
        """
        if not brokers or self._topics is None:
            return None, ""
        try:
            place = await self._place_of_records(self._address[brokers[0]])
        except AdminRequestError as error:
            return None, f"it is not known where the ownership records are stored: {without_report(error)}; {_BY_LISTS}"
        if place == _IN_STORE:
            return None, f"ownership is in the metadata store ({_PLACE_KEY}), which no client can read; {_BY_LISTS}"
        if place != _IN_TOPIC:
            return None, f"ownership is stored by {place} ({_PLACE_KEY}), which is not supported here; {_BY_LISTS}"
        try:
            return await asyncio.to_thread(self._topics.owners), ""
        except OwnershipUnreadableError as error:
            return None, f"{error}; {_BY_LISTS}"

    async def _place_of_records(self, address: str) -> str:
        """Return the short name of Pulsar's class that stores the ownership records on this cluster, either in a topic
        or in the metadata store. Brokers of old versions do not name the class: they store the records in a topic.

        This broker is queried before the topic is read, because reading a topic that does not exist would create it.
        """
        answer = await self._client.call("GET", address, _RUNTIME)
        class_name = answer.get(_PLACE_KEY) if isinstance(answer, dict) else None
        return short_name(str(class_name))[:200] if class_name else _IN_TOPIC

    async def _tell_settings(self, address: str, keep: Callable[[RecordedSettings], None]) -> None:
        """Read the settings of the cluster and call `keep` with them if they have changed. If they cannot be read, do
        nothing: the settings that were read last stay valid.

        Raises:
            CollectError: the settings cannot be written.
        """
        try:
            runtime = await self._client.call("GET", address, _RUNTIME)
            leader = await self._leader(address)
        except AdminRequestError:
            return
        if not isinstance(runtime, dict):
            return
        record = recorded_settings(self._clock_ms(), runtime, leader)
        if self._settings is None or not record.is_like(self._settings):
            try:
                keep(record)
            except OSError as error:
                raise CollectError(f"cannot record the settings of the cluster in a file: {error}") from error
            self._settings = record

    async def _read_policies(self, url: str) -> str:
        """If there is a source of rules, read the rules for the namespaces of all known bundles from the broker at
        `url`, and store them; return "". If the rules cannot be read, return why; the rules that were read last stay
        valid.

        Raises:
            CollectError: the rules cannot be written.
        """
        if self._source_of_policies is None:
            return ""
        namespaces = frozenset[str]().union(*self._namespaces.values())
        now_ms = self._clock_ms()
        try:
            self._policies = await self._source_of_policies.read(url, namespaces, now_ms)
            self._keep_policies(now_ms, self._policies)
        except PoliciesUnreadableError as error:
            return str(error)
        except OSError as error:
            raise CollectError(f"cannot record the policies of the cluster in a file: {error}") from error
        return ""

    async def _leader(self, address: str) -> str:
        """Return the id of the leader, as the broker at `address` names it; blank if the broker names no leader, or
        does not know this request.
        """
        try:
            answer = await self._client.call("GET", address, "/admin/v2/brokers/leaderBroker")
        except AdminRequestError as error:
            if error.status in _NO_SUCH_PATH:
                return ""
            raise
        known = answer if isinstance(answer, dict) else {}
        return str(known.get("brokerId") or str(known.get("serviceUrl", "")).rpartition("/")[2])

    def _tell_snapshot(self, brokers: Sequence[str], owners: Mapping[str, str] | None) -> None:
        """Write what `brokers`, those with the extensible load manager, have published as a snapshot; do nothing if
        there are no such brokers.

        Raises:
            CollectError: the snapshot cannot be written.
        """
        if not brokers or self._topics is None:
            return
        addresses = {broker: self._address[broker] for broker in brokers}
        document = collected_snapshot(
            addresses,
            self._topics.loads,
            self._topics.tops,
            owners,
            policies=self._policies,
            taken_at_ms=self._clock_ms(),
        )
        try:
            self._keep_snapshot(document)
        except OSError as error:
            raise CollectError(f"cannot write the snapshot: {error}") from error

    def _from_topics(self, broker: str, owned: Sequence[str]) -> LocalBrokerData | str:
        """Return a load report made from the data that a broker published in the load topics and the bundles that it
        owns (`owned`). If there is no such data, return a text that says why.
        """
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


def _namespaces_of(report: LocalBrokerData) -> frozenset[str]:
    """Return the namespaces of the bundles in a broker's report, without heartbeat and SLA-monitor namespaces."""
    bundles = {*report.bundles, *report.last_stats}
    return frozenset(bundle.rpartition("/")[0] for bundle in bundles if not is_of_a_broker_itself(bundle))


def _by_broker(owners: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for bundle, broker in owners.items():
        found.setdefault(broker, []).append(bundle)
    return found


def understood(broker: str, answer: Any) -> LocalBrokerData:
    """Return the load report in `answer`, the decoded JSON that `broker` returned. A report of the simple load manager
    is converted to the form of the modular one.

    Raises:
        msgspec.ValidationError: a field has another type.
    """
    if isinstance(answer, dict) and answer.get("loadReportType") == "LoadReport":
        report = as_local_broker_data(decode_load_report(msgspec.json.encode(answer)))
    else:
        report = msgspec.convert(answer, LocalBrokerData)
    return msgspec.structs.replace(report, broker_id=broker)
