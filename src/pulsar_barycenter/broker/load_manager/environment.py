"""What a load manager uses of the machine: resource usage, files and threads. A simulation passes its own
implementation.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from pulsar_barycenter.broker.access.tls_ports import own_tls
from pulsar_barycenter.broker.cluster.service_urls import between_brokers
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.pipeline_feed import FilePipeline, NoPipeline, PipelineFeed
from pulsar_barycenter.broker.load_manager.reporting.host_usage import FixedUsage, UsageMeter, usage_meter
from pulsar_barycenter.broker.load_manager.reporting.load_report_topic import (
    ClientReportSender,
    ReportLogs,
    TopicReportLog,
)
from pulsar_barycenter.cluster_logs.decision_log import DecisionLog
from pulsar_barycenter.cluster_logs.load_report_log import FileReportLog, NoReportLog, ReportLog

T = TypeVar("T")


class Offload(Protocol):
    """A function that runs work which would block the event loop for long. The work must not use objects that code on
    the event loop changes.
    """

    async def __call__(self, work: Callable[[], T]) -> T: ...


async def in_a_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread and return its result; the event loop continues."""
    return await asyncio.to_thread(work)


async def at_once(work: Callable[[], T]) -> T:
    """Run `work` on the event loop itself and return its result, because virtual time needs one thread."""
    return work()


@dataclass(frozen=True, slots=True)
class LoadManagerEnvironment:
    meter: UsageMeter
    report_log: ReportLog
    pipeline: PipelineFeed
    decisions: DecisionLog
    offload: Offload = in_a_thread

    @staticmethod
    def of_machine(context: LoadManagerContext, decisions: DecisionLog | None = None) -> "LoadManagerEnvironment":
        """Return the environment of a real broker: it measures the machine's usage, writes files in
        `barycenterDataDir`, and, if configured, publishes load reports in a topic.

        If the configuration switches the report log off, no pipeline is used either: the pipeline is a separate program
        that computes averages from the report log.
        """
        config = context.config.current
        data = Path(config.barycenter_data_dir)
        if not config.load_report_log_enabled:
            report_log: ReportLog = NoReportLog()
            pipeline: PipelineFeed = NoPipeline()
        else:
            report_log = FileReportLog(data / "load-reports", retention_hours=config.load_report_log_retention_hours)
            pipeline = FilePipeline(data / "pipeline" / "publication")
        urls, by_tls = context.urls, config.broker_client_tls_enabled
        service_url = between_brokers(urls.broker_url, urls.broker_url_tls, by_tls=by_tls)
        if config.barycenter_load_report_topic_enabled and service_url is not None:
            report_log = ReportLogs(
                report_log, TopicReportLog(partial(ClientReportSender, service_url, own_tls(config)))
            )
        decisions = decisions or context.decisions or DecisionLog(context.urls.broker_id, data / "decisions")
        return LoadManagerEnvironment(usage_meter(config), report_log, pipeline, decisions)

    @staticmethod
    def in_memory(
        context: LoadManagerContext,
        *,
        meter: UsageMeter | None = None,
        report_log: ReportLog | None = None,
        pipeline: PipelineFeed | None = None,
    ) -> "LoadManagerEnvironment":
        """Return an environment that uses no files and no threads, for tests and simulations. Without `meter` the usage
        is always 0 %; without `report_log` reports are dropped; without `pipeline` there is no pipeline.
        """
        return LoadManagerEnvironment(
            meter or FixedUsage(),
            report_log or NoReportLog(),
            pipeline or NoPipeline(),
            DecisionLog(context.urls.broker_id),
            offload=at_once,
        )
