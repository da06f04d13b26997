"""How many brokers the load needs, now and in the coming hour, from the loads that the rounds saw. Pure."""

from collections.abc import Mapping
from typing import Final

from pulsar_barycenter.balancer.options import HOUR_MS
from pulsar_barycenter.load.sizing import SizingRule, load_of, metric, week_of

_KEPT_HOURS: Final = 2 * 168
"""Two weeks: a peak of last week still counts when its hour of the week ends."""


def with_load(peaks: Mapping[int, float], load: float, now_ms: int) -> dict[int, float]:
    """Return the greatest load (in brokers) of each hour of the last two weeks: `peaks` without older hours, and with
    `load`, the present load, counted for the present hour. Hours are numbered from the epoch on.
    """
    hour = now_ms // HOUR_MS
    kept = {past: peak for past, peak in peaks.items() if hour - past < _KEPT_HOURS}
    return kept | {hour: max(load, kept.get(hour, 0.0))}


def needed(usages: Mapping[str, float], peaks: Mapping[int, float], rule: SizingRule, now_ms: int) -> str:
    """Return, in Prometheus's text format, the number of brokers that the cluster needs now and in the coming hour.
    `usages` maps every broker to its usage, `peaks` the hours of the past to their greatest load (see `with_load`).
    `rule` says how a number of brokers follows from the load.
    """
    week = week_of(((hour * HOUR_MS, peak) for hour, peak in peaks.items()), rule)
    return metric(load_of(usages, rule.idle), rule, week, now_ms)
