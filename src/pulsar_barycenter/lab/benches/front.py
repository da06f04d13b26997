"""Balance against disturbance: LeastDisturbance with several bands, beside each of Pulsar's strategies.

A setting of ours dominates a strategy if it has no more area over the floor and no more unloads, and less of one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pulsar_barycenter.replay.references import REFERENCES
from pulsar_barycenter.replay.scenario import NONE, OURS

BANDS: Final = ("2", "4", "8", "16", "32", "64")
"""In percent of a broker; 8 is the default."""
FRONT: Final = {band: f"{OURS} barycenterLeastDisturbanceBandPercentage={band}" for band in BANDS}
"""The bands, and what `run_case` calls LeastDisturbance with each."""


def dominates(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    """Tell whether one has no more regret (area by time) and no more unloads, and less of one."""
    pairs = [(ours[figure], theirs[figure]) for figure in ("regret", "unloads")]
    return all(mine <= other for mine, other in pairs) and any(mine < other for mine, other in pairs)


def not_dominated(
    front: Sequence[Mapping[str, float]], of: Mapping[str, Mapping[str, float]]
) -> tuple[list[str], list[str]]:
    """Return which strategies of `of` no setting of ours dominates: those that one of ours equals in both figures, and
    those that are better than each in one of them. Ours, references and the no-op manager are left out."""
    equal: list[str] = []
    better: list[str] = []
    for name, theirs in of.items():
        if name in {OURS, NONE, *REFERENCES} or any(dominates(ours, theirs) for ours in front):
            continue
        same = any(ours["regret"] == theirs["regret"] and ours["unloads"] == theirs["unloads"] for ours in front)
        (equal if same else better).append(name)
    return equal, better
