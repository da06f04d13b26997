"""Exports the status of the running pipeline to Prometheus; it is read at each request."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import BaseRequestHandler
from typing import cast

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.registry import Collector

from pulsar_barycenter.pipeline.running.phases import PhaseTimes
from pulsar_barycenter.pipeline.running.status import STATES, PipelineStatus

_PREFIX = "barycenter_pipeline_"
_COUNTERS = {
    "batches": "Batches folded",
    "failures": "Batches that failed and are tried again",
    "reports": "Load reports accepted, including late ones",
    "samples": "Samples of bundles in the accepted reports",
    "duplicate_reports": "Reports dropped because they had been folded before",
    "late_reports": "Reports that came too late to change an average",
    "overdue_reports": "Reports folded after an interval or average that they affect was settled",
    "corrupt_reports": "Reports put into quarantine",
    "decisions": "Decisions read",
    "overdue_decisions": "Decisions read after their interval was settled",
    "corrupt_decisions": "Lines of decision logs put into quarantine",
}
_GAUGES = {"held_reports": "Reports that wait for the one before them", "bundles": "Bundles published"}


class StatusCollector(Collector):
    """Returns the status of a pipeline as metrics for Prometheus. Its counters count from the start of the pipeline's
    process.
    """

    def __init__(self, status: Callable[[], PipelineStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        yield StateSetMetricFamily(
            f"{_PREFIX}state", "1 for the state the pipeline is in", {state: state == status.state for state in STATES}
        )
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(_PREFIX + name, text, getattr(status, name))
        for name, text in _GAUGES.items():
            yield GaugeMetricFamily(_PREFIX + name, text, getattr(status, name))
        if status.as_of:
            text = "Time of the newest load report, since 1970"
            yield GaugeMetricFamily(f"{_PREFIX}newest_report_timestamp_seconds", text, status.as_of / 1000)
        if status.refold is not None:
            text = "Begin and end of the time range in which late reports make the tables incomplete, since 1970"
            family = GaugeMetricFamily(f"{_PREFIX}refold_timestamp_seconds", text, labels=["bound"])
            for bound, at in (("since", status.refold.since), ("until", status.refold.until)):
                family.add_metric([bound], at / 1000)
            yield family
        if status.looked_at:
            text = (
                "Time at which the pipeline last looked for load reports, since 1970; advances under steady load, too"
            )
            yield GaugeMetricFamily(f"{_PREFIX}last_look_timestamp_seconds", text, status.looked_at / 1000)
        yield _quantiles(
            "lag_seconds",
            "Oldest report of a batch to its publication, of the last 1,000 batches",
            [_seconds(status.lag_ms_p50), _seconds(status.lag_ms_p99)],
        )
        yield _quantiles(
            "batch_seconds",
            "Duration of a batch, of the last 1,000 batches",
            [status.batch_seconds_p50, status.batch_seconds_p99],
        )
        yield from _phases(status.phases)


def _quantiles(name: str, text: str, values: list[float | None]) -> Metric:
    family = GaugeMetricFamily(_PREFIX + name, text, labels=["quantile"])
    for quantile, value in zip(("0.5", "0.99"), values, strict=True):
        if value is not None:
            family.add_metric([quantile], value)
    return family


def _phases(phases: Mapping[str, PhaseTimes]) -> Iterator[Metric]:
    text = "Time of each phase of Spark's triggers that read reports (`durationMs`)"
    total = CounterMetricFamily(f"{_PREFIX}trigger_phase_seconds", text, labels=["phase"])
    recent = GaugeMetricFamily(
        f"{_PREFIX}trigger_phase_recent_seconds", f"{text}, of the last 1,000 triggers", labels=["phase", "quantile"]
    )
    for phase, times in phases.items():
        total.add_metric([phase], times.total_ms / 1000)
        recent.add_metric([phase, "0.5"], times.ms_p50 / 1000)
        recent.add_metric([phase, "0.99"], times.ms_p99 / 1000)
    yield total
    yield recent


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


@contextmanager
def serve_metrics(status: Callable[[], PipelineStatus], port: int, *, silence_s: float = 10.0) -> Iterator[int]:
    """Serve metrics at `http://127.0.0.1:<port>/metrics` in a thread until the block ends; yield the port. If `port` is
    0, the system chooses a free one.

    The connection of a client that sends nothing for `silence_s` seconds is closed.

    Raises:
        OSError: the port cannot be opened.
    """
    registry = CollectorRegistry()
    registry.register(StatusCollector(status))
    try:
        server, thread = start_http_server(port, "127.0.0.1", registry)
    except OSError as error:
        reason = f"cannot answer Prometheus at 127.0.0.1:{port}: {error.strerror}; choose another --metrics-port"
        raise OSError(error.errno, reason) from error
    handler = cast(type[BaseRequestHandler], server.RequestHandlerClass)
    server.RequestHandlerClass = type("Impatient", (handler,), {"timeout": silence_s})
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
