"""The Prometheus metrics of the simple load manager: those of all load managers, and this broker's rank and quotas."""

from pulsar_barycenter.broker.load_manager.metrics import LoadMetrics
from pulsar_barycenter.load.reports.load_report import RESOURCES
from pulsar_barycenter.load.simple.ranking import Ranking

_QUOTAS = {
    "cpu": ("pulsar_lb_quota_pct_cpu", "CPU that the quotas of the broker's bundles allot, percent of its limit"),
    "memory": ("pulsar_lb_quota_pct_memory", "Memory that the quotas allot, percent of its limit"),
    "bandwidth_in": (
        "pulsar_lb_quota_pct_bandwidth_in",
        "Incoming bandwidth that the quotas allot, percent of its limit",
    ),
    "bandwidth_out": (
        "pulsar_lb_quota_pct_bandwidth_out",
        "Outgoing bandwidth that the quotas allot, percent of its limit",
    ),
}


class SimpleLoadMetrics(LoadMetrics):
    def __init__(self, cluster: str, broker_id: str) -> None:
        super().__init__(cluster, broker_id)
        self._broker_id = broker_id
        self._rank = self._own_gauge("pulsar_lb_load_rank", "Rank of the broker by the placement strategy")
        self._quotas = {resource: self._own_gauge(name, text) for resource, (name, text) in _QUOTAS.items()}

    def ranked(self, ranking: Ranking | None) -> None:
        """Set the gauges of this broker's rank and quotas, if it is in the ranking."""
        row = None if ranking is None else ranking.snapshot.brokers.index.get(self._broker_id)
        if ranking is None or row is None:
            return
        self._rank.set(float(ranking.rank[row]))
        for resource, gauge in self._quotas.items():
            gauge.set(float(ranking.allocated_percent[RESOURCES.index(resource), row]))
