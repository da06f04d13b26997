"""Splitting by the simple load manager: bundles that are too large at the moment of the report.

Each broker looks at its own last report, right after writing it. The limits are those of the modular manager's
`BundleSplitterTask`, but no average is taken: one hot moment of 30 001 msg/s splits a bundle.

Source: Pulsar's `SimpleLoadManagerImpl.doNamespaceBundleSplit` (4.2). Where we differ: splits chosen in one run count
toward the most bundles that a namespace may have.
"""

from collections.abc import Mapping
from typing import Final

from barycenter.load.snapshot.load_snapshot import LoadSnapshot
from barycenter.load.splitting.bundle_splitter import BundleSplitterSettings, SplitPlan, plan_splits

NAME: Final = "SimpleLoadManagerImpl"


def simple_splits(
    snapshot: LoadSnapshot, settings: BundleSplitterSettings, bundle_counts: Mapping[str, int]
) -> SplitPlan:
    """Return the bundles of `snapshot` to split; `bundle_counts` says how many bundles each namespace has now."""
    latest = snapshot.bundles.latest
    return plan_splits(snapshot, latest, settings, bundle_counts, strategy=NAME, window="current")
