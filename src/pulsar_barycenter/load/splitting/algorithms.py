"""The split algorithms by the names that `defaultNamespaceBundleSplitAlgorithm` and administrators use.

They need no numpy: the owner of a bundle runs them, even if it is never the leader.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pulsar_barycenter.load.splitting import (
    flow_or_qps_equally_divide,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
)
from pulsar_barycenter.load.splitting.request import SplitRefusedError, SplitRequest

SplitAlgorithm = Callable[[SplitRequest], tuple[int, ...]]
"""Returns the hashes at which to split, ascending; empty: do not split the bundle."""

ALGORITHMS: Final[Mapping[str, SplitAlgorithm]] = {
    range_equally_divide.NAME: range_equally_divide.range_equally_divide,
    topic_count_equally_divide.NAME: topic_count_equally_divide.topic_count_equally_divide,
    flow_or_qps_equally_divide.NAME: flow_or_qps_equally_divide.flow_or_qps_equally_divide,
    specified_positions_divide.NAME: specified_positions_divide.specified_positions_divide,
    specified_positions_divide.FORCE_NAME: specified_positions_divide.specified_positions_divide_force,
}


def split_algorithm(name: str) -> SplitAlgorithm:
    """Return the split algorithm with this name, as a function.

    Raises:
        SplitRefusedError: there is no algorithm of this name.
    """
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        raise SplitRefusedError(f"{name!r} is not a split algorithm; use one of {', '.join(ALGORITHMS)}")
    return algorithm
