"""Measures this broker's load, compares it with the last written report, and writes a report if it changed enough.

A report is written to the broker's key at /loadbalance/brokers and to the load-report log, with the next sequence
number of this incarnation. A number is used once: if it is not known whether the store has a report, the next report
has the next number.

Source: Pulsar's `ModularLoadManagerImpl.updateLocalBrokerData`, `needBrokerDataUpdate`, `writeBrokerDataOnZooKeeper`.
"""

import asyncio
from dataclasses import dataclass

import msgspec
import structlog

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.reporting.host_usage import UsageMeter
from pulsar_barycenter.broker.load_manager.reporting.local_load import LocalLoad
from pulsar_barycenter.broker.load_manager.reporting.report_identity import identity_report
from pulsar_barycenter.cluster_logs.load_report_log import ReportLog
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.reports.load_report import (
    DEFAULT_WEIGHTS,
    LocalBrokerData,
    ResourceWeights,
    max_resource_usage,
    percent_change,
    weighted_resource_usage,
    with_stats,
)
from pulsar_barycenter.load.reports.weights import resource_weights
from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReportRule:
    """The rule when a load report has to be written: when the last one is older than `max_interval_ms`, or when the
    load changed by more than `threshold_percent` since then (see `largest_change`).
    """

    max_interval_ms: float = 900_000
    threshold_percent: float = 10
    weights: ResourceWeights = DEFAULT_WEIGHTS


def is_due(written: LocalBrokerData, current: LocalBrokerData, now_ms: int, rule: ReportRule) -> bool:
    """Return whether the report `current` has to be written: the report that was `written` last is too old, or the load
    has changed enough since then, by `rule`.
    """
    if now_ms - written.last_update > rule.max_interval_ms:
        return True
    return largest_change(written, current, rule.weights) > rule.threshold_percent


def largest_change(written: LocalBrokerData, current: LocalBrokerData, weights: ResourceWeights) -> float:
    """Return the largest of four changes between two reports: of message rate, of throughput and of the number of
    bundles, each in percent, and of the usage, in percentage points. The usage is the highest one of CPU, direct memory
    and the two bandwidths, each multiplied by its weight.
    """
    usage = weighted_resource_usage(written, weights) - weighted_resource_usage(current, weights)
    return max(
        percent_change(written.msg_rate_in + written.msg_rate_out, current.msg_rate_in + current.msg_rate_out),
        percent_change(
            written.msg_throughput_in + written.msg_throughput_out,
            current.msg_throughput_in + current.msg_throughput_out,
        ),
        percent_change(written.num_bundles, current.num_bundles),
        100.0 * abs(usage),
    )


class LoadReporter:
    """Measures the load of one broker, and writes its load reports to the metadata store and to the report log."""

    def __init__(
        self,
        context: LoadManagerContext,
        meter: UsageMeter,
        report_log: ReportLog,
        manager: ManagerKind = ManagerKind.MODULAR,
    ) -> None:
        self._context = context
        self._manager = manager
        self._load = LocalLoad(context, meter)
        self._report_log = report_log
        self._written: LocalBrokerData | None = None
        self._writing = asyncio.Lock()
        self._local = identity_report(context)

    @property
    def load(self) -> LocalLoad:
        """The load of this broker, from which the reports are made."""
        return self._load

    @property
    def written(self) -> LocalBrokerData | None:
        """The load report that was written last."""
        return self._written

    def close(self) -> None:
        """Stop writing reports."""
        self._load.close()
        self._report_log.close()

    def current(self) -> LocalBrokerData:
        """Return this broker's present load. The stats of topics are present ones; the usage of the machine is that of
        the last measurement.
        """
        stats = self._load.stats()
        usage = self._load.usage(stats)
        data = msgspec.structs.replace(
            with_stats(self._local, stats),
            cpu=usage.cpu,
            memory=usage.memory,
            direct_memory=usage.direct_memory,
            bandwidth_in=usage.bandwidth_in,
            bandwidth_out=usage.bandwidth_out,
            max_resource_usage=max_resource_usage(usage),
            load_manager_class_name=self._manager.class_name,
        )
        self._local = data
        return data

    def next_report(self) -> LocalBrokerData:
        """Return the present load as a new load report: with the present time and the next sequence number."""
        return msgspec.structs.replace(
            self.current(), last_update=self._context.env.clock.now_ms(), sequence=next(self._context.sequences)
        )

    def wrote(self, report: LocalBrokerData) -> None:
        """Record that `report` was written."""
        self._load.wrote()
        self._written = report
        self._local = msgspec.structs.replace(
            self._local,
            last_update=report.last_update,
            sequence=report.sequence,
            last_bundle_gains=_without(self._local.last_bundle_gains, report.last_bundle_gains),
            last_bundle_losses=_without(self._local.last_bundle_losses, report.last_bundle_losses),
        )
        self._report_log.append(report)

    async def write(self, *, force: bool = False) -> bool:
        """Write a load report if the load changed enough, the last report is too old, or `force` is set. Return whether
        it was written.

        A report is also written if this broker lost and regained its registration or its session since the last one. If
        this broker is not registered, or not connected to the store, nothing is written. If the write fails, this is
        logged. After these two, the next call tries again.
        """
        async with self._writing:
            if not self._load.may_write:
                return False
            if not force and self._written is not None and not self._is_due(self._written):
                return False
            report = self.next_report()
            try:
                await self._context.registration.update(report)
            except MetadataError as error:
                log.warning("load_report_not_written", sequence=report.sequence, reason=str(error))
                return False
            self.wrote(report)
            return True

    def log_report(self, *, force: bool = False) -> bool:
        """Append a load report to the report log, but do not write it to the metadata store. This is done if the load
        changed enough, the last report is too old, or `force` is set. Return whether it was done.
        """
        if not self._load.may_write or (not force and self._written is not None and not self._is_due(self._written)):
            return False
        self.wrote(self.next_report())
        return True

    def _is_due(self, written: LocalBrokerData) -> bool:
        if self._load.was_reconnected:
            return True
        config = self._context.config.current
        rule = ReportRule(
            max_interval_ms=config.load_balancer_report_update_max_interval_minutes * 60_000,
            threshold_percent=config.load_balancer_report_update_threshold_percentage,
            weights=resource_weights(config),
        )
        return is_due(written, self.current(), self._context.env.clock.now_ms(), rule)


def _without(names: tuple[str, ...], written: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of `names` that are not in `written`. `names` are bundles that this broker got or lost, `written`
    those that the written report names as got or lost; the others have to be reported again.
    """
    reported = set(written)
    return tuple(name for name in names if name not in reported)
