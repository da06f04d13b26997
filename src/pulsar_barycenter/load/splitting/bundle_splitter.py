"""BundleSplitterTask: which bundles are too large.

Worked example (limits 1000 topics, 1000 sessions, 30 000 msg/s, 100 MiB/s): a bundle of two topics with 20 000 msg/s in
and 20 000 out, on its long-term average, is split by its rate.

The average is over 1000 samples, so a split by rate or bandwidth comes slowly, by design; topics and sessions count
as reported last.

When to use it: it is on unless `loadBalancerAutoBundleSplitEnabled` is off; a bundle is the least that can move, so
shedding needs bundles much smaller than a broker. When not: namespaces whose number of bundles was chosen for their
load, and topics that cannot be parted: one hot topic makes its bundle too large however often that is split, until the
namespace has as many bundles as it may.

Source: Pulsar's `BundleSplitterTask` (4.x). Where we differ: bundles are looked at in the order of their names, which
decides who is served while the namespace fills up, one that two brokers report is chosen once, and no more are split at
once than `barycenterMaxBundlesPerRound` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Self

from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.split_plan import BundleLimits, SplitPlan, plan_splits
from pulsar_barycenter.load.splitting.splitter import Boundaries, Splitter

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

NAME: Final = "BundleSplitterTask"


@dataclass(frozen=True, slots=True)
class BundleSplitterTask(Splitter[None]):
    """Leaves the boundary to the owner of the bundle."""

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
        """Return the bundles to split by their long-term averages, as `plan_splits`."""
        traffic = snapshot.bundles.long
        return plan_splits(snapshot, traffic, self.limits, bundle_counts, strategy=NAME, window="long-term"), memory
