"""The extensible load manager's figures for Prometheus, with Pulsar's names and labels.

Source: Pulsar's `ExtensibleLoadManagerImpl.getMetrics`, `AssignCounter`, `UnloadCounter`, `SplitCounter`.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from barycenter.broker.load_manager.pipeline_feed import PipelineState
from barycenter.load.reports.extensible_reports import BrokerLoadData

_USAGES = {
    "cpu": ("pulsar_lb_cpu_usage", "CPU usage of the broker, percent of its limit"),
    "memory": ("pulsar_lb_memory_usage", "Memory usage of the broker, percent of its limit"),
    "direct_memory": ("pulsar_lb_directMemory_usage", "Direct memory usage of the broker, percent of its limit"),
    "bandwidth_in": ("pulsar_lb_bandwidth_in_usage", "Incoming bandwidth of the broker, percent of its limit"),
    "bandwidth_out": ("pulsar_lb_bandwidth_out_usage", "Outgoing bandwidth of the broker, percent of its limit"),
}


class ExtensibleMetrics:
    """Counters of what this broker decided, gauges of its own load."""

    def __init__(self, cluster: str, broker_id: str) -> None:
        self.registry = CollectorRegistry()
        self._labels = {"cluster": cluster, "broker": broker_id}
        self._usages = {
            field: Gauge(name, text, ("cluster", "broker", "metric"), registry=self.registry)
            for field, (name, text) in _USAGES.items()
        }
        self._usage = Gauge(
            "pulsar_lb_resource_usage",
            "Usage of the broker, a fraction: the largest now (max) or weighted and averaged (max_ema)",
            ("cluster", "broker", "metric", "feature"),
            registry=self.registry,
        )
        self._usage_stats = Gauge(
            "pulsar_lb_resource_usage_stats",
            "Mean and standard deviation of the usages of all brokers, as the leader knows them",
            ("cluster", "broker", "metric", "feature", "stat"),
            registry=self.registry,
        )
        self._unload_brokers = self._counter("pulsar_lb_unload_broker", "Brokers that bundles were unloaded from")
        self._unload_bundles = self._counter("pulsar_lb_unload_bundle", "Bundles unloaded")
        self._unloads = self._counter(
            "pulsar_lb_unload_broker_breakdown", "Brokers considered for unloading", "result", "reason"
        )
        self._splits = self._counter("pulsar_lb_bundles_split", "Bundles split")
        self._splits_why = self._counter("pulsar_lb_bundles_split_breakdown", "Bundles split", "result", "reason")
        self._assigned = self._counter("pulsar_lb_assign_broker_breakdown", "Assignments of bundles", "result")
        self._pipeline_lag_s = self._gauge(
            "barycenter_pipeline_lag_seconds", "Age of the oldest load report that the pipeline has not published yet"
        )
        self._pipeline_in_use = self._gauge(
            "barycenter_pipeline_in_use", "1 if decisions go by the pipeline's figures, 0 if by the newest ones"
        )
        self._unreported = self._gauge(
            "barycenter_brokers_without_load_report", "Registered brokers of which this broker knows no load"
        )

    def report(self, load: BrokerLoadData) -> None:
        """Show the usages of this broker."""
        for field, gauge in self._usages.items():
            gauge.labels(**self._labels, metric="loadBalancing").set(getattr(load, field).percent)
        for feature, value in (("max_ema", load.weighted_max_ema), ("max", load.max_resource_usage)):
            self._usage.labels(**self._labels, metric="loadBalancing", feature=feature).set(value)

    def unreported(self, brokers: int) -> None:
        """Show of how many registered brokers no load is known here."""
        self._unreported.labels(**self._labels).set(brokers)

    def usage_stats(self, mean: float, deviation: float) -> None:
        """Show how even the cluster is; only if both are positive, as in Pulsar."""
        if mean > 0 and deviation > 0:
            for stat, value in (("avg", mean), ("std", deviation)):
                labels = {**self._labels, "metric": "loadBalancing", "feature": "max_ema", "stat": stat}
                self._usage_stats.labels(**labels).set(value)

    def unloaded(self, *, brokers: int, bundles: int, reasons: Mapping[tuple[str, str], int]) -> None:
        """Count one round; `reasons` counts brokers by result and reason."""
        self._unload_brokers.labels(**self._labels, metric="bundleUnloading").inc(brokers)
        self._unload_bundles.labels(**self._labels, metric="bundleUnloading").inc(bundles)
        for (result, reason), count in reasons.items():
            labels = {**self._labels, "metric": "bundleUnloading", "result": result, "reason": reason}
            self._unloads.labels(**labels).inc(count)

    def split(self, reason: str = "Unknown", result: str = "Success") -> None:
        self._splits.labels(**self._labels, metric="bundlesSplit").inc()
        self._splits_why.labels(**self._labels, metric="bundlesSplit", result=result, reason=reason).inc()

    def assigned(self, result: str) -> None:
        """Count an assignment: Success, Skip (somebody owns it already) or Failure."""
        self._assigned.labels(**self._labels, metric="assign", result=result).inc()

    def pipeline(self, state: PipelineState | None) -> None:
        """Show whether decisions go by the pipeline, and how late it is; None: nobody asks."""
        self._pipeline_in_use.labels(**self._labels).set(state is not None and state.in_use)
        if state is None:
            self._pipeline_lag_s.clear()
        else:
            self._pipeline_lag_s.labels(**self._labels).set(state.lag_ms / 1000)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, ("cluster", "broker"), registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ("cluster", "broker", "metric", *labels), registry=self.registry)
