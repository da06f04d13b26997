"""range_equally_divide: cut the hash range in its middle, wherever the topics lie.

Worked example: 0x0000..0x8000 is cut at 0x4000.

When to use it: many topics of no great difference, whose hashes spread by themselves; two halves can be told without
asking for the topics. When not: few topics, which may all lie in one half.

Source: Pulsar's `RangeEquallyDivideBundleSplitAlgorithm`.
"""

from typing import Final

from pulsar_barycenter.load.splitting.request import SplitRequest

NAME: Final = "range_equally_divide"


def range_equally_divide(request: SplitRequest) -> tuple[int, ...]:
    """Return the one boundary, rounded down."""
    return (request.range.lower + (request.range.upper - request.range.lower) // 2,)
