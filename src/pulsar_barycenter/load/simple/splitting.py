"""Splitting by the simple load manager: bundles that are too large in the newest report.

Each broker examines its own report right after writing it. The limits are those of the modular load manager's
`BundleSplitterTask`, but without averages: a single measurement of 30 001 msg/s splits a bundle.

Source: Pulsar's `SimpleLoadManagerImpl.doNamespaceBundleSplit` (4.2). Where we differ: splits that are chosen in one
run count toward the maximum number of bundles of a namespace.
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
    """The split strategy of the simple load manager, with its limits. The owner of a bundle chooses the hash at which
    the bundle is split, by its split algorithm.
    """

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
        """Return the bundles of `snapshot` to split because of their load in the newest reports, see `plan_splits`."""
        traffic = snapshot.bundles.latest
        return plan_splits(snapshot, traffic, self.limits, bundle_counts, strategy=NAME, window="current"), memory
