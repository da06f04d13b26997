"""The load of a cluster whose brokers run the simple load manager, as the snapshot every strategy decides upon.

The simple manager keeps no windows. What a bundle carries at the moment of the report therefore stands in its
latest figures and in its short and long windows alike, one sample each, and a broker's averages are the sums over
its bundles. A strategy of the modular manager that is asked about such a snapshot decides by instantaneous load.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.load.reports.simple_load_report import LoadReport, as_local_broker_data
from pulsar_barycenter.load.snapshot.builder import SnapshotBuilder
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot


def build_simple_snapshot(
    reports: Mapping[str, LoadReport], *, recently_unloaded: Iterable[str] = (), taken_at_ms: int = 0
) -> LoadSnapshot:
    """Return the snapshot of the live brokers: the keys of `reports`, by broker id."""
    return SimpleSnapshotBuilder().build(reports, recently_unloaded=recently_unloaded, taken_at_ms=taken_at_ms)


class SimpleSnapshotBuilder:
    """Builds one snapshot after the other, each as `build_simple_snapshot` does; see `SnapshotBuilder`."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[LoadReport, LocalBrokerData]] = {}
        self._builder = SnapshotBuilder()

    def prepare(self, broker: str, report: LoadReport) -> bool:
        """Have what the report says ready for `build`; return whether that was anything to do."""
        return self._builder.prepare(broker, self.local(broker, report), {})

    def local(self, broker: str, report: LoadReport) -> LocalBrokerData:
        """Return the report as one of the modular load manager; the same object for the same report."""
        before = self._read.get(broker)
        if before is None or before[0] is not report:
            before = self._read[broker] = (report, as_local_broker_data(report))
        return before[1]

    def build(
        self, reports: Mapping[str, LoadReport], *, recently_unloaded: Iterable[str] = (), taken_at_ms: int = 0
    ) -> LoadSnapshot:
        """Return what `build_simple_snapshot` returns for the same arguments; forgets other brokers."""
        locals_ = {broker: self.local(broker, report) for broker, report in reports.items()}
        self._read = {broker: self._read[broker] for broker in reports}
        plain = self._builder.build(locals_, {}, {}, recently_unloaded=recently_unloaded)
        brokers, bundles = plain.brokers, plain.bundles
        samples = bundles.sampled.astype(np.int64)
        return replace(
            plain,
            brokers=replace(brokers, short=brokers.latest, long=brokers.latest),
            bundles=replace(
                bundles,
                short=bundles.latest,
                long=bundles.latest,
                short_samples=samples,
                long_samples=samples,
                has_windows=bundles.sampled,
            ),
            taken_at_ms=taken_at_ms,
        )
