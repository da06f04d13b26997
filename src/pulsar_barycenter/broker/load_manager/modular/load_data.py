"""What a broker knows of the cluster's load: reports, the averages computed from them (windows), and bundles that were
assigned and not yet reported.

Every broker keeps this data, so that a new leader has the averages at once. It needs no numpy; `snapshots` makes the
leader's snapshots from it.

A preallocation is a bundle that was assigned and that its new owner does not report yet. It ends when a broker reports
the bundle, when the new owner leaves the cluster, or after PREALLOCATION_MS. (Pulsar drops most of them at the next
notification of any broker, and then assigns several bundles to the broker that looks idle.)

Source: Pulsar's `ModularLoadManagerImpl` (`updateAll`, `updateBundleData`, `getBundleDataOrDefault`).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from pulsar_barycenter.broker.cluster.registration import owns_by_records
from pulsar_barycenter.broker.load_manager.balancing_configuration import balancing_configuration
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.pipeline_feed import PipelineFeed, Published, UsedPublication, is_exactly
from pulsar_barycenter.load.reports.load_report import (
    BundleData,
    LocalBrokerData,
    ResourceQuota,
    TimeAverageBrokerData,
    bundle_data_of_quota,
    default_bundle_data,
)
from pulsar_barycenter.load.reports.windows import LiveFold, broker_averages
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.strategy import MemoryDocument
from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

BUNDLE_DATA_ROOT: Final = "/loadbalance/bundle-data"
BROKER_AVERAGES_ROOT: Final = "/loadbalance/broker-time-average"
RESOURCE_QUOTA_ROOT: Final = "/loadbalance/resource-quota/namespace"
PREALLOCATION_MS: Final = 900_000
_CONCURRENT_READS: Final = 2
SAME_ANSWER_MS: Final = 10_000
"""For how many milliseconds another request for the owner of a bundle gets the same answer."""


@dataclass(frozen=True, slots=True)
class Preallocation:
    """The choice of `broker` as owner of a bundle, made at `at_ms` (ms since 1970). `data` is the bundle's load, which
    is added to the load of `broker` until a load report contains the bundle.
    """

    broker: str
    data: BundleData
    at_ms: int


class LoadData:
    """The load of the cluster as this broker knows it: load reports, averages, and bundles that were assigned but are
    in no report yet. `refresh` reads the newest reports.
    """

    def __init__(self, context: LoadManagerContext, feed: PipelineFeed) -> None:
        self._context = context
        self.pipeline = UsedPublication(context, feed)
        self.fold = LiveFold()
        self.preallocations: dict[str, Preallocation] = {}
        self._reported: dict[str, Preallocation] = {}
        """The preallocations that a report ended; they count until the refresh has ended."""
        self.recently_unloaded: dict[str, int] = {}
        self._summed: dict[str, tuple[LocalBrokerData, list[BundleData | None], TimeAverageBrokerData]] = {}
        self.generation = 0

    @property
    def brokers(self) -> frozenset[str]:
        """The ids of the brokers whose load report is known."""
        return frozenset(self.fold.reports)

    async def refresh(self) -> tuple[list[str], list[str]]:
        """Read the load reports of the registered brokers, and add each new report to the averages of its bundles.
        Return two lists: the brokers that left since the last refresh, and the bundles whose averages were dropped.

        Only one call may run at a time.
        """
        registration = self._context.registration
        live = await registration.refresh()
        reports: dict[str, LocalBrokerData] = {}
        received_ms: dict[str, int] = {}
        brokers = sorted(live)
        for start in range(0, len(brokers), _CONCURRENT_READS):
            batch = brokers[start : start + _CONCURRENT_READS]
            found = await asyncio.gather(*map(self._report_of, batch))
            reports |= {broker: report for broker, report in zip(batch, found, strict=True) if report is not None}
            received_ms |= dict.fromkeys(batch, self._context.env.clock.now_ms())
            await asyncio.sleep(0)  # a report may have many bundles
        for broker, report in reports.items():
            if self.fold.is_new(broker, report):
                await self._remember_unknown(report)
            if self.fold.accept(broker, report) or self.pipeline.last_received(broker) is None:
                self.pipeline.received(broker, self.fold.reports[broker], received_ms[broker])
                self._end_preallocations(report, received_ms[broker])
                await asyncio.sleep(0)  # all brokers may have reported at the same time
        left = sorted(set(self.fold.reports) - set(reports))
        forgotten = self.fold.retain(reports.keys(), self._context.env.clock.now_ms())
        self.pipeline.retain(self.fold.reports)
        for broker in left:
            self._summed.pop(broker, None)
        self._settle()
        self.generation += 1
        return left, forgotten

    async def _report_of(self, broker: str) -> LocalBrokerData | None:
        """Return the load report of a broker; if it cannot be read, the one that was read last. None if the broker is
        not registered, or has the extensible load manager: the registration of such a broker contains no load, so the
        broker would look idle.
        """
        try:
            report = await self._context.registration.data_of(broker)
            return None if report is None or owns_by_records(report) else report
        except MetadataError as error:
            log.warning("load_report_not_read", broker=broker, reason=str(error))
            return self.fold.reports.get(broker)

    async def _remember_unknown(self, report: LocalBrokerData) -> None:
        unknown = self.fold.unknown(report)
        for start in range(0, len(unknown), 100):
            names = unknown[start : start + 100]
            for name, data in zip(names, await asyncio.gather(*map(self._stored, names)), strict=True):
                if data is not None:
                    self.fold.remember(name, data, report.last_update)

    async def obtain(self, bundle: str) -> BundleData:
        """Return the averages of a bundle, short- and long-term. They are taken from the first of these that has the
        bundle: the averages that the pipeline, a separate program, published; this broker's memory; the averages in the
        store; the bundle's quota in the store. Otherwise they are the default averages.
        """
        await self.pipeline.read()
        return self.known(bundle) or await self._stored(bundle) or default_bundle_data()

    def known(self, bundle: str) -> BundleData | None:
        """Return the averages of a bundle, short- and long-term: those that the pipeline, a separate program,
        published, if decisions use them and they contain the bundle, else this broker's own. None if neither has the
        bundle.
        """
        published = self.pipeline.published()
        found = None if published is None else published.bundles.get(bundle)
        return found or self.fold.bundles.get(bundle)

    async def _stored(self, bundle: str) -> BundleData | None:
        store = self._context.env.store
        try:
            record = await store.get(f"{BUNDLE_DATA_ROOT}/{bundle}")
            if record is not None:
                return msgspec.json.decode(record.value, type=BundleData)
            quota = await store.get(f"{RESOURCE_QUOTA_ROOT}/{bundle}")
            return None if quota is None else bundle_data_of_quota(msgspec.json.decode(quota.value, type=ResourceQuota))
        except (MetadataError, msgspec.DecodeError) as error:
            log.warning("bundle_data_not_read", bundle=bundle, reason=str(error))
            return None

    # ---- preallocations ----

    def preallocate(self, bundle: str, broker: str, data: BundleData) -> None:
        """Add the load of `bundle` to the load of `broker` in decisions, until the load report of a broker contains the
        bundle.
        """
        self.preallocations[bundle] = Preallocation(broker, data, self._context.env.clock.now_ms())

    def forget_bundle(self, bundle: str) -> None:
        """Remove a bundle that does not exist any more from the load data."""
        self.fold.forget(bundle)
        self.preallocations.pop(bundle, None)
        self.changed()

    def preallocated_broker(self, bundle: str) -> str | None:
        """Return the broker that was chosen as owner of `bundle` less than SAME_ANSWER_MS ago. None if no broker was
        chosen in this time, or if the chosen one is not registered any more.
        """
        found = self.preallocations.get(bundle)
        if found is None or self._context.env.clock.now_ms() - found.at_ms > SAME_ANSWER_MS:
            return None
        return found.broker if found.broker in self._context.registration.brokers else None

    def _settle(self) -> None:
        oldest_ms = self._context.env.clock.now_ms() - PREALLOCATION_MS
        for bundle, preallocation in list(self.preallocations.items()):
            has_left = preallocation.broker not in self.fold.reports
            is_reported = self._reported.get(bundle) is preallocation  # else it was assigned again since
            if has_left or is_reported or preallocation.at_ms < oldest_ms:
                del self.preallocations[bundle]
        self._reported.clear()

    def _end_preallocations(self, report: LocalBrokerData, received_ms: int) -> None:
        """End the preallocation of each bundle that is in a report: its assignment counts no longer as expected load.
        This is also done if another broker than the chosen one reports the bundle.

        A report that was received before the bundle was assigned does not end the preallocation: it may list the bundle
        because its sender is the former owner.
        """
        for bundle in self.preallocations.keys() & report.last_stats.keys():
            if received_ms > self.preallocations[bundle].at_ms:
                self._reported[bundle] = self.preallocations[bundle]

    # ---- values for decisions ----

    def bundle_data(self, published: Published | None) -> dict[str, BundleData]:
        """Return the present averages of all bundles: for each bundle those in `published`, if it is there, else those
        that this broker computed. `published` is what the pipeline, a separate program, published; None: nothing, so
        only this broker's averages are used.
        """
        return {**self.fold.bundles, **(published.bundles if published is not None else {})}

    def average(
        self,
        broker: str,
        report: LocalBrokerData,
        data: Mapping[str, BundleData],
        published: Published | None,
    ) -> TimeAverageBrokerData:
        """Return a broker's time averages. If the publication was made with `report` as the newest report of the
        broker, these are the published ones. Otherwise they are the sums of the averages in `data` of the bundles in
        `report`.
        """
        if published is not None and is_exactly(published, broker, report):
            found = published.averages.get(broker)
            if found is not None:
                return found
        return self._sums(broker, report, data)

    def _sums(self, broker: str, report: LocalBrokerData, data: Mapping[str, BundleData]) -> TimeAverageBrokerData:
        """Return a broker's time averages: the sums of the averages in `data` of the bundles in `report`. The result is
        cached until the report or one of these averages changes.
        """
        known = list(map(data.get, report.last_stats))
        before = self._summed.get(broker)
        if before is not None and before[0] is report and before[1] == known:
            return before[2]
        sums = broker_averages(report.last_stats, data)
        self._summed[broker] = (report, known, sums)
        return sums

    def document(self, memory: MemoryDocument) -> SnapshotDocument:
        """Return all load data as a document, from which another process can build the same snapshot and take the same
        decisions. `memory` is what strategies remember of earlier rounds.
        """
        live, published = self._context.registration.brokers, self.pipeline.published()
        data = self.bundle_data(published)
        reports = {broker: report for broker, report in self.fold.reports.items() if broker in live}
        return SnapshotDocument(
            taken_at=self._context.env.clock.now_ms(),
            brokers=reports,
            bundle_data=data,
            broker_data={broker: self.average(broker, report, data, published) for broker, report in reports.items()},
            preallocated=by_broker(self.preallocations),
            recently_unloaded=dict(self.recently_unloaded),
            policies=PoliciesDocument.of(self._context.policies.current),
            memory=memory,
            configuration=balancing_configuration(self._context.config.current),
        )

    def changed(self) -> None:
        """Record that the load data changed, so that the next snapshot is built again."""
        self.generation += 1


def by_broker(preallocations: Mapping[str, Preallocation]) -> dict[str, dict[str, BundleData]]:
    """Return, for each broker, the bundles that were assigned to it and are in no load report yet, with their loads."""
    found: dict[str, dict[str, BundleData]] = {}
    for bundle, preallocation in preallocations.items():
        found.setdefault(preallocation.broker, {})[bundle] = preallocation.data
    return found
