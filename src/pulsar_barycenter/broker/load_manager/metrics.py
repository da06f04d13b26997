"""The Prometheus metrics of load managers.

Names and labels are Pulsar's if Pulsar has the metric (`brk_` in Pulsar is `pulsar_` in the endpoint, with a `cluster`
label). Each load manager has its own registry, so that several brokers can run in one process.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary

from pulsar_barycenter.load.reports.extensible_reports import BrokerLoadData
from pulsar_barycenter.load.reports.load_report import LocalBrokerData

_USAGES = {
    "cpu": ("pulsar_lb_cpu_usage", "CPU usage of the broker, percent of its limit"),
    "memory": ("pulsar_lb_memory_usage", "Memory usage of the broker, percent of its limit"),
    "direct_memory": ("pulsar_lb_directMemory_usage", "Direct memory usage of the broker, percent of its limit"),
    "bandwidth_in": ("pulsar_lb_bandwidth_in_usage", "Incoming bandwidth of the broker, percent of its limit"),
    "bandwidth_out": ("pulsar_lb_bandwidth_out_usage", "Outgoing bandwidth of the broker, percent of its limit"),
}


class ManagerMetrics:
    """The metrics that every load manager has: counters of the unloads and splits that this broker decided, and gauges
    of this broker's own usages.
    """

    def __init__(self, cluster: str, broker_id: str) -> None:
        self.registry = CollectorRegistry()
        self._labels = {"cluster": cluster, "broker": broker_id}
        self._usages = {field: self._gauge(name, text, "metric") for field, (name, text) in _USAGES.items()}
        self._unload_brokers = self._counter("pulsar_lb_unload_broker", "Brokers that bundles were unloaded from")
        self._unload_bundles = self._counter("pulsar_lb_unload_bundle", "Bundles unloaded")
        self._splits = self._counter("pulsar_lb_bundles_split", "Bundles split")

    def _show_usages(self, load: LocalBrokerData | BrokerLoadData) -> None:
        for field, gauge in self._usages.items():
            gauge.labels(**self._labels, metric="loadBalancing").set(getattr(load, field).percent)

    def _count_unloads(self, brokers: int, bundles: int) -> None:
        self._unload_brokers.labels(**self._labels, metric="bundleUnloading").inc(brokers)
        self._unload_bundles.labels(**self._labels, metric="bundleUnloading").inc(bundles)

    def _count_split(self) -> None:
        self._splits.labels(**self._labels, metric="bundlesSplit").inc()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ("cluster", "broker", "metric", *labels), registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, ("cluster", "broker", *labels), registry=self.registry)


class LoadMetrics(ManagerMetrics):
    """The metrics of the modular and the simple load manager: those of every load manager, counters of assignments, and
    gauges that say whether averages of the pipeline, a separate program, are used.
    """

    def __init__(self, cluster: str, broker_id: str) -> None:
        super().__init__(cluster, broker_id)
        self._assignment = Summary(
            "pulsar_broker_load_manager_bundle_assigment",
            "Time to choose the broker of a bundle, ms",
            ("cluster", "broker"),
            registry=self.registry,
        ).labels(**self._labels)
        self.pipeline_lag_s = self._own_gauge(
            "barycenter_pipeline_lag_seconds", "Age of the oldest load report that the pipeline has not published yet"
        )
        self.pipeline_silent_s = self._own_gauge(
            "barycenter_pipeline_silent_seconds",
            "Time since the pipeline last looked for load reports; grows if it stopped, not if the load is steady",
        )
        self.pipeline_in_use = self._own_gauge(
            "barycenter_pipeline_in_use", "1 if decisions use the pipeline's windows, 0 if the broker's own"
        )
        self.pipeline_published = self._own_gauge(
            "barycenter_pipeline_published",
            "1 if there is a publication of a pipeline, in use or late; 0 if there never was one",
        )
        self.unreported = self._own_gauge(
            "barycenter_brokers_without_load_report", "Registered brokers whose load report this broker does not know"
        )

    def report(self, data: LocalBrokerData) -> None:
        """Set the gauges of this broker's usages, from its load report."""
        self._show_usages(data)

    def unloaded(self, *, brokers: int, bundles: int) -> None:
        """Count the unloaded bundles of one shedding round, and the brokers that they were unloaded from."""
        self._count_unloads(brokers, bundles)

    def split(self) -> None:
        self._count_split()

    def assigned(self, seconds: float) -> None:
        self._assignment.observe(seconds * 1000)

    def _own_gauge(self, name: str, text: str) -> Gauge:
        return self._gauge(name, text).labels(**self._labels)
