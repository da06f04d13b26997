"""The Prometheus metrics of the extensible load manager, with Pulsar's names and labels.

Source: Pulsar's `ExtensibleLoadManagerImpl.getMetrics`, `AssignCounter`, `UnloadCounter`, `SplitCounter`.
"""

from collections.abc import Mapping

from pulsar_barycenter.broker.load_manager.metrics import ManagerMetrics
from pulsar_barycenter.broker.load_manager.pipeline_feed import PipelineState
from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData


class ExtensibleMetrics(ManagerMetrics):
    """Counters of this broker's decisions, and gauges of its own load."""

    def __init__(self, cluster: str, broker_id: str) -> None:
        super().__init__(cluster, broker_id)
        self._usage = self._gauge(
            "pulsar_lb_resource_usage",
            "Usage of the broker, a fraction: the largest now (max) or weighted and averaged (max_ema)",
            "metric",
            "feature",
        )
        self._usage_stats = self._gauge(
            "pulsar_lb_resource_usage_stats",
            "Mean and standard deviation of the usages of all brokers, as the leader knows them",
            "metric",
            "feature",
            "stat",
        )
        self._unloads = self._counter(
            "pulsar_lb_unload_broker_breakdown", "Brokers considered for unloading", "result", "reason"
        )
        self._splits_why = self._counter("pulsar_lb_bundles_split_breakdown", "Bundles split", "result", "reason")
        self._assigned = self._counter("pulsar_lb_assign_broker_breakdown", "Assignments of bundles", "result")
        self._pipeline_lag_s = self._gauge(
            "barycenter_pipeline_lag_seconds", "Age of the oldest load report that the pipeline has not published yet"
        )
        self._pipeline_silent_s = self._gauge(
            "barycenter_pipeline_silent_seconds",
            "Time since the pipeline last looked for load reports; grows if it stopped, not if the load is steady",
        )
        self._pipeline_in_use = self._gauge(
            "barycenter_pipeline_in_use", "1 if decisions use the pipeline's windows, 0 if the newest reported values"
        )
        self._unreported = self._gauge(
            "barycenter_brokers_without_load_report", "Registered brokers whose load this broker does not know"
        )

    def report(self, load: BrokerLoadData) -> None:
        """Set the gauges of this broker's usage of CPU, memory and network to the values in `load`."""
        self._show_usages(load)
        for feature, value in (("max_ema", load.weighted_max_ema), ("max", load.max_resource_usage)):
            self._usage.labels(**self._labels, metric="loadBalancing", feature=feature).set(value)

    def unreported(self, brokers: int) -> None:
        """Set the gauge that counts the registered brokers whose load this broker does not know to `brokers`."""
        self._unreported.labels(**self._labels).set(brokers)

    def usage_stats(self, mean: float, deviation: float) -> None:
        """Set the gauges of the mean and the standard deviation of the usages of all brokers. If one of the two is 0 or
        negative, change nothing, as Pulsar does.
        """
        if mean > 0 and deviation > 0:
            for stat, value in (("avg", mean), ("std", deviation)):
                labels = {**self._labels, "metric": "bundleUnloading", "feature": "max_ema", "stat": stat}
                self._usage_stats.labels(**labels).set(value)

    def unloaded(self, *, brokers: int, bundles: int, reasons: Mapping[tuple[str, str], int]) -> None:
        """Count the results of one shedding round. `bundles` is the number of unloaded bundles, `brokers` the number of
        brokers that they were unloaded from. `reasons` maps (result, reason) to the number of brokers with this result
        for this reason.
        """
        self._count_unloads(brokers, bundles)
        for (result, reason), count in reasons.items():
            labels = {**self._labels, "metric": "bundleUnloading", "result": result, "reason": reason}
            self._unloads.labels(**labels).inc(count)

    def split(self, reason: str = "Unknown", result: str = "Success") -> None:
        self._count_split()
        self._splits_why.labels(**self._labels, metric="bundlesSplit", result=result, reason=reason).inc()

    def assigned(self, result: str) -> None:
        """Count an assignment of a bundle by its result: Success, Skip (the bundle has an owner already) or Failure."""
        self._assigned.labels(**self._labels, metric="assign", result=result).inc()

    def pipeline(self, state: PipelineState | None) -> None:
        """Set the gauges that say whether decisions use the averages of the pipeline, a separate program, and how late
        it is. None: no pipeline is configured.
        """
        self._pipeline_in_use.labels(**self._labels).set(state is not None and state.in_use)
        if state is None:
            self._pipeline_lag_s.clear()
            self._pipeline_silent_s.clear()
        else:
            self._pipeline_silent_s.labels(**self._labels).set((state.silent_ms or 0) / 1000)
            self._pipeline_lag_s.labels(**self._labels).set(state.lag_ms / 1000)
