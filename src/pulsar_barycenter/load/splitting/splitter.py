"""What a split strategy is asked and answers."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.load.splitting.split_plan import SplitPlan
from pulsar_barycenter.load.strategy import Memory, Strategy

Boundaries = Callable[[str], Sequence[int]]
"""Where a split algorithm would cut the bundle of that name; may raise SplitRefusedError."""


def no_boundaries(_bundle: str) -> Sequence[int]:
    """For a strategy that leaves the boundary to the owner."""
    return ()


class Splitter(Strategy[Memory]):
    """Chooses bundles that are too large."""

    __slots__ = ()

    @abstractmethod
    def decide(
        self, snapshot: LoadSnapshot, bundle_counts: Mapping[str, int], boundaries: Boundaries, memory: Memory
    ) -> tuple[SplitPlan, Memory]:
        """Return the bundles to split, and what is remembered.

        `bundle_counts` says how many bundles each namespace has now; one without a count is taken to have those that
        are reported of it.
        """
