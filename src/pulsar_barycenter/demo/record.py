"""The record of a demo: the load of each broker over time, and every move of a bundle with its reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The load of one broker at one time. `msg_rate` is in + out messages per second, `throughput` in + out
    bytes per second, `usage` a fraction of capacity; `at_s` is seconds since 1970."""

    at_s: float
    broker: str
    msg_rate: float
    throughput: float
    bundles: int
    usage: float


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the demo's cluster: a bundle was assigned, unloaded or split, or a broker joined or was killed."""

    at_s: float
    kind: str
    bundle: str
    source: str | None
    destination: str | None
    reason: str


@dataclass(slots=True)
class Record:
    """Everything that the demo observed in one run: samples and events, oldest first."""

    started_at_s: float
    samples: list[LoadSample] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    killed_at_s: float | None = None
    killed_broker: str | None = None
    killed_bundles: set[str] = field(default_factory=set)

    def count(self, kind: str) -> int:
        return sum(event.kind == kind for event in self.events)


def imbalance(loads: Sequence[float]) -> float | None:
    """Return the greatest of the brokers' loads divided by their mean: 1 if all are equal, n if one of n brokers has
    all the load. None if there is no load.
    """
    mean = fmean(loads) if loads else 0.0
    return max(loads) / mean if mean > 0 else None


def imbalance_over_time(samples: Sequence[LoadSample], *, step_s: float = 1.0) -> list[tuple[float, float]]:
    """Return (start of the step, max/mean of the brokers' message rates) for each step that has load.

    Only the brokers with a sample in the step count; of several samples of a broker the last counts.
    """
    steps: dict[int, dict[str, float]] = {}
    for sample in samples:
        steps.setdefault(int(sample.at_s // step_s), {})[sample.broker] = sample.msg_rate
    points = ((step * step_s, imbalance(list(loads.values()))) for step, loads in sorted(steps.items()))
    return [(at_s, value) for at_s, value in points if value is not None]


def mean_imbalance(samples: Sequence[LoadSample], from_s: float, until_s: float) -> float | None:
    """Return the mean of `imbalance_over_time` over the steps that begin in from_s ≤ time < until_s; None if no such
    step has load.
    """
    values = [value for at_s, value in imbalance_over_time(samples) if from_s <= at_s < until_s]
    return fmean(values) if values else None
