"""The measures of a run; docs/measures.md has the formula of each.

Over the live brokers of a step, u is usage (`Outcome.usage`, 1.0 is full), U its mean, F the floor of the step.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from pulsar_barycenter.load.moved_back import Whereabouts, Window
from pulsar_barycenter.load.rounds.balance import EVEN_ABOVE_MEAN
from pulsar_barycenter.load.snapshot.load_snapshot import Floats
from pulsar_barycenter.replay.outcome import Moved, Outcome

FLAPS: Final = Window(again=30 * 60_000, back=60 * 60_000)
"""The times (ms) within which another move of a bundle counts as a flap."""
EVEN_STEPS: Final = 3
"""The load is even if no broker is more than EVEN_ABOVE_MEAN above the mean for this many consecutive steps."""


class Measures(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The measures of one replayed run, which say how well it was balanced and at what cost; docs/measures.md defines
    them. Usages are fractions of a broker, `area` is a usage times hours.

    `even_after_s` has one value for the start of the run and one for each time at which events happened: the seconds
    from then until the load was even. None: it was not even before the next event, or before the end of the run.
    """

    max_over_mean: float
    deviation: float
    spread: float
    overloaded_s: float
    area: float
    regret: float
    even_after_s: tuple[float | None, ...]
    unloads: int
    assignments: int
    splits: int
    sessions_disturbed: int
    unserved_topic_s: float
    moved_messages: float
    flaps: int
    wrong_placements: int
    last_unload_s: float | None
    rate_max_over_mean: float
    thrash: float
    failed_unloads: int


@dataclass(frozen=True, slots=True)
class Measure:
    """Describes a measure. `name` is its field in `Measures`, `title` its name in tables, `about` says what it
    measures.
    """

    name: str
    title: str
    unit: str
    about: str

    def text(self, measures: Measures) -> str:
        """Return the value of this measure in `measures` as text for a table. If the measure has several values, a None
        among them becomes "never"; a single None becomes "-".
        """
        value: Any = getattr(measures, self.name)
        if isinstance(value, tuple):
            return " ".join("never" if each is None else f"{each / 60:.0f}" for each in value)
        if value is None:
            return "-"
        if self.unit == "%":
            return f"{value * 100:.1f}"
        return f"{value}" if isinstance(value, int) else f"{value:.4g}"


MEASURES: Final = (
    Measure("max_over_mean", "max / mean", "", "mean over the steps of max(u) / U; steps without load are left out"),
    Measure("deviation", "deviation", "%", "mean over the steps of the standard deviation of u over the live brokers"),
    Measure("spread", "spread", "%", "mean over the steps of max(u) - min(u)"),
    Measure(
        "overloaded_s", "overloaded", "s", "sum over steps and brokers of the step's length where u is above the limit"
    ),
    Measure("area", "area", "usage h", "sum over the steps of (max(u) - F) times the step's length in hours"),
    Measure("regret", "regret", "%", "area over the hours replayed: by how much the fullest was too full on average"),
    Measure("even_after_s", "even after", "min", "from the start and each event to the first of three even steps"),
    Measure("unloads", "unloads", "", "bundles that a round moved"),
    Measure("assignments", "assigned", "", "bundles placed that had no owner, those of the start left out"),
    Measure("splits", "splits", "", "bundles that were divided"),
    Measure("sessions_disturbed", "sessions", "", "producers and consumers of all bundles when they moved, summed"),
    Measure(
        "unserved_topic_s", "without service", "topic s", "topics times the seconds in which no broker served them"
    ),
    Measure("moved_messages", "moved", "msg/s", "rate in + out of all bundles that a round moved, summed"),
    Measure("flaps", "flaps", "", "moves of a bundle within 30 min of its last one, or back within an hour"),
    Measure("wrong_placements", "wrong", "", "moves after which the destination was above the mean usage"),
    Measure("last_unload_s", "last unload", "s", "from the start to the last bundle that a round moved"),
    Measure(
        "rate_max_over_mean", "rate max / mean", "", "mean over the steps of the greatest rate in + out over the mean"
    ),
    Measure(
        "thrash", "thrash", "", "load that went to and fro: what a broker both took and gave by unloads, over all load"
    ),
    Measure("failed_unloads", "failed", "", "unloads that failed"),
)
"""The measures in the order of tables. For each of them, less is better."""


def measure(outcome: Outcome) -> Measures:
    """Return the measures of a run, computed from its outcome."""
    hours = outcome.step_ms / 3_600_000
    live = outcome.live
    count = np.maximum(live.sum(axis=1), 1)
    usage = np.where(live, outcome.usage, 0.0)
    mean = usage.sum(axis=1) / count
    greatest = usage.max(axis=1, initial=0.0)
    least = np.where(live, outcome.usage, np.inf).min(axis=1, initial=np.inf)
    least = np.where(np.isfinite(least), least, 0.0)
    variance = (np.where(live, outcome.usage - mean[:, None], 0.0) ** 2).sum(axis=1) / count
    over = float((live & (outcome.usage > outcome.overload_limit)).sum()) * outcome.step_ms / 1000
    area = float(np.maximum(greatest - outcome.floor, 0.0).sum()) * hours
    start_ms = int(outcome.at_ms[0])
    unloads = [move for move in outcome.moves if move.kind == "unload"]
    moves = [move for move in outcome.moves if move.source]
    return Measures(
        max_over_mean=_mean_ratio(greatest, mean),
        deviation=float(np.sqrt(variance).mean()),
        spread=float((greatest - least).mean()),
        overloaded_s=over,
        area=area,
        regret=area / (hours * len(outcome.at_ms)),
        even_after_s=_even_after(outcome, greatest, mean),
        unloads=len(unloads),
        assignments=sum(1 for move in moves if move.kind == "assign"),
        splits=len(outcome.splits),
        sessions_disturbed=sum(move.sessions for move in moves),
        unserved_topic_s=outcome.unserved_topic_s,
        moved_messages=float(sum(move.rate for move in unloads)),
        flaps=_flaps(moves),
        wrong_placements=sum(1 for move in moves if move.misplaced),
        last_unload_s=(unloads[-1].at_ms - start_ms) / 1000 if unloads else None,
        rate_max_over_mean=_mean_ratio(
            np.where(live, outcome.rate, 0.0).max(axis=1, initial=0.0), np.where(live, outcome.rate, 0.0).sum(1) / count
        ),
        thrash=_thrash(unloads, float(outcome.rate.sum(axis=1).mean())),
        failed_unloads=outcome.failed_unloads,
    )


def _mean_ratio(greatest: Floats, mean: Floats) -> float:
    loaded = mean > 0
    return float((greatest[loaded] / mean[loaded]).mean()) if loaded.any() else 1.0


def _thrash(unloads: list[Moved], load: float) -> float:
    """Return the load that unloads moved back and forth, as a fraction of the load of all brokers (msg/s). For each
    broker it is the smaller of the load that it received and the load that it lost by unloads. A broker that only
    received or only lost load adds nothing.

    `load` is the mean message rate of all brokers together.
    """
    took: dict[str, float] = defaultdict(float)
    gave: dict[str, float] = defaultdict(float)
    for move in unloads:
        took[move.destination] += move.rate
        gave[move.source] += move.rate
    return sum(min(taken, gave[broker]) for broker, taken in took.items()) / load if load > 0 else 0.0


def _even_after(outcome: Outcome, greatest: Floats, mean: Floats) -> tuple[float | None, ...]:
    """Return how many seconds passed until the load was even: from the start, and from each time of events. None: it
    was not even before the next event or the end. Even: in EVEN_STEPS consecutive steps, no broker was more than
    EVEN_ABOVE_MEAN above the mean usage.

    `greatest` and `mean` are the greatest and the mean usage of a broker in each step.
    """
    even = greatest <= mean + EVEN_ABOVE_MEAN
    times = sorted({int(outcome.at_ms[0]), *outcome.event_ms})
    steps = [int(np.searchsorted(outcome.at_ms, at, side="right")) - 1 for at in times] + [len(even)]
    found: list[float | None] = []
    for at_ms, first, end in zip(times, steps, steps[1:], strict=False):
        run = 0
        for step in range(first, end):
            run = run + 1 if even[step] else 0
            if run == EVEN_STEPS:
                begun_ms = int(outcome.at_ms[step - EVEN_STEPS + 1])
                found.append(max(0, begun_ms - at_ms) / 1000)
                break
        else:
            found.append(None)
    return tuple(found)


def _flaps(moves: list[Moved]) -> int:
    """Return the number of flaps: unloads of a bundle too soon after its previous move, or back to a broker that it
    left too recently (`FLAPS` has the times). `moves` are oldest first. The assignment of a bundle whose broker left is
    not a flap.
    """
    seen: dict[str, Whereabouts] = defaultdict(Whereabouts)
    count = 0
    for move in moves:
        bundle, at_ms = seen[move.bundle], move.at_ms
        if move.kind == "unload":
            count += FLAPS.is_flap(bundle.since_last(at_ms), bundle.since_left(move.destination, at_ms))
        bundle.moved(move.source, at_ms)
    return count
