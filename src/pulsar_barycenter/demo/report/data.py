"""The data of the pictures and tables of a report, computed once from a record.

Times are seconds since the load began. Brokers are named by letters, in the order in which they started, so that the
name fits next to a colour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from pulsar_barycenter.demo.gaps import Interruption, interruptions
from pulsar_barycenter.demo.moves import DemoMove, Lane, follow_bundles
from pulsar_barycenter.demo.plan import TopicResult
from pulsar_barycenter.demo.record import Event, LoadSample, Record, imbalance_over_time
from pulsar_barycenter.html_pages.reasons import short_reason

MOST_POINTS: Final = 1200
"""The maximum number of points of a line; in a longer one, neighbouring points are replaced by their mean."""

MOST_TABLE_ROWS: Final = 24
"""The maximum number of rows of the table of loads, which is for readers who cannot see the pictures."""

MOST_INTERRUPTIONS: Final = 8
"""The number of rows of the table of the longest interruptions."""

_JUST_BEFORE_S: Final = 1.0
_INTERRUPTING: Final = ("unloaded", "split", "broker killed")
_KINDS: Final = {
    "assignment": "assigned",
    "unload": "unloaded",
    "split": "split",
    "broker joined": "broker started",
    "broker killed": "broker killed",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One event of the run as a row of the report's table; `note` explains a move back to a former owner."""

    number: int
    at_s: float
    what: str
    bundle: str
    source: str | None
    destination: str | None
    note: str
    short_reason: str
    reason: str


@dataclass(frozen=True, slots=True)
class InterruptionRow:
    """A time in which topics got no receipts. `meanwhile` are the events in that time and shortly before it; one of
    them may be the cause.
    """

    at_s: float
    seconds: float
    topics: list[str]
    meanwhile: list[Row]


class ReportData:
    """Everything that a report shows of a run up to `ended_at_s`, seconds since 1970."""

    def __init__(self, record: Record, topics: Sequence[TopicResult], ended_at_s: float) -> None:
        self._record = record
        self.interruptions = interruptions(topics)
        last_s = max((sample.at_s for sample in record.samples), default=ended_at_s)
        self.end_s = max(self._since(max(ended_at_s, last_s)), 1.0)
        self.letters = letters_of_brokers(record)
        self.lanes, self.moves = follow_bundles(record, record.started_at_s + self.end_s)
        moved = {move.index: move for move in self.moves}
        self.rows = [self._row(index, event, moved.get(index)) for index, event in enumerate(record.events)]

    def pictures(self) -> dict[str, Any]:
        """Return the data from which the script of the page draws its pictures, ready for JSON."""
        brokers = list(self.letters)
        return {
            "end": self.end_s,
            "brokers": [{"name": name, "letter": letter} for name, letter in self.letters.items()],
            "load": [self._line(name) for name in brokers],
            "imbalance": _thinned(
                [(self._since(at_s), round(value, 3)) for at_s, value in imbalance_over_time(self._record.samples)]
            ),
            "lanes": [self._lane(lane) for lane in self.lanes],
            "moments": [
                [row.what, row.at_s, row.number, self.letters.get(row.source or row.destination or "", "")]
                for row in self.rows
                if row.what.startswith("broker")
            ],
            "gaps": [
                [self._since(one.from_s), self._since(one.until_s), len(one.topics)] for one in self.interruptions
            ],
        }

    def worst_interruptions(self) -> list[InterruptionRow]:
        """Return the longest interruptions, the longest first, with what happened at the same time."""
        return [
            InterruptionRow(
                at_s=self._since(one.from_s),
                seconds=one.seconds,
                topics=[topic.rpartition("/")[2] for topic in one.topics],
                meanwhile=[row for row in self.rows if self._is_meanwhile(row, one)],
            )
            for one in self.interruptions[:MOST_INTERRUPTIONS]
        ]

    def _is_meanwhile(self, row: Row, one: Interruption) -> bool:
        begin = self._since(one.from_s) - _JUST_BEFORE_S
        return row.what in _INTERRUPTING and begin <= row.at_s <= self._since(one.until_s)

    def load_table(self) -> list[tuple[float, list[LoadSample | None]]]:
        """Return the rows of the report's table, at most MOST_TABLE_ROWS: a time in seconds since the start, and the
        load of each broker at that time, in the order of `letters`; None for a broker that did not answer.
        """
        times = sorted({sample.at_s for sample in self._record.samples})
        by_place = {(sample.at_s, sample.broker): sample for sample in self._record.samples}
        step = -(-len(times) // MOST_TABLE_ROWS) or 1
        return [
            (self._since(at_s), [by_place.get((at_s, broker)) for broker in self.letters]) for at_s in times[::step]
        ]

    def owners_of(self, lane: Lane) -> list[tuple[float, float, str | None]]:
        return [(self._since(one.from_s), self._since(one.until_s), one.owner) for one in lane.tenures]

    def _lane(self, lane: Lane) -> dict[str, Any]:
        numbers = {name: index for index, name in enumerate(self.letters)}
        spans = [
            [-1 if owner is None else numbers[owner], from_s, until_s]
            for from_s, until_s, owner in self.owners_of(lane)
        ]
        marks = [[row.what, row.at_s, row.number, bool(row.note)] for row in self.rows if row.bundle == lane.bundle]
        return {"name": lane.bundle, "root": lane.root, "spans": spans, "marks": marks}

    def _line(self, broker: str) -> list[list[float]]:
        samples = [sample for sample in self._record.samples if sample.broker == broker]
        return _thinned(
            [(self._since(one.at_s), round(one.msg_rate, 1), one.bundles, round(one.usage * 100, 1)) for one in samples]
        )

    def _row(self, index: int, event: Event, move: DemoMove | None) -> Row:
        return Row(
            number=index + 1,
            at_s=self._since(event.at_s),
            what="failed over" if move and move.failed_over else _KINDS.get(event.kind, event.kind),
            bundle=event.bundle,
            source=event.source or (move.source if move else None),
            destination=event.destination,
            note=_note(move),
            short_reason=self._short(event.reason),
            reason=event.reason,
        )

    def _short(self, reason: str) -> str:
        short = short_reason(reason)
        name, separator, rest = short.partition(": ")
        return f"{self.letters[name]}: {rest}" if separator and name in self.letters else short

    def _since(self, at_s: float) -> float:
        return round(at_s - self._record.started_at_s, 2)


def letters_of_brokers(record: Record) -> dict[str, str]:
    """Return a letter (A, B, …) for each broker that the record names, in the order in which the brokers started."""
    names = [event.destination for event in record.events if event.kind == "broker joined"]
    names += sorted({sample.broker for sample in record.samples})
    names += [place for event in record.events for place in (event.source, event.destination)]
    known = dict.fromkeys(name for name in names if name)
    return {name: chr(ord("A") + index) if index < 26 else f"B{index}" for index, name in enumerate(known)}


def _note(move: DemoMove | None) -> str:
    if move is None:
        return ""
    said = ["back to a former owner"] if move.back else []
    if move.again_after_s is not None:
        said.append(f"again after {move.again_after_s:.0f} s")
    return ("placed after a split: " if said and move.after_split else "") + ", ".join(said)


def _thinned(points: Sequence[tuple[float, ...]]) -> list[list[float]]:
    size = -(-len(points) // MOST_POINTS) or 1
    parts = (points[start : start + size] for start in range(0, len(points), size))
    return [[round(fmean(column), 2) for column in zip(*part, strict=True)] for part in parts]


def short_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the short name of each bundle: only the range if all bundles are of one namespace, else the whole name."""
    namespaces = {name.rpartition("/")[0] for name in names}
    return {name: name.rpartition("/")[2] if len(namespaces) == 1 else name for name in names}
