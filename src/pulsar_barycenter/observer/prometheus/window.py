"""The series of some steps, added up by instance and bundle. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.prometheus.placing import Placing
from pulsar_barycenter.observer.prometheus.series import (
    BROKER_SERIES,
    CPU,
    RATE_IN,
    STARTED,
    TOPICS,
    ImportRefusedError,
    Series,
    Window,
    differing,
    numbers,
)

INSTANCE: Final = "instance"
_CHOOSE: Final = "choose one with --match LABEL=VALUE"


@dataclass(slots=True)
class BundleFigures:
    """The values of a bundle on an instance (a scrape target): a list with a value for each step, by metric. `present`
    is the number of series that have a value, for each step.
    """

    values: dict[str, list[float]]
    present: list[int]


@dataclass(slots=True)
class InstanceFigures:
    """The values of an instance (a scrape target): for each metric a mapping from step to value. `broker` is the name
    of the broker in the labels of its series.
    """

    values: dict[str, dict[int, float]] = field(default_factory=dict)
    broker: str = ""


class WindowSums:
    """The values of all series of a window, added up for each bundle and each step; and the values of each instance
    (scrape target).
    """

    def __init__(self, window: Window, placing: Placing) -> None:
        self.window = window
        self.bundles: dict[tuple[str, str], BundleFigures] = {}
        """The values of each bundle, by (instance, bundle)."""
        self.instances: dict[str, InstanceFigures] = {}
        self.seen: set[str] = set()
        """The keys of the metrics that a series was added of."""
        self.points = 0
        self._placing = placing

    def add(self, figure: str, every: Sequence[Series]) -> None:
        """Add all series of one metric of topics or bundles to the sums. `figure` is the key of the metric; series
        whose bundle is not known are left out.

        Raises:
            ImportRefusedError: two series are about the same topic on the same instance at the same time.
        """
        first: dict[tuple[str, str], Series] = {}
        for series in every:
            name = self._placing.name_of(series.metric)
            bundle = self._placing.bundle_of(name)
            if not bundle:
                continue
            instance = series.metric.get(INSTANCE, "")
            before = first.setdefault((instance, name), series)
            if before is not series:
                _check_once(before, series, name)
            self._add(figure, instance, bundle, series)

    def _add(self, figure: str, instance: str, bundle: str, series: Series) -> None:
        steps = self.window.steps
        found = self.bundles.get((instance, bundle))
        if found is None:
            found = self.bundles[instance, bundle] = BundleFigures({}, [0] * steps)
        values = found.values.setdefault(figure, [0.0] * steps)
        is_presence = figure == RATE_IN
        for row, value in numbers(series, self.window):
            values[row] += value
            self.points += 1
            if is_presence:
                found.present[row] += 1
        self.seen.add(figure)

    def add_of_brokers(self, figure: str, every: Iterable[Series]) -> None:
        """Add all series of one metric of brokers. `figure` is the metric's key in BROKER_SERIES.

        Raises:
            ImportRefusedError: two series are about the same instance at the same time.
        """
        first: dict[str, Series] = {}
        for series in every:
            instance = series.metric.get(INSTANCE, "")
            before = first.setdefault(instance, series)
            if before is not series:
                _check_once(before, series, f"{BROKER_SERIES[figure]} of {instance}")
            told = self.instances.setdefault(instance, InstanceFigures())
            told.broker = told.broker or (series.metric.get("broker", "") if figure == CPU else "")
            told.values.setdefault(figure, {}).update(numbers(series, self.window))
            self.seen.add(figure)

    def alive(self) -> list[set[str]]:
        """Return for each step the instances that are brokers: those that have, at this step, a value of a metric that
        only brokers have.
        """
        found: list[set[str]] = [set() for _ in range(self.window.steps)]
        for instance, told in self.instances.items():
            for figure, values in told.values.items():
                if figure != STARTED:  # other processes have it, too
                    for row in values:
                        found[row].add(instance)
        for (instance, _), figures in self.bundles.items():
            for row, count in enumerate(figures.present):
                if count:
                    found[row].add(instance)
        return found

    def topics(self, key: tuple[str, str], row: int) -> int:
        """Return the number of topics of a bundle on an instance at step `row`. `key` is the pair of instance and
        bundle.
        """
        figures = self.bundles[key]
        told = figures.values.get(TOPICS)
        return round(told[row]) if told is not None else figures.present[row]


def _check_once(before: Series, series: Series, what: str) -> None:
    common = {at for at, _ in before.values} & {at for at, _ in series.values}
    if common:
        raise ImportRefusedError(
            f"{what} has two values at {count_of(len(common), 'time')}, from two series that differ in"
            f" {', '.join(differing(before.metric, series.metric)) or 'no label'}; {_CHOOSE}"
        )
