"""Compares balance and disturbance: LeastDisturbance with several bands against each of Pulsar's strategies.

A setting of ours dominates a strategy if its regret and its unloads are not higher, and one of them is lower.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pulsar_barycenter.replay.references import REFERENCES
from pulsar_barycenter.replay.scenario import NONE, OURS

BANDS: Final = ("2", "4", "8", "16", "32", "64")
"""In percent of a broker; 6 is the default."""
FRONT: Final = {band: f"{OURS} barycenterLeastDisturbanceBandPercentage={band}" for band in BANDS}
"""Band to the name of LeastDisturbance with this band in `run_case`."""


def dominates(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    """Return whether `ours` has no more regret and no more unloads than `theirs`, and less of at least one of the
    two.
    """
    pairs = [(ours[figure], theirs[figure]) for figure in ("regret", "unloads")]
    return all(mine <= other for mine, other in pairs) and any(mine < other for mine, other in pairs)


def not_dominated(
    front: Sequence[Mapping[str, float]], of: Mapping[str, Mapping[str, float]]
) -> tuple[list[str], list[str]]:
    """Return the strategies in `of` that no setting of LeastDisturbance in `front` dominates (see `dominates`), in two
    lists.

    The first list has the strategies whose regret and unloads both equal those of a setting. The second list has the
    other strategies: each setting has more regret or more unloads than they have. LeastDisturbance itself, the
    reference strategies (REFERENCES) and the no-op manager are left out.
    """
    equal: list[str] = []
    better: list[str] = []
    for name, theirs in of.items():
        if name in {OURS, NONE, *REFERENCES} or any(dominates(ours, theirs) for ours in front):
            continue
        same = any(ours["regret"] == theirs["regret"] and ours["unloads"] == theirs["unloads"] for ours in front)
        (equal if same else better).append(name)
    return equal, better
