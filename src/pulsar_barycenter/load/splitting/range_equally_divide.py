"""range_equally_divide: split the hash range in its middle, wherever the topics are.

Worked example: 0x0000..0x8000 is split at 0x4000.

When to use it: many similar topics, whose hashes spread evenly; the algorithm does not need the topics. When not: few
topics, which may all be in one half.

Source: Pulsar's `RangeEquallyDivideBundleSplitAlgorithm`.
"""

from typing import Final

from pulsar_barycenter.load.splitting.request import SplitRequest

NAME: Final = "range_equally_divide"


def range_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Return one hash at which to split the bundle: the middle of its range, rounded down."""
    return (request.range.lower + (request.range.upper - request.range.lower) // 2,)
