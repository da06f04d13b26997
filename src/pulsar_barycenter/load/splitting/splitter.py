"""The contract of a split strategy: its arguments, and the plan that it returns."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.split_plan import SplitPlan
from pulsar_barycenter.load.strategy import Memory, Strategy

Boundaries = Callable[[str], Sequence[int]]
"""Returns the hashes at which a split algorithm would split the bundle of this name; may raise SplitRefusedError."""


def no_boundaries(_bundle: str) -> Sequence[int]:
    """Return no boundaries. This is for split strategies that let the owner of a bundle choose the hash at which the
    bundle is split.
    """
    return ()


class Splitter(Strategy[Memory]):
    """A strategy that chooses the bundles to split."""

    __slots__ = ()

    @abstractmethod
    def decide(
        self, snapshot: LoadSnapshot, bundle_counts: Mapping[str, int], boundaries: Boundaries, memory: Memory
    ) -> tuple[SplitPlan, Memory]:
        """Return the bundles to split, and the strategy's memory for the next run.

        `bundle_counts` is the present number of bundles by namespace; for a namespace without an entry, the bundles
        that brokers report are counted. `boundaries` is a function that returns the hashes at which to split a bundle.
        """
