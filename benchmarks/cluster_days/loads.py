"""The load of a run: topics that follow parts of traces, and what a broker has to be able to carry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Final, Self

from benchmarks.manager_comparison.managers import FASTER
from pulsar_barycenter.demo.plan import ClientPlan, TopicPlan
from pulsar_barycenter.lab.trace_files import csv_files, trace_in
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.replay.traces import Trace, read_trace_with_gaps

NAMESPACE: Final = "public/days"
BUNDLES: Final = 64
BROKERS: Final = 4
PARTS: Final = 4
"""Each trace makes as many topics, each of another day and another time of the day."""
PAYLOAD: Final = 1_024
RATE: Final = 300.0
"""The mean of all messages sent, per second."""
_LEAST_RATE: Final = 2.0
_MOST_RATE: Final = 100.0
_MEAN_USAGE: Final = 0.45
_GAP_FROM_S: Final = 0.02
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of a run for which it is not measured, and then is."""

    warm_s: float
    measured_s: float

    @property
    def whole_s(self) -> float:
        return self.warm_s + self.measured_s


@dataclass(frozen=True)
class Load:
    """The topics of a run with the rates that they follow, for `times`. The traces are scaled so that the mean of all
    messages sent in the measured time is RATE."""

    topics: Sequence[Trace]
    times: Times

    @classmethod
    def of(cls, traces: Sequence[Trace], run: int, times: Times) -> Self:
        """Return the load of a run, counted from 0. Runs with different numbers have different days, as long as the
        traces last; part p of a trace begins six hours later in the day than part p - 1."""
        parts = [_part(trace, run * PARTS + part, part * 6, times) for trace in traces for part in range(PARTS)]
        plain = cls(parts, times)
        factor = RATE / fmean(sum(plain.unbounded_at(at_s)) for at_s in plain.measured_at())
        scaled = [replace(part, values=tuple(value * factor for value in part.values)) for part in parts]
        return cls(scaled, times)

    def measured_at(self) -> list[float]:
        """Return the times that count, in seconds from the start, a second apart."""
        return [self.times.warm_s + second for second in range(int(self.times.measured_s))]

    def unbounded_at(self, at_s: float) -> list[float]:
        return [topic.rate_at(at_s * FASTER) * FASTER for topic in self.topics]

    def rates_at(self, at_s: float) -> dict[str, float]:
        """Return the messages that are sent to each topic per second, `at_s` seconds from the start."""
        rates = zip(self.topics, self.unbounded_at(at_s), strict=True)
        return {topic.name: min(max(rate, _LEAST_RATE), _MOST_RATE) for topic, rate in rates}

    @cached_property
    def most_bytes(self) -> float:
        """What a broker can carry in one direction, in bytes per second: the mean load is _MEAN_USAGE of it."""
        mean = fmean(sum(self.rates_at(at_s).values()) for at_s in self.measured_at())
        return mean * PAYLOAD / BROKERS / _MEAN_USAGE

    @cached_property
    def bundle_of(self) -> Mapping[str, str]:
        """The bundle of each topic."""
        bundles = NamespaceBundles.equal(NamespaceName.parse(NAMESPACE), BUNDLES)
        return {topic.name: str(bundles.find(TopicName.parse(topic.name))) for topic in self.topics}

    def usages_at(self, at_s: float) -> dict[str, float]:
        """Return the part of a broker that each bundle takes, `at_s` seconds from the start."""
        found: dict[str, float] = {}
        for topic, rate in self.rates_at(at_s).items():
            bundle = self.bundle_of[topic]
            found[bundle] = found.get(bundle, 0.0) + rate * PAYLOAD / self.most_bytes
        return found

    def first_owners(self, brokers: Sequence[str]) -> dict[str, str]:
        """Return a broker for each bundle: brokers are as even as they can be by the load of the time before the
        measured one, the heaviest bundle first."""
        warm = [self.usages_at(float(second)) for second in range(int(self.times.warm_s))]
        mean = {bundle: fmean(usages[bundle] for usages in warm) for bundle in warm[0]}
        return evenly_placed(mean, brokers)

    def plan(self, service_url: str) -> ClientPlan:
        return ClientPlan(
            service_url=service_url,
            topics=[TopicPlan(topic.name, topic.step_ms, list(topic.values)) for topic in self.topics],
            duration_s=self.times.whole_s,
            speedup=FASTER,
            payload_bytes=PAYLOAD,
            least_rate=_LEAST_RATE,
            most_rate=_MOST_RATE,
            gap_from_s=_GAP_FROM_S,
        )


def evenly_placed(usages: Mapping[str, float], brokers: Sequence[str]) -> dict[str, str]:
    """Return a broker for each bundle: the heaviest bundle first, each on the broker that carries least."""
    carried = dict.fromkeys(brokers, 0.0)
    owners = {}
    for bundle in sorted(usages, key=lambda name: (-usages[name], name)):
        owners[bundle] = min(carried, key=lambda broker: carried[broker])
        carried[owners[bundle]] += usages[bundle]
    return owners


def read_traces(paths: Sequence[Path]) -> list[Trace]:
    """Return the traces of CSV files and of folders with such files."""
    return [trace_in(file, read_trace_with_gaps) for file in csv_files(paths)]


def _part(trace: Trace, day: int, hour: int, times: Times) -> Trace:
    first = int((day * _DAY_S + hour * 3_600) / trace.step_s) % len(trace.values)
    steps = int(times.whole_s * FASTER / trace.step_s) + 2
    values = (trace.values * (2 + steps // len(trace.values)))[first : first + steps]
    name = f"persistent://{NAMESPACE}/{trace.name.lower()}-{day}"
    return replace(trace, name=name, values=values)
