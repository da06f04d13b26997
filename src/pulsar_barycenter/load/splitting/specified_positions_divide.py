"""specified_positions_divide: split at the positions that an administrator gives.

Worked example: 0x0000..0x8000 with positions 0x6000, 0x2000 and 0x9000 is split at 0x2000 and 0x6000.

When to use it: manual splits at positions that are known to divide the load. When not: automatic splits, which have no
positions, so that every split would fail.

Source: Pulsar's `SpecifiedPositionsBundleSplitAlgorithm`. Where we differ: a position that is given twice counts once
(Pulsar returns it twice).
"""

from typing import Final

from pulsar_barycenter.load.splitting.request import SplitRefusedError, SplitRequest

NAME: Final = "specified_positions_divide"
FORCE_NAME: Final = "specified_positions_divide_force"


def specified_positions_divide(request: SplitRequest) -> tuple[int, ...]:
    """Return the positions (hashes) in the request that are inside the bundle's range, both ends excluded, in ascending
    order; no positions if the bundle has fewer than two topics.

    Raises:
        SplitRefusedError: the request has no position.
    """
    positions = specified_positions_divide_force(request)
    return positions if len(request.hashes) > 1 else ()


def specified_positions_divide_force(request: SplitRequest) -> tuple[int, ...]:
    """Return the positions (hashes) in the request that are inside the bundle's range, both ends excluded, in ascending
    order. The number of topics does not matter.

    Raises:
        SplitRefusedError: the request has no position.
    """
    if not request.positions:
        raise SplitRefusedError(
            "specified_positions_divide needs the hashes at which to split: in the body of the request,"
            " or as --split-boundaries"
        )
    return tuple(sorted({p for p in request.positions if request.range.lower < p < request.range.upper}))
