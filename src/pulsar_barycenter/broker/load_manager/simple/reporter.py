"""Writes this broker's load reports for the simple load manager, and decides when one is due.

Source: Pulsar's `SimpleLoadManagerImpl.writeLoadReportOnZookeeper` and `generateLoadReport`. Differences: bundles that
this broker owns without loaded topics are listed with zeros, except its own heartbeat namespaces; the report is also
written to the load-report log, as with the modular load manager.
"""

import asyncio

import msgspec
import structlog

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.reporting.local_load import LocalLoad
from pulsar_barycenter.broker.load_manager.reporting.report_identity import identity_report
from pulsar_barycenter.broker.load_manager.simple.load_data import SimpleLoadData
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import NamespaceBundleStats, ResourceUsage, SystemResourceUsage
from pulsar_barycenter.load.reports.simple_load_report import (
    LoadReport,
    as_local_broker_data,
    complete,
    gains_and_losses,
    is_above_load_level,
    is_below_load_level,
    load_report_of,
    with_quotas,
)
from pulsar_barycenter.load.reports.simple_report_rule import SimpleReportRule, judge_report, smoothed_memory
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import is_broker_bound

log = structlog.get_logger(__name__)


class SimpleLoadReporter:
    """Measures the load of one broker, and writes its load reports. `load_data` has the quotas of the broker's bundles,
    which are totalled in each report.
    """

    def __init__(
        self, context: LoadManagerContext, environment: LoadManagerEnvironment, load_data: SimpleLoadData
    ) -> None:
        self._context = context
        self._load = LocalLoad(context, environment.meter)
        self._report_log = environment.report_log
        self._load_data = load_data
        self._written: LoadReport | None = None
        self._average_memory_mib = 0
        self._usage_compared_at_ms = 0
        self._writing = asyncio.Lock()

    def close(self) -> None:
        """Stop writing reports."""
        self._load.close()
        self._report_log.close()

    @property
    def written(self) -> LoadReport | None:
        """The load report that was written last."""
        return self._written

    def current(self, settings: SimpleSettings) -> LoadReport:
        """Return this broker's present load. The stats of topics are present ones; the usage of the machine is that of
        the last measurement.
        """
        stats = self._stats()
        usage = self._usage(stats)
        before = {} if self._written is None else self._written.bundle_stats
        gains, losses = gains_and_losses(before, stats)
        plain = msgspec.structs.replace(
            load_report_of(identity_report(self._context)),
            load_manager_class_name=ManagerKind.SIMPLE.class_name,
            timestamp=self._context.env.clock.now_ms(),
            system_resource_usage=usage,
            bundle_stats=stats,
            bundle_gains=gains,
            bundle_losses=losses,
            over_loaded=is_above_load_level(usage, settings.overload),
            under_loaded=is_below_load_level(usage, settings.underload),
        )
        allocated, preallocated, cpu_factor = self._load_data.allotted(stats, self._context.urls.broker_id)
        return complete(with_quotas(plain, allocated, preallocated, cpu_factor))

    def next_report(self, settings: SimpleSettings) -> LoadReport:
        """Return the present load as a new load report, with the next sequence number."""
        return msgspec.structs.replace(self.current(settings), sequence=next(self._context.sequences))

    def wrote(self, report: LoadReport) -> None:
        """Record that `report` was written."""
        self._load.wrote()
        self._written = report
        self._usage_compared_at_ms = report.timestamp
        self._report_log.append(as_local_broker_data(report))

    async def write(self, settings: SimpleSettings, *, force: bool = False) -> bool:
        """Write a load report if the load changed enough, the last report is too old, or `force` is set. Return whether
        it was written.

        A report is also written if this broker lost and regained its registration or its session since the last one. If
        this broker is not registered, or not connected to the store, nothing is written. If the write fails, this is
        logged. After these two, the next call tries again.
        """
        async with self._writing:
            if not self._load.may_write:
                return False
            due = self._is_due()  # also updates the average of the memory
            if not (due or force):
                return False
            report = self.next_report(settings)
            try:
                await self._context.registration.update(report)
            except MetadataError as error:
                log.warning("load_report_not_written", sequence=report.sequence, reason=str(error))
                return False
            self.wrote(report)
            return True

    def _is_due(self) -> bool:
        stats = self._stats()
        measured = self._load.usage(stats)
        rule = SimpleReportRule.of(self._context.config.current)
        self._average_memory_mib = smoothed_memory(
            self._average_memory_mib, int(measured.memory.usage), max(1, int(rule.min_interval_ms))
        )
        if self._written is None:
            return True
        now_ms = self._context.env.clock.now_ms()
        verdict = judge_report(self._written, len(stats), self._usage(stats), now_ms, self._usage_compared_at_ms, rule)
        self._usage_compared_at_ms = verdict.usage_compared_at_ms
        return verdict.due or self._load.was_reconnected

    def _stats(self) -> dict[str, NamespaceBundleStats]:
        """Return the stats of the bundles that this broker owns. The bundles of its own heartbeat namespaces are left
        out if they have no loaded topics.
        """
        return {
            name: stats
            for name, stats in sorted(self._load.stats().items())
            if stats.topics or not is_broker_bound(Bundle.parse(name).namespace)
        }

    def _usage(self, stats: dict[str, NamespaceBundleStats]) -> SystemResourceUsage:
        measured = self._load.usage(stats)
        if self._average_memory_mib <= 0:
            return measured
        memory = ResourceUsage(float(self._average_memory_mib), measured.memory.limit)
        return msgspec.structs.replace(measured, memory=memory)
