"""What a broker with the simple load manager knows of the cluster: reports, quotas, ranking, and assigned bundles.

Every broker keeps this data: with `weightedRandomSelection` every broker places bundles, and a new leader continues
with quotas that were learned over a long time. Brokers with another load manager are not ranked.

Source: Pulsar's `SimpleLoadManagerImpl.updateRanking`. Difference: a bundle that was assigned to a broker but never
appears in its reports counts for that broker for PREALLOCATION_MS, not until the broker leaves.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.load_manager.balancing_configuration import balancing_configuration
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.modular.load_data import PREALLOCATION_MS
from pulsar_barycenter.broker.load_manager.simple.quota_store import QuotaStore
from pulsar_barycenter.broker.load_manager.simple.settings_watch import SimpleSettingsWatch
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.filters.outcome import PlacementRequest
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.reports.load_report import INITIAL_QUOTA, ResourceQuota
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, complete
from pulsar_barycenter.load.simple.placement import SimpleMemory, availability, rank, select_broker
from pulsar_barycenter.load.simple.quotas import Quotas, average_to_write, quotas_to_write, update_quotas
from pulsar_barycenter.load.simple.ranking import Ranking
from pulsar_barycenter.load.simple.simple_settings import CPU_FACTOR, MEMORY_FACTOR, stored_number
from pulsar_barycenter.load.snapshot.document import PoliciesDocument, SnapshotDocument
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot, unloaded_recently
from pulsar_barycenter.load.snapshot.simple_snapshot import SimpleSnapshotBuilder, build_simple_snapshot
from pulsar_barycenter.metadata.cache import MetadataCache
from pulsar_barycenter.metadata.errors import InvalidValueError, MetadataError

log = structlog.get_logger(__name__)

_QUOTAS_IN_ONE_STEP: Final = 2_000


class SimpleLoadData:
    """The load of the cluster as this broker knows it: load reports, quotas (expected loads of bundles), and the
    ranking of the brokers. `refresh` reads the newest reports.
    """

    def __init__(self, context: LoadManagerContext, settings: SimpleSettingsWatch) -> None:
        self._context = context
        self._settings = settings
        refresh_after_s = context.config.current.metadata_store_cache_expiry_seconds
        self._cache = MetadataCache(context.env.store, LoadReport, refresh_after_s=refresh_after_s)
        self._stored = QuotaStore(context.leader_store, refresh_after_s)
        self._reports: dict[str, LoadReport] = {}
        self._completed: dict[str, tuple[LoadReport, LoadReport]] = {}
        self._snapshots = SimpleSnapshotBuilder()
        self._others: set[str] = set()
        self.quotas = Quotas()
        self._memory = SimpleMemory()
        self._placed_at_ms: dict[str, int] = {}
        self._ranking: Ranking | None = None
        self.recently_unloaded: dict[str, int] = {}

    def close(self) -> None:
        self._cache.close()
        self._stored.close()

    @property
    def brokers(self) -> frozenset[str]:
        """The ids of the brokers whose load report is known."""
        return frozenset(self._reports)

    @property
    def reports(self) -> dict[str, LoadReport]:
        return self._reports

    @property
    def ranking(self) -> Ranking | None:
        """The present ranking of the brokers, with the present policies of the cluster; None before the first load
        report is known.
        """
        ranking, policies = self._ranking, self._context.policies.current
        if ranking is not None and ranking.snapshot.policies is not policies:
            ranking = self._ranking = replace(ranking, snapshot=replace(ranking.snapshot, policies=policies))
        return ranking

    async def begin(self) -> None:
        """Read the load reports for the first time. Begin with the factors for CPU and memory that a former leader
        stored, and with the default quota as the average quota.

        The factors are estimates: percent of one core per message a second, and MiB of memory per group of topics.
        """
        await self.refresh()
        stored = self._settings.stored
        self.quotas = replace(
            self.quotas,
            average=self.quotas.default,
            cpu_factor=stored_number(stored, CPU_FACTOR, self.quotas.cpu_factor),
            memory_factor=stored_number(stored, MEMORY_FACTOR, self.quotas.memory_factor),
            updated_at_ms=self._context.env.clock.now_ms(),
        )

    async def refresh(self) -> None:
        """Read the load reports of the registered brokers. From these compute the quotas (expected loads) of bundles
        and the ranking of the brokers again.

        Only one call may run at a time. If there is no report, the ranking stays as it was.
        """
        live = sorted(await self._context.registration.refresh())
        found = await asyncio.gather(*map(self._report_of, live))
        reports = {broker: report for broker, report in zip(live, found, strict=True) if report is not None}
        default = await self._stored.default() or INITIAL_QUOTA
        for broker, report in reports.items():
            if self._snapshots.prepare(broker, report):
                await self.learn(report.bundle_stats)
                await asyncio.sleep(0)  # many brokers may have reported, each with many bundles
        snapshot = self._snapshots.build(reports, taken_at_ms=self._context.env.clock.now_ms())
        await asyncio.sleep(0)
        self._completed = {broker: self._completed[broker] for broker in reports if broker in self._completed}
        self._reports = reports  # nothing is awaited after this, so that all values belong to the same reports
        if not reports:
            return
        self.quotas = update_quotas(snapshot, replace(self.quotas, default=default))
        self._forget_overdue()
        self._ranking, self._memory = rank(snapshot, self.quotas, self._memory, self._settings.current)

    async def _report_of(self, broker: str) -> LoadReport | None:
        try:
            report = await self._cache.get(f"{BROKERS_ROOT}/{broker}")
        except InvalidValueError:
            if broker not in self._others:
                log.warning(
                    "broker_runs_another_load_manager",
                    broker=broker,
                    effect="this broker assigns no bundles to the reporting broker",
                )
            self._others.add(broker)
            return None
        except MetadataError as error:
            log.warning("load_report_not_read", broker=broker, reason=str(error))
            return self._reports.get(broker)
        self._others.discard(broker)
        return None if report is None else self._complete(broker, report)

    def _complete(self, broker: str, report: LoadReport) -> LoadReport:
        """Return a broker's report with the values that are computed from other values in it. The result is cached
        until the broker has a new report.
        """
        before = self._completed.get(broker)
        if before is None or before[0] is not report:
            before = self._completed[broker] = (report, complete(report))
        return before[1]

    def _forget_overdue(self) -> None:
        oldest_ms = self._context.env.clock.now_ms() - PREALLOCATION_MS
        held = self._memory.preallocated
        overdue = [bundle for bundle in held if self._placed_at_ms.get(bundle, oldest_ms) <= oldest_ms]
        self._memory = replace(self._memory, preallocated=held.without(overdue))
        self._placed_at_ms = {bundle: at for bundle, at in self._placed_at_ms.items() if bundle in held}

    # ---- quotas ----

    async def learn(self, bundles: Iterable[str]) -> None:
        """Read the quotas of some bundles from the store: of those in `bundles` whose quota is not known yet."""
        unknown = self.quotas.unknown(bundles)
        if unknown:
            stored = await self._stored.of(unknown)
            self.quotas = self.quotas.learning(stored)

    def allotted(self, loaded: Iterable[str], broker: str) -> tuple[ResourceQuota, ResourceQuota, float]:
        """Return three values for a report of `broker`, which has loaded the bundles `loaded`: the total quota of these
        bundles; the total quota of the bundles that are assigned to it and that it has not loaded; and the estimated
        CPU usage of a message, as percent of one core per message a second.
        """
        names = set(loaded)
        coming = [
            bundle for bundle, chosen in self._memory.preallocated.items() if chosen == broker and bundle not in names
        ]
        return self.quotas.total(sorted(names)), self.quotas.total(sorted(coming)), self.quotas.cpu_factor

    async def write_quotas(self) -> None:
        """Store the estimated factors for CPU and memory, the average quota as the next default quota, and the quotas
        of bundles; of quotas only those that changed enough.

        Raises:
            MetadataError: the store did not accept a value; values before it are stored.
        """
        quotas = self.quotas
        await self._settings.write(CPU_FACTOR, repr(quotas.cpu_factor))
        await self._settings.write(MEMORY_FACTOR, repr(quotas.memory_factor))
        default = await self._stored.default()
        average = average_to_write(quotas, default)
        if average is not None:
            await self._stored.write([(None, average)])
        for start in range(0, len(quotas.bundles), _QUOTAS_IN_ONE_STEP):
            part = quotas.bundles.part(start, start + _QUOTAS_IN_ONE_STEP)
            stored = await self._stored.of(part.names)
            await self._stored.write(quotas_to_write(part, stored.get, default))

    # ---- values for decisions ----

    def snapshot(self) -> LoadSnapshot:
        """Return a snapshot of the present load, with the policies and the recent unloads."""
        ranking = self.ranking
        if ranking is None:
            return build_simple_snapshot({})
        snapshot = ranking.snapshot
        return replace(snapshot, bundles=unloaded_recently(snapshot.bundles, self.recently_unloaded))

    def document(self) -> SnapshotDocument:
        """Return the present load reports and policies as a document, on which other strategies can be tried. Averages
        (windows) are not in it, because this load manager computes none.
        """
        live = self._context.registration.brokers
        return SnapshotDocument(
            taken_at=self._context.env.clock.now_ms(),
            brokers={
                broker: self._snapshots.local(broker, report)
                for broker, report in self._reports.items()
                if broker in live
            },
            recently_unloaded=dict(self.recently_unloaded),
            policies=PoliciesDocument.of(self._context.policies.current),
            configuration=balancing_configuration(self._context.config.current),
        )

    def availability(self, namespace: str) -> dict[int, list[str]]:
        """Return the ids of the brokers that may serve a namespace, by rank, lowest rank first. While no load report is
        known, all brokers have rank 0.
        """
        ranking = self.ranking
        live = self._context.registration.brokers
        if ranking is None or live.isdisjoint(ranking.snapshot.brokers.names):
            return {0: sorted(live)} if live else {}
        return availability(ranking, namespace)

    def select(self, request: PlacementRequest) -> Placement:
        """Choose an owner for a bundle. If the configured strategy preallocates, the bundle's load is added to the
        owner's at once, before a report contains it.
        """
        ranking, live = self.ranking, self._context.registration.brokers
        settings, rng = self._settings.current, self._context.env.random
        if ranking is None or live.isdisjoint(ranking.snapshot.brokers.names):
            # Pulsar also draws one of the registered brokers while no report is known
            broker = rng.choice(sorted(live - self._context.policies.current.drained or live)) if live else None
            code = Code.NO_CANDIDATE if broker is None else Code.DRAWN
            reason = Reason(
                code=code,
                subject=broker or "",
                strategy=settings.strategy.value,
                detail="no load report of any broker is known",
            )
            return Placement.because(reason, request.bundle, broker)
        waiting = self._memory.preallocated.get(request.bundle)
        if waiting is not None and waiting not in live:
            self._memory = replace(self._memory, preallocated=self._memory.preallocated.without([request.bundle]))
        placement, self._ranking, self._memory = select_broker(
            ranking, request, settings, self.quotas, live, rng, self._memory
        )
        if placement.broker is not None and placement.reason.code is not Code.PREALLOCATED:
            self._placed_at_ms[request.bundle] = self._context.env.clock.now_ms()
        return placement
