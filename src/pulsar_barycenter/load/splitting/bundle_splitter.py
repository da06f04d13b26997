"""BundleSplitterTask: split bundles that are too large.

Worked example (limits 1000 topics, 1000 sessions, 30 000 msg/s, 100 MiB/s): a bundle of two topics with a long-term
average of 20 000 msg/s in and 20 000 out exceeds the limit of message rate, and is split.

The average is over 1000 samples, so a split by rate or bandwidth comes slowly, by design. Topics and sessions are those
of the newest report.

When to use it: it is on unless `loadBalancerAutoBundleSplitEnabled` is off. A bundle is the smallest unit that can
move, so shedding needs bundles much smaller than a broker. When not: namespaces whose number of bundles was chosen for
their load, or with one hot topic: its bundle stays too large however often it is split, until the namespace has
the maximum number of bundles.

Source: Pulsar's `BundleSplitterTask` (4.x). Where we differ: bundles are examined in the order of their names, which
decides which are split when the namespace is nearly full; a bundle that two brokers report is chosen once; and one
check splits at most `barycenterMaxBundlesPerRound` bundles.
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
    """The split strategy of the modular load manager, with its limits; the owner of a bundle chooses the hash at which
    the bundle is split.
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
        """Return the bundles to split because of their averages in the long-term window, see `plan_splits`."""
        traffic = snapshot.bundles.long
        return plan_splits(snapshot, traffic, self.limits, bundle_counts, strategy=NAME, window="long-term"), memory
