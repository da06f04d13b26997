"""This broker's load report: measured, compared with the last one written, and written when it differs enough.

A written report goes into the broker's key at /loadbalance/brokers and into the load-report log, under the next
sequence number of this incarnation. Numbers are used once: a report whose fate in the store is unknown is followed by
one with the next number.

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
    """When a report is due. `max_interval_ms` in ms, `threshold_percent` in percent of change (strict)."""

    max_interval_ms: float = 900_000
    threshold_percent: float = 10
    weights: ResourceWeights = DEFAULT_WEIGHTS


def is_due(written: LocalBrokerData, current: LocalBrokerData, now_ms: int, rule: ReportRule) -> bool:
    """Tell whether `current` is to be written after `written`: it is old, or something changed by enough."""
    if now_ms - written.last_update > rule.max_interval_ms:
        return True
    return largest_change(written, current, rule.weights) > rule.threshold_percent


def largest_change(written: LocalBrokerData, current: LocalBrokerData, weights: ResourceWeights) -> float:
    """Return the largest change in percent: of message rate, throughput, number of bundles; usage in points."""
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
    """Measures and writes the reports of one broker."""

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
        """What the reports are made of."""
        return self._load

    @property
    def written(self) -> LocalBrokerData | None:
        """The report written last."""
        return self._written

    def close(self) -> None:
        """Write no more reports."""
        self._load.close()
        self._report_log.close()

    def current(self) -> LocalBrokerData:
        """Return this broker's figures of now; host figures are as old as the last measurement."""
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
        """Return the figures of now as a report to be written: with time and the next sequence number."""
        return msgspec.structs.replace(
            self.current(), last_update=self._context.env.clock.now_ms(), sequence=next(self._context.sequences)
        )

    def wrote(self, report: LocalBrokerData) -> None:
        """Take note that `report` was written."""
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
        """Write a report if one is due or `force`; return whether it was written.

        One is due, too, when this broker came back after it had lost its registration or its session. Needs a
        registered broker and a store that answers; what fails is told in the log and tried again next time.
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
        """Keep a report in the log alone if one is due or `force`; return whether it was."""
        if not self._load.may_write or (not force and self._written is not None and not self._is_due(self._written)):
            return False
        self.wrote(self.next_report())
        return True

    def _is_due(self, written: LocalBrokerData) -> bool:
        if self._load.came_back:
            return True
        config = self._context.config.current
        rule = ReportRule(
            max_interval_ms=config.load_balancer_report_update_max_interval_minutes * 60_000,
            threshold_percent=config.load_balancer_report_update_threshold_percentage,
            weights=resource_weights(config),
        )
        return is_due(written, self.current(), self._context.env.clock.now_ms(), rule)


def _without(names: tuple[str, ...], written: tuple[str, ...]) -> tuple[str, ...]:
    """Return what came after the report: gains and losses are cleared by the write that told of them."""
    told = set(written)
    return tuple(name for name in names if name not in told)
