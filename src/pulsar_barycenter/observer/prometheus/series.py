"""The metrics of Pulsar's brokers that an import reads, and the form of series in an answer of Prometheus."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

RATE_IN: Final = "rate_in"
RATES: Final = (RATE_IN, "rate_out", "throughput_in", "throughput_out")
COUNTS: Final = ("producers", "consumers")
TOPICS: Final = "topics"
CPU, NETWORK_IN, NETWORK_OUT, STARTED = "cpu", "network_in", "network_out", "started"

TOPIC_SERIES: Final = {
    RATE_IN: "pulsar_rate_in",
    "rate_out": "pulsar_rate_out",
    "throughput_in": "pulsar_throughput_in",
    "throughput_out": "pulsar_throughput_out",
    "producers": "pulsar_producers_count",
    "consumers": "pulsar_consumers_count",
}
"""The values that are read for topics, each with its metric. Pulsar exports them for each topic if
`exposeTopicLevelMetricsInPrometheus` is true.
"""
BUNDLE_SERIES: Final = {
    RATE_IN: "pulsar_bundle_msg_rate_in",
    "rate_out": "pulsar_bundle_msg_rate_out",
    "throughput_in": "pulsar_bundle_msg_throughput_in",
    "throughput_out": "pulsar_bundle_msg_throughput_out",
    "producers": "pulsar_bundle_producer_count",
    "consumers": "pulsar_bundle_consumer_count",
    TOPICS: "pulsar_bundle_topics_count",
}
"""The values that are read for bundles, each with its metric. Pulsar exports them if `exposeBundlesMetricsInPrometheus`
is true.
"""
BROKER_SERIES: Final = {
    CPU: "pulsar_lb_cpu_usage",
    NETWORK_IN: "pulsar_lb_bandwidth_in_usage",
    NETWORK_OUT: "pulsar_lb_bandwidth_out_usage",
    "alive": "pulsar_broker_topics_count",
    STARTED: "process_start_time_seconds",
}
"""The values that are read for brokers, each with its metric. Usages are in percent of the limit.

Processes that are no brokers export the last metric, too, so it does not show that an instance is a broker.
"""
OF_BARYCENTER: Final = "barycenter_brokers_active"
"""A metric that only Barycenter's brokers export: it shows that a cluster is no Apache Pulsar."""


MAX_VALUE: Final = 1e15
"""The greatest value of a series; greater values are ignored. Results that are computed from it are finite, and a time
fits into a report.
"""
MAX_TIME_S: Final = 253_402_214_400.0
"""The latest time in an answer, epoch seconds: the last day of the year 9999, the end of dates."""


class ImportRefusedError(Exception):
    """The metrics cannot be imported; the text says why, and what to do."""


class AnswerTooLargeError(ImportRefusedError):
    """The answer to a query would be too large; a query for fewer steps may be answered."""


class Series(msgspec.Struct, frozen=True):
    """A series of Prometheus: its labels, and its values with their times in epoch seconds."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


def check_times(every: Iterable[Series], where: str) -> None:
    """Check that all times of these series are between the years 1970 and 9999.

    Raises:
        ImportRefusedError: a time is before 1970 or after 9999; the text names `where`.
    """
    for series in every:
        for at_s, _ in series.values:
            if not 0 <= at_s <= MAX_TIME_S:
                raise ImportRefusedError(
                    f"{where} has a value at the time {at_s:g} (epoch seconds), which is not between the years 1970 and"
                    " 9999; leave this series out with --match, or repair its source"
                )


class Matrix(msgspec.Struct, frozen=True, rename="camel"):
    """The data of Prometheus's answer to a query over a time range."""

    result_type: str
    result: list[Series]


@dataclass(frozen=True, slots=True)
class Window:
    """A window of an import: `steps` steps at the times `first_ms`, `first_ms + step_ms`, and so on (epoch ms)."""

    first_ms: int
    step_ms: int
    steps: int

    @property
    def last_ms(self) -> int:
        """The time of the last step of the window (epoch ms)."""
        return self.first_ms + (self.steps - 1) * self.step_ms

    def row(self, at_s: float) -> int:
        """Return the number of the window's step that is at the time `at_s` (epoch seconds), counted from 0; -1 if no
        step is at that time.
        """
        row, rest = divmod(round(at_s * 1000) - self.first_ms, self.step_ms)
        return row if rest == 0 and 0 <= row < self.steps else -1


@dataclass(frozen=True, slots=True)
class Extent:
    """The time range of one cluster's stored metrics, in epoch ms, both ends inclusive. `cluster` is the value of the
    label `cluster`, "" if the metrics do not have this label.
    """

    cluster: str
    first_ms: int
    last_ms: int


class MetricsSource(Protocol):
    """A source of stored metrics: files, or a Prometheus."""

    async def extents(self, since_ms: int, until_ms: int) -> Sequence[Extent]:
        """Return the extents of the clusters whose brokers have metrics from `since_ms` to `until_ms` (both inclusive),
        sorted.

        Raises:
            ImportRefusedError: the metrics cannot be read.
        """
        ...

    async def series(self, name: str, cluster: str, window: Window) -> Sequence[Series]:
        """Return all series of the metric `name` in a cluster. Each series has the values at the steps of the window;
        steps without a value are left out.

        Raises:
            AnswerTooLargeError: the answer would be too large; ask for fewer steps.
            ImportRefusedError: the metrics cannot be read.
        """
        ...


def numbers(series: Series, window: Window) -> Iterator[tuple[int, float]]:
    """Yield the step (its number in the window) and the value of each point of a series that is at a step of the window
    and has a value from 0 to MAX_VALUE; other points are left out.
    """
    for at_s, text in series.values:
        row = window.row(at_s)
        value = _number(text)
        if row >= 0 and value is not None:
            yield row, value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= MAX_VALUE else None


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the labels in which two series differ, sorted, each as a text with both values: `label=one or other`."""
    return [
        f"{name}={one.get(name, '')!r} or {other.get(name, '')!r}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]


def matches(metric: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    """Return whether a series has all of the labels `wanted`; a missing label has the value ""."""
    return all(metric.get(name, "") == value for name, value in wanted)
