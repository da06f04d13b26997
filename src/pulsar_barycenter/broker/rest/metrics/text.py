"""Samples as text: of topics, which may be many thousands, and of all else by Prometheus' own library.

The labels of a topic are written down once for all its figures, and a figure becomes a line as soon as it is read: the
text of 10,000 topics takes tenths of a second instead of several, and leaves the collector of garbage nothing to look
at. It is put together and compressed family by family, as anything that is done at once to tens of megabytes holds all
threads up.
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
    """Samples as lines, those of one name together, in the order in which the names came."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self.count = 0
        """How often lines were added."""

    def add(self, names: Iterable[str], labels: str, values: Iterable[float]) -> None:
        """Add a sample for each of `names`, whose values are in the same order, with labels as `labels_text` says."""
        lines = self._lines
        self.count += 1
        for name, value in zip(names, values, strict=True):
            line = f"{name}{{{labels}}} {value}\n"
            if name in lines:
                lines[name].append(line)
            else:
                lines[name] = [line]

    def pieces(self, help_of: Mapping[str, str], *, openmetrics: bool) -> Iterator[bytes]:
        """Yield the text of each name, behind its help and type; its lines are freed: all at once would take long."""
        for name in list(self._lines):
            yield (_head(name, help_of[name], openmetrics) + "".join(self._lines.pop(name))).encode()


def labels_text(**labels: str) -> str:
    """Return labels as they stand between the braces; two such texts are joined by a comma."""
    return ",".join([f'{name}="{escaped(value)}"' for name, value in labels.items()])


def wants_openmetrics(accept: str) -> bool:
    """Tell which of the two formats an `Accept` header asks for; whoever asks for neither gets the plain one."""
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is none
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
    """Return all samples in one of the formats, in pieces, compressed by gzip or not. May run on any thread."""
    every = _Every(collectors)
    text: bytes = (
        generate_openmetrics(every)  # type: ignore[no-untyped-call]
        if openmetrics
        else generate_latest(every)
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
    """Return the value of a label as both formats write it, without its quotes."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class Samples(Collector):
    """Samples that were read off already, those of one name together, behind its help and type."""

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
    """The samples of a registry with the labels that tell this broker from others; `pulsar` ones are Pulsar's.

    When a figure began to be counted is left out: the plain format would show that as one gauge more each.
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


class _Every(Collector):
    def __init__(self, collectors: Iterable[Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        for collector in self._collectors:
            yield from collector.collect()
