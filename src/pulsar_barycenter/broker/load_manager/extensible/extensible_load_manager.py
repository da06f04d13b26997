"""The extensible load manager: ownership by records, every broker assigns, the leader unloads to a destination.

| task | runs on | every |
|---|---|---|
| publish the load if it changed enough | every broker | `loadBalancerReportUpdateMinIntervalMillis` |
| publish the heaviest bundles if their stats changed | every broker | the same |
| split its own bundles that are too large | every broker | `loadBalancerSplitIntervalMinutes` |
| unload from the most loaded brokers | the leader | `loadBalancerSheddingIntervalMinutes` |
| check the ownership of all bundles | the leader | `loadBalancerServiceUnitStateMonitorIntervalInSeconds` |

The broker calls `write_report` and `shed`; the other tasks run here. Code that needs numpy is in `deciding`; a broker
without numpy has `assigning` instead, which only assigns.

Source: Pulsar's `ExtensibleLoadManagerImpl` and `ExtensibleLoadManagerWrapper` (4.x).
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.decision_executor import DecisionExecutor
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.extensible.deciding_parts import DecidingParts
from pulsar_barycenter.broker.load_manager.extensible.load_data import LEAVING, ExtensibleLoadData
from pulsar_barycenter.broker.load_manager.extensible.load_stores import LoadStore, LocalLoadStore, TopicLoadStore
from pulsar_barycenter.broker.load_manager.extensible.metrics import ExtensibleMetrics
from pulsar_barycenter.broker.load_manager.extensible.reporters import BrokerLoadReporter, TopBundlesReporter
from pulsar_barycenter.broker.load_manager.reporting.load_reporter import LoadReporter
from pulsar_barycenter.broker.load_manager.reporting.report_identity import lookup_data
from pulsar_barycenter.broker.periodic import PeriodicTasks
from pulsar_barycenter.broker.system_topics.client import SystemTopicClient
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.load.decisions import Placement
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.service_units.report_tombstones import ReportEffect, effect_on_reports
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.load.snapshot.document import SnapshotDocument
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.internal_topics import BROKER_LOAD_TOPIC, TOP_BUNDLES_TOPIC

if TYPE_CHECKING:
    from pulsar_barycenter.broker.load_manager.extensible.assigning import ExtensibleAssigning
    from pulsar_barycenter.broker.load_manager.extensible.deciding import ExtensibleDecisions


class ExtensibleLoadManager:
    """The extensible load manager of one broker. `LoadManager` says what each method does for the broker."""

    is_centralized = False

    def __init__(
        self,
        context: LoadManagerContext,
        environment: LoadManagerEnvironment | None = None,
        *,
        loads: LoadStore | None = None,
        tops: LoadStore | None = None,
    ) -> None:
        """`loads` is the table in which brokers publish their loads, `tops` the table in which they publish their
        heaviest bundles; by default, tables that all brokers share. `environment` has the files and meters; by default
        those of this machine (`LoadManagerEnvironment.of_machine`).
        """
        self._context = context
        self._environment = environment or LoadManagerEnvironment.of_machine(context)
        self._loads = loads or _store(context, BROKER_LOAD_TOPIC)
        self._tops = tops or _store(context, TOP_BUNDLES_TOPIC)
        self._reporter = LoadReporter(
            context, self._environment.meter, self._environment.report_log, ManagerKind.EXTENSIBLE
        )
        self._load = self._reporter.load
        self._load_reporter = BrokerLoadReporter(context, self._load, self._loads)
        self._top_reporter = TopBundlesReporter(context, self._load, self._tops)
        self._load_data = ExtensibleLoadData(context, self._loads, self._tops, self._environment.pipeline)
        self.metrics = ExtensibleMetrics(context.config.current.cluster_name, context.urls.broker_id)
        self._executor = DecisionExecutor(
            context,
            self._environment.decisions,
            self.metrics,
            ManagerKind.EXTENSIBLE,
            lambda by_command: context.ownership.mover(lambda: context.leader_epoch().guard, by_command),
        )
        self._decisions: ExtensibleDecisions | ExtensibleAssigning | None = None
        self._periodic = PeriodicTasks()
        self._changed = asyncio.Event()
        context.ownership.on_record(self._on_record)

    async def deciding(self) -> "ExtensibleDecisions | ExtensibleAssigning":
        """Return the object that decides. It is created at the first call, because importing it takes some time;
        concurrent calls get the same object.
        """
        if self._decisions is None:
            made = await self._environment.offload(partial(_decisions_class, balances=self._context.balances))
            if self._decisions is None:
                parts = DecidingParts(self._context, self._load_data, self._executor, self.metrics, self._load.stats)
                self._decisions = made(parts)
        return self._decisions

    # ---- life ----

    async def start(self) -> None:
        """Register this broker, start to publish its load, and start to read the loads of the other brokers."""
        await self._context.registration.register(self._context.urls.broker_id, lookup_data(self._context))
        self._loads.start()
        self._tops.start()
        config = self._context.config
        self._periodic.start(
            "bundle splits", self._split_own, lambda: config.current.load_balancer_split_interval_minutes * 60
        )
        self._periodic.start("load withdrawal", self._withdraw, lambda: 0.0)

    async def announce_leaving(self) -> None:
        """Announce that this broker accepts no more bundles. If a broker misses this and assigns a bundle to this
        broker, this broker assigns it to another one.
        """
        data = lookup_data(self._context)
        leaving = msgspec.structs.replace(data, properties={**data.properties, LEAVING: "true"})
        with suppress(MetadataError):
            await self._context.registration.update(leaving)

    async def leaving_brokers(self) -> set[str]:
        return await self._load_data.leaving()

    async def disable(self) -> None:
        """Remove the registration of this broker. Idempotent."""
        await self._context.registration.unregister()

    async def stop(self) -> None:
        """End every task of this load manager, and remove this broker's registration. Idempotent."""
        await self._periodic.close()
        self._reporter.close()
        self._load_data.close()
        await self._loads.close()
        await self._tops.close()
        await self.disable()

    # ---- reports ----

    def available_brokers(self) -> frozenset[str]:
        return self._context.registration.brokers

    def load_report(self) -> LocalBrokerData:
        """Return this broker's present load, as a load report of the modular load manager."""
        return self._reporter.current()

    @property
    def decisions(self) -> DecisionLog:
        """The decisions of this broker, for REST."""
        return self._environment.decisions

    async def write_report(self, *, force: bool = False) -> bool:
        """Publish two values of this broker: its load and the list of its heaviest bundles. Each is published if it is
        due, or if `force`.

        Return whether at least one of the two was published. In addition, a report of all bundles is appended to the
        report log for the pipeline, if `force`, or if it is due by the rule that the modular load manager uses.
        """
        self._reporter.log_report(force=force)
        logged = self._reporter.written if self._load_data.uses_pipeline else None
        published = await self._load_reporter.report(force=force, logged=logged)
        self.metrics.report(self._load_reporter.current)
        published = await self._top_reporter.report(force=force) or published
        self.metrics.unreported(len(self._context.registration.brokers - self._load_data.loads().keys()))
        await self._judge_pipeline()
        return published

    async def _judge_pipeline(self) -> None:
        """Set the metrics about the pipeline (the separate program that publishes averages), if one is configured. On
        the leader, also log when the pipeline becomes late or is late no more, and when it stops or begins again to
        check for new reports.
        """
        if not self._load_data.uses_pipeline:
            self.metrics.pipeline(None)
            return
        self._load_data.note_reports()
        self.metrics.pipeline(await self._load_data.pipeline.judge(decides_with="the newest traffic values"))

    def _on_record(
        self, bundle: Bundle, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None
    ) -> None:
        now_ms = self._context.env.clock.now_ms()
        effect = effect_on_reports(after, self._context.urls.broker_id, last_tombstone_ms=0, now_ms=now_ms)
        if effect is not ReportEffect.NONE:
            self._changed.set()

    async def _withdraw(self) -> None:
        """Wait until this broker next gets or loses a bundle. Then withdraw, once, the load and the heaviest bundles
        that it has published, because these values are outdated.
        """
        await self._changed.wait()
        self._changed.clear()
        await self._load_reporter.withdraw()
        await self._top_reporter.withdraw()

    # ---- decisions ----

    async def select_broker(self, bundle: Bundle) -> Placement | None:
        """Choose an owner for a bundle that has none. The result is None, or a placement with `broker` None, if no
        broker qualifies.
        """
        return await (await self.deciding()).select(bundle, ())

    async def select_successor(self, bundle: Bundle, without: Collection[str]) -> Placement | None:
        """Choose the next owner of a bundle, but none of the brokers `without`. The result is None, or a placement with
        `broker` None, if no broker qualifies.
        """
        return await (await self.deciding()).select(bundle, without)

    async def shed(self) -> None:
        """As leader, unload bundles from the most loaded brokers. The next owner of each bundle is chosen before its
        unload.
        """
        if self._context.is_leader():
            await (await self.deciding()).shed()

    async def check_splits(self) -> None:
        """Do nothing: every broker splits its own bundles periodically."""

    async def write_resource_quotas(self) -> None:
        """Do nothing: this load manager has no quotas."""

    async def _split_own(self) -> None:
        if self._context.owned_bundles():
            with self._context.env.instruments.round("split"):
                await (await self.deciding()).split_own()

    async def snapshot_document(self) -> SnapshotDocument:
        """Return the snapshot on which this broker would decide now, as a document for a file or the REST API."""
        return await (await self.deciding()).snapshot_document()


def _store(context: LoadManagerContext, topic: str) -> LoadStore:
    def in_topic(client: SystemTopicClient) -> LoadStore:
        return TopicLoadStore(client, topic)

    return context.ownership.table(LocalLoadStore, in_topic)


def _decisions_class(*, balances: bool) -> "type[ExtensibleDecisions | ExtensibleAssigning]":
    """Import the class that decides and return it. If `balances`, it is the class that needs numpy and the strategies,
    whose import takes a few hundred milliseconds. Otherwise it is the class that only assigns bundles.
    """
    if not balances:
        from pulsar_barycenter.broker.load_manager.extensible.assigning import ExtensibleAssigning

        return ExtensibleAssigning
    from pulsar_barycenter.broker.load_manager.extensible.deciding import ExtensibleDecisions

    return ExtensibleDecisions
