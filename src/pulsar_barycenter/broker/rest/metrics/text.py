"""Writes metrics as text: those of topics by our own code, all others by the Prometheus client library.

There may be many thousands of topics. The labels of a topic are formatted once for all its metrics, and a value becomes
a line as soon as it is read. So the text of 10,000 topics takes tenths of a second instead of several seconds, and no
objects are left for the garbage collector. The text is joined and compressed one metric family at a time: one call on
tens of megabytes would block all threads.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

PLAIN_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_END: Final = b"# EOF\n"
_GZIP_LEVEL: Final = 4

Sample = tuple[str, Mapping[str, str], float]


class Lines:
    """The samples of metrics as lines of text, grouped by metric name, in the order in which the names were first
    added.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self.count = 0
        """The number of calls of `add`."""

    def add(self, names: Iterable[str], labels: str, values: Iterable[float]) -> None:
        """Add a sample for each name, with the value at the same index. `labels` are in the form that `labels_text`
        returns.
        """
        lines = self._lines
        self.count += 1
        for name, value in zip(names, values, strict=True):
            line = f"{name}{{{labels}}} {value}\n"
            if name in lines:
                lines[name].append(line)
            else:
                lines[name] = [line]

    def pieces(self, help_of: Mapping[str, str], *, openmetrics: bool) -> Iterator[bytes]:
        """Yield the text of one metric name after the other: help, type and samples. A name's lines are removed from
        this object when its text is yielded, because releasing the memory of all lines at once would take long.
        """
        for name in list(self._lines):
            yield (_head(name, help_of[name], openmetrics) + "".join(self._lines.pop(name))).encode()


def labels_text(**labels: str) -> str:
    """Return labels as the text that is written between the braces. Two such texts may be joined with a comma."""
    return ",".join([f'{name}="{escaped(value)}"' for name, value in labels.items()])


def wants_openmetrics(accept: str) -> bool:
    """Return whether the `Accept` header prefers OpenMetrics to the plain text format of Prometheus. If it prefers
    neither, return False.
    """
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # the version is not a number
        return False
    return content_type.startswith("application/openmetrics-text")


def write_text(
    collectors: Iterable[Collector],
    lines: Lines,
    help_of: Mapping[str, str],
    *,
    openmetrics: bool,
    compress: bool,
) -> list[bytes]:
    """Return the text of all samples, those of `collectors` and those in `lines`, in pieces. The format is OpenMetrics
    or the plain text format of Prometheus; with `compress`, the text is compressed by gzip. This may be called on any
    thread.
    """
    all_collectors = _All(collectors)
    text: bytes = (
        generate_openmetrics(all_collectors)  # type: ignore[no-untyped-call]
        if openmetrics
        else generate_latest(all_collectors)
    )
    pieces = [text.removesuffix(_END), *lines.pieces(help_of, openmetrics=openmetrics)]
    if openmetrics:
        pieces.append(_END)
    return _compressed(pieces) if compress else pieces


def _compressed(pieces: Iterable[bytes]) -> list[bytes]:
    gzip = zlib.compressobj(_GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    packed = [gzip.compress(piece) for piece in pieces]
    return [piece for piece in (*packed, gzip.flush()) if piece]


def _head(name: str, help_text: str, openmetrics: bool) -> str:
    is_counter = name.endswith("_total")
    family = name.removesuffix("_total") if openmetrics else name
    return f"# HELP {family} {help_text}\n# TYPE {family} {'counter' if is_counter else 'gauge'}\n"


def escaped(value: str) -> str:
    """Return a label value, escaped as the OpenMetrics and the plain text format need it, without quotes."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class Samples(Collector):
    """A collector that returns the given samples as metric families: the samples of one name together, with help and
    type. A name that ends in `_total` is a counter, any other a gauge.
    """

    def __init__(self, samples: Iterable[Sample], help_of: Mapping[str, str]) -> None:
        self._samples = samples
        self._help_of = help_of

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for name, labels, value in self._samples:
            family = families.get(name)
            if family is None:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = families[name] = kind(name, self._help_of[name])
            family.add_sample(name, dict(labels), float(value))
        return iter(families.values())


class Labelled(Collector):
    """A collector that returns the samples of `registry` with more labels: the labels `pulsar` if the metric's name
    begins with `pulsar_`, else the labels `ours`. A label that a sample has already stays.

    The `_created` samples of counters are left out: in the plain text format each of them would be one more gauge.
    """

    def __init__(self, registry: Collector, ours: Mapping[str, str], pulsar: Mapping[str, str]) -> None:
        self._registry = registry
        self._ours = ours
        self._pulsar = pulsar

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            labels = self._pulsar if family.name.startswith("pulsar_") else self._ours
            family.samples = [
                sample._replace(labels={**labels, **sample.labels})
                for sample in family.samples
                if sample.name != f"{family.name}_created"
            ]
            yield family


class _All(Collector):
    def __init__(self, collectors: Iterable[Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        for collector in self._collectors:
            yield from collector.collect()
