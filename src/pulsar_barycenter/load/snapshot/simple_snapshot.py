"""The snapshot of a cluster whose brokers run the simple load manager.

The simple load manager keeps no windows. So the load of a bundle in the report is also that of its short and long
windows, with one sample each, and the averages of a broker are its newest load. A strategy of the modular load manager
that decides on such a snapshot therefore uses instantaneous loads.
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
    """Return the snapshot of the live brokers, which are the keys (broker ids) of `reports`, from reports of the simple
    load manager.
    """
    return SimpleSnapshotBuilder().build(reports, recently_unloaded=recently_unloaded, taken_at_ms=taken_at_ms)


class SimpleSnapshotBuilder:
    """Builds one snapshot after the other. The result is always equal to that of `build_simple_snapshot`; parts that
    did not change are reused (see `SnapshotBuilder`).
    """

    def __init__(self) -> None:
        self._read: dict[str, tuple[LoadReport, LocalBrokerData]] = {}
        self._builder = SnapshotBuilder()

    def prepare(self, broker: str, report: LoadReport) -> bool:
        """Build the rows of one broker's report now, so that the next `build` need not do it. Return False if they had
        been built already and did not change.
        """
        return self._builder.prepare(broker, self.local(broker, report), {})

    def local(self, broker: str, report: LoadReport) -> LocalBrokerData:
        """Return the report as a report of the modular load manager. For the same `report` object, the result is the
        same object.
        """
        before = self._read.get(broker)
        if before is None or before[0] is not report:
            before = self._read[broker] = (report, as_local_broker_data(report))
        return before[1]

    def build(
        self, reports: Mapping[str, LoadReport], *, recently_unloaded: Iterable[str] = (), taken_at_ms: int = 0
    ) -> LoadSnapshot:
        """Return the snapshot, equal to the result of `build_simple_snapshot` for these arguments. Brokers that are not
        in `reports` are forgotten: their rows are not kept for later snapshots.
        """
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
