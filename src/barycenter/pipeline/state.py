"""What one batch hands to the next: bundles' windows, and which reports of which brokers were folded in.

Kept as `<folder>/<batch id>/`, with `bundles.parquet` (BUNDLE_STATE) and `brokers.json`. A batch starts from the newest
state of a smaller id and writes its own by a rename, so running it again after a crash starts from the same place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

SEQUENCE_MEMORY_MS = 172_800_000
"""How long an incarnation is remembered after its last report: well above the retention of the report log."""

_MISSING_REACH = 128
"""How many sequences back a report may still be missing. Two files that appear while Spark lists a folder may be found
in the wrong order, so the last sequence alone would lose one of them."""

_BUNDLES = "bundles.parquet"
_BROKERS = "brokers.json"
_KEPT_STATES = 3


class ReportKey(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """Names a report and gives its place among all: `reported_at` is its `lastUpdate`, epoch ms."""

    reported_at: int
    broker: str
    incarnation: str
    sequence: int


class ReportHeader(msgspec.Struct, frozen=True, rename="camel"):
    """A report without its figures. `row` tells apart the copies of one batch."""

    row: int
    key: ReportKey
    bundles: tuple[str, ...]


class NewestReport(msgspec.Struct, frozen=True, rename="camel"):
    """The newest report of a broker and the bundles in it, sorted."""

    key: ReportKey
    bundles: tuple[str, ...]


class SeenSequences(msgspec.Struct, frozen=True, rename="camel"):
    """Which reports of one incarnation of a broker were folded in: all up to `last`, save `missing` (ascending)."""

    broker: str
    incarnation: str
    last: int
    missing: tuple[int, ...]
    reported_at: int
    """The greatest `lastUpdate` among them, epoch ms."""

    def has(self, sequence: int) -> bool:
        return sequence <= self.last and sequence not in self.missing

    def plus(self, key: ReportKey) -> SeenSequences:
        """Return this with one more report, which it did not have."""
        skipped = range(max(self.last + 1, key.sequence - _MISSING_REACH), key.sequence)
        last = max(self.last, key.sequence)
        missing = (number for number in (*self.missing, *skipped) if number != key.sequence)
        return SeenSequences(
            self.broker,
            self.incarnation,
            last,
            tuple(number for number in missing if number >= last - _MISSING_REACH),
            max(self.reported_at, key.reported_at),
        )


class FoldedReports(msgspec.Struct, frozen=True, rename="camel"):
    """Which reports were folded in so far, and the newest one of each broker; `as_of` is the time of the newest."""

    as_of: int = 0
    seen: tuple[SeenSequences, ...] = ()
    newest: tuple[NewestReport, ...] = ()

    @property
    def members(self) -> list[tuple[str, str | None]]:
        """(broker, bundle) of the newest reports; (broker, None) for a broker without bundles."""
        return [(report.key.broker, bundle) for report in self.newest for bundle in (report.bundles or (None,))]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Which reports of a batch count, and what has been folded in after them."""

    accepted: tuple[ReportHeader, ...]
    dropped_rows: tuple[int, ...]
    folded: FoldedReports


def accept_reports(folded: FoldedReports, headers: Iterable[ReportHeader], *, broker_memory_ms: int) -> Acceptance:
    """Sort out the reports of a batch that were folded in before, or come twice.

    Of two copies the one of the earlier `lastUpdate` counts. A report that comes after a later one of its incarnation
    still counts, unless more than 128 others lie between. A broker is forgotten when its newest report is more than
    `broker_memory_ms` older than the newest of all.
    """
    seen = {(known.broker, known.incarnation): known for known in folded.seen}
    newest = {report.key.broker: report for report in folded.newest}
    accepted: list[ReportHeader] = []
    dropped: list[int] = []
    for header in sorted(headers, key=lambda h: (h.key.broker, h.key.incarnation, h.key.sequence, h.key, h.row)):
        key = header.key
        known = seen.get((key.broker, key.incarnation)) or SeenSequences(key.broker, key.incarnation, 0, (), 0)
        if known.has(key.sequence):
            dropped.append(header.row)
            continue
        accepted.append(header)
        seen[key.broker, key.incarnation] = known.plus(key)
        if key.broker not in newest or newest[key.broker].key < key:
            newest[key.broker] = NewestReport(key, tuple(sorted(header.bundles)))
    as_of = max([folded.as_of, *(header.key.reported_at for header in accepted)])
    return Acceptance(tuple(accepted), tuple(dropped), _without_forgotten(as_of, seen, newest, broker_memory_ms))


def _without_forgotten(
    as_of: int, seen: Mapping[tuple[str, str], SeenSequences], newest: Mapping[str, NewestReport], broker_memory_ms: int
) -> FoldedReports:
    return FoldedReports(
        as_of=as_of,
        seen=tuple(seen[name] for name in sorted(seen) if as_of - seen[name].reported_at <= SEQUENCE_MEMORY_MS),
        newest=tuple(
            newest[broker] for broker in sorted(newest) if as_of - newest[broker].key.reported_at <= broker_memory_ms
        ),
    )


@dataclass(frozen=True, slots=True)
class PriorState:
    """The state a batch starts from; `bundles` is a Parquet file, None when nothing was folded yet."""

    batch_id: int
    folded: FoldedReports
    bundles: Path | None


NO_STATE = PriorState(-1, FoldedReports(), None)


class StateFolder:
    """The states under `folder`; one process at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def batch_ids(self) -> list[int]:
        """The ids of the states kept, ascending."""
        return sorted(int(entry.name) for entry in self._folder.iterdir() if entry.name.isdigit())

    def before(self, batch_id: int) -> PriorState:
        """Return the newest state of an id below `batch_id`, `NO_STATE` when there is none."""
        earlier = [kept for kept in self.batch_ids() if kept < batch_id]
        if not earlier:
            return NO_STATE
        folder = self._path(earlier[-1])
        folded = msgspec.json.decode((folder / _BROKERS).read_bytes(), type=FoldedReports)
        return PriorState(earlier[-1], folded, folder / _BUNDLES)

    def write(self, batch_id: int, bundles: pa.Table, folded: FoldedReports) -> PriorState:
        """Keep the state after `batch_id`, replacing one of the same id, and drop old ones."""
        target = self._path(batch_id)
        temporary = self._folder / f"_{batch_id}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        pq.write_table(bundles, temporary / _BUNDLES, compression="zstd")
        (temporary / _BROKERS).write_bytes(msgspec.json.encode(folded))
        for file in temporary.iterdir():
            _sync(file)
        shutil.rmtree(target, ignore_errors=True)  # killed here, the batch runs again from the state before it
        temporary.rename(target)
        for old in self.batch_ids()[:-_KEPT_STATES]:
            shutil.rmtree(self._path(old))
        return PriorState(batch_id, folded, target / _BUNDLES)

    def _path(self, batch_id: int) -> Path:
        return self._folder / f"{batch_id:012d}"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
