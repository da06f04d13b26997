"""Splitting by the simple load manager: bundles that are too large at the moment of the report.

Each broker looks at its own last report, right after writing it. The limits are those of the modular manager's
`BundleSplitterTask`, but no average is taken: one hot moment of 30 001 msg/s splits a bundle.

Source: Pulsar's `SimpleLoadManagerImpl.doNamespaceBundleSplit` (4.2). Where we differ: splits chosen in one run count
toward the most bundles that a namespace may have.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Self

from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.split_plan import BundleLimits, SplitPlan, plan_splits
from pulsar_barycenter.load.splitting.splitter import Boundaries, Splitter

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "SimpleLoadManagerImpl"


@dataclass(frozen=True, slots=True)
class SimpleSplitter(Splitter[None]):
    """Leaves the boundary to the split algorithm."""

    name: ClassVar[str] = NAME
    limits: BundleLimits = field(default_factory=BundleLimits)

    @classmethod
    def of(cls, config: "BrokerConfig") -> Self:
        return cls(BundleLimits.of(config))

    def start(self) -> None:
        return None

    def decide(
        self, snapshot: LoadSnapshot, bundle_counts: Mapping[str, int], boundaries: Boundaries, memory: None
    ) -> tuple[SplitPlan, None]:
        """Return the bundles of `snapshot` to split by what they carry now, as `plan_splits`."""
        traffic = snapshot.bundles.latest
        return plan_splits(snapshot, traffic, self.limits, bundle_counts, strategy=NAME, window="current"), memory
