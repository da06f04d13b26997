"""Compares the recorded history with its replay under today's configuration, and says whether they differ much."""

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.advice.document import Compared, Observed
from pulsar_barycenter.replay.measures import Measures

_MOVES: Final = "bundles moved by the leader"
_BALANCE: Final = "max / mean"
_DEVIATION: Final = "deviation, % of a broker"
_MUCH: Final = 2.0
"""Values differ much if one is more than this many times the other."""
_SLIGHT: Final = {_MOVES: 10.0, _BALANCE: 0.2, _DEVIATION: 3.0}
"""Values that differ by at most this never differ much: a few moves, or small imbalances."""
_BASE: Final = {_MOVES: 0.0, _BALANCE: 1.0, _DEVIATION: 0.0}
"""The value of a cluster that is even and moves nothing. How many times one value is the other is computed from their
distances to this value.
"""


def compared(observed: Observed, replays: Sequence[Measures]) -> list[Compared]:
    """Return the values of the recorded history that are known, each with the mean of the same value over `replays`."""
    replayed = {
        _MOVES: fmean(each.unloads for each in replays),
        "bundles placed because a broker had gone": fmean(each.assignments for each in replays),
        "flaps": fmean(each.flaps for each in replays),
        "splits": fmean(each.splits for each in replays),
        _BALANCE: fmean(each.max_over_mean for each in replays),
        _DEVIATION: 100 * fmean(each.deviation for each in replays),
    }
    recorded = (
        observed.moves,
        observed.departures,
        observed.flaps,
        observed.splits,
        observed.max_over_mean,
        None if observed.deviation is None else 100 * observed.deviation,
    )
    return [
        Compared(title=title, recorded=float(was), replayed=replayed[title])
        for title, was in zip(replayed, recorded, strict=True)
        if was is not None
    ]


def unlikeness(values: Sequence[Compared]) -> str:
    """Return a warning if the replay differs much from the recorded history in the number of moves, in balance or in
    deviation. Return "" if it does not, or if none of these values is known.
    """
    found = [each for each in values if _differs_much(each)]
    if not found:
        return ""
    told = "; ".join(f"{each.title}: {each.recorded:.4g} recorded, {each.replayed:.4g} replayed" for each in found)
    return (
        f"the replay with the present configuration differs much from the recorded history in"
        f" {count_of(len(found), 'value')} ({told}): operators moved bundles, settings or the leader changed, or the"
        " replay is wrong; find out which before you trust the rest"
    )


def _differs_much(value: Compared) -> bool:
    if value.title not in _BASE or abs(value.recorded - value.replayed) <= _SLIGHT[value.title]:
        return False
    low, high = sorted(abs(each - _BASE[value.title]) for each in (value.recorded, value.replayed))
    return high > _MUCH * low
