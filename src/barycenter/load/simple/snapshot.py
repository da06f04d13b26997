"""The load of a cluster whose brokers run the simple load manager, as the snapshot every strategy decides upon.

The simple manager keeps no windows. What a bundle carries at the moment of the report therefore stands in its
latest figures and in its short and long windows alike, one sample each, and a broker's averages are the sums over
its bundles. A strategy of the modular manager that is asked about such a snapshot decides by instantaneous load.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from barycenter.load.simple.load_report import LoadReport, as_local_broker_data
from barycenter.load.snapshot import LoadSnapshot, build_snapshot


def build_simple_snapshot(
    reports: Mapping[str, LoadReport], *, recently_unloaded: Iterable[str] = (), taken_at_ms: int = 0
) -> LoadSnapshot:
    """Return the snapshot of the live brokers: the keys of `reports`, by broker id."""
    locals_ = {broker: as_local_broker_data(report) for broker, report in reports.items()}
    plain = build_snapshot(locals_, {}, {}, recently_unloaded=recently_unloaded)
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
