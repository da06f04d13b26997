"""Reads metrics from files: answers of query_range as JSON, or OpenMetrics text with times.

A file whose name ends with .json is read as JSON, every other file as text. Lines of text are those of `promtool tsdb
dump` (times in ms) and of OpenMetrics (times in seconds). All files are in memory, so their size is bounded. A step has
the newest value since the step before it (exclusive), up to its own time (inclusive).
"""

import io
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.observer.prometheus.series import (
    BROKER_SERIES,
    BUNDLE_SERIES,
    OF_BARYCENTER,
    TOPIC_SERIES,
    Extent,
    ImportRefusedError,
    Matrix,
    Series,
    Window,
    check_times,
    matches,
)
from pulsar_barycenter.whole_files.reading import read_regular

MAX_FILE_BYTES: Final = 256 << 20
"""The maximum size of a file, and of all files together."""
_NAME: Final = "__name__"
_CLUSTER: Final = "cluster"
_READ: Final = {*TOPIC_SERIES.values(), *BUNDLE_SERIES.values(), *BROKER_SERIES.values(), OF_BARYCENTER}
_TIME: Final = r"[0-9]+(?:\.[0-9]*)?(?:[eE]\+?[0-9]{1,3})?"
_LINE: Final = re.compile(rf"([a-zA-Z_:][\w:]*)?(?:\{{(.*)\}})?\s+(\S+)\s+({_TIME})(?:\s+#.*)?", re.ASCII)
_LABEL: Final = re.compile(r'\s*"?([\w.:]+)"?\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_ESCAPE: Final = re.compile(r"\\(.)")
_MS_FROM: Final = 1e11
"""A time of at least this is in ms: as seconds it would be in the year 5138."""


class _Answer(msgspec.Struct):
    status: str
    data: Matrix


class ExportFiles:
    """A source of metrics that a Prometheus exported to files."""

    def __init__(self, every: Iterable[Series], labels: Sequence[tuple[str, str]] = ()) -> None:
        """Start with the series `every`, each of which has the label `__name__`. Series that do not have all labels in
        `labels` are ignored.
        """
        self._by_name: dict[str, list[Series]] = {}
        for series in every:
            name = series.metric.get(_NAME, "")
            if name in _READ and matches(series.metric, labels):
                series.values.sort(key=lambda point: point[0])
                self._by_name.setdefault(name, []).append(series)

    @property
    def spacing_s(self) -> float:
        """Return the most frequent time between two consecutive values of a series, in whole seconds; 0 if no series
        has two values.
        """
        counts: dict[float, int] = {}
        for every in self._by_name.values():
            for series in every[:100]:
                for (before, _), (after, _) in pairwise(series.values[:100]):
                    spacing = round(after - before)
                    counts[spacing] = counts.get(spacing, 0) + 1
        return max(counts, key=lambda spacing: counts[spacing], default=0)

    async def extents(self, since_ms: int, until_ms: int) -> Sequence[Extent]:
        found: dict[str, list[float]] = {}
        for name in BROKER_SERIES.values():
            for series in self._by_name.get(name, []) if name.startswith("pulsar_") else []:
                times = [at * 1000 for at, _ in series.values if since_ms <= at * 1000 <= until_ms]
                if times:
                    found.setdefault(series.metric.get(_CLUSTER, ""), []).extend((times[0], times[-1]))
        return [Extent(cluster, int(min(times)), int(max(times))) for cluster, times in sorted(found.items())]

    async def series(self, name: str, cluster: str, window: Window) -> Sequence[Series]:
        wanted = [(_CLUSTER, cluster)] if cluster else []
        found = (
            Series(series.metric, _at_steps(series.values, window))
            for series in self._by_name.get(name, [])
            if matches(series.metric, wanted)
        )
        return [series for series in found if series.values]


def _at_steps(values: list[tuple[float, str]], window: Window) -> list[tuple[float, str]]:
    """Return for each step of the window the newest value whose time is after the previous step (exclusive) and not
    after this step (inclusive), together with the time of the step in epoch seconds. A step without such a value is
    left out.
    """
    times = [at for at, _ in values]
    found = []
    for row in range(window.steps):
        at_s = (window.first_ms + row * window.step_ms) / 1000
        place = bisect_right(times, at_s) - 1
        if place >= 0 and times[place] > at_s - window.step_ms / 1000:
            found.append((at_s, values[place][1]))
    return found


def read_files(paths: Sequence[Path]) -> list[Series]:
    """Return the series (labels and their values over time) in the files.

    Raises:
        ImportRefusedError: a file has another form, or the files are too large.
        OSError: a file cannot be read.
    """
    size = sum(path.stat().st_size for path in paths)
    if size > MAX_FILE_BYTES:
        raise ImportRefusedError(
            f"{count_of(len(paths), 'file')} with {size:,} bytes together exceed the limit of {MAX_FILE_BYTES:,};"
            " import fewer files or a shorter period now, and the remaining files later with the same --out"
        )
    return [series for path in paths for series in _series_in(path)]


def _series_in(path: Path) -> list[Series]:
    if path.suffix != ".json":
        text = io.StringIO(read_regular(path, MAX_FILE_BYTES).decode(errors="replace"))
        return text_series(text, str(path))
    try:
        found = decode_json(read_regular(path, MAX_FILE_BYTES), _Answer).data.result
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ImportRefusedError(
            f"{path} is not an answer of Prometheus's query_range: {error}; store an answer with curl"
            " --data-urlencode 'query={__name__=~\"pulsar_.*\"}' …/api/v1/query_range"
        ) from error
    check_times(found, str(path))
    return found


def text_series(lines: Iterable[str], where: str) -> list[Series]:
    """Return the series in `lines`, samples in the text form of Prometheus with times. Comments, and metrics that an
    import does not read, are left out.

    Raises:
        ImportRefusedError: a line has another form, or no time; the text names `where` and the line.
    """
    found: dict[str, Series] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        parsed = _LINE.fullmatch(text)
        if parsed is None:
            raise ImportRefusedError(
                f"{where} line {number} is not a sample with a time: {text[:80]!r}; give OpenMetrics text with times,"
                " such as that of `promtool tsdb dump`"
            )
        name, labels, value, at = parsed.groups()
        if name is not None and name not in _READ:
            continue
        key = f"{name or ''}{{{labels or ''}"
        series = found.get(key)
        if series is None:
            series = found[key] = Series(_labels(name, labels or "", where, number), [])
        time = float(at)
        series.values.append((time / 1000 if time >= _MS_FROM else time, value))
    check_times(found.values(), where)
    return list(found.values())


def _labels(name: str | None, text: str, where: str, number: int) -> dict[str, str]:
    found = {} if name is None else {_NAME: name}
    place = 0
    while place < len(text):
        label = _LABEL.match(text, place)
        if label is None:
            raise ImportRefusedError(
                f"{where} line {number}: {text[place : place + 80]!r} does not have the form of labels,"
                ' name="value",name="value"'
            )
        found[label[1]] = _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], label[2])
        place = label.end()
    return found
