"""Reads new lines of the leaders' decision logs, `<data>/decisions/<broker>.jsonl`.

A large log is renamed to `<broker>.jsonl.1`, and a new one begins. So a file is identified by its first line: that line
is a decision, and no other file begins with it. The state of a batch keeps the offset up to which each file was read. A
last line without a line end is left for the next batch. Each decision is read once; if an operator copied a file, the
reader of the table removes the copies by (by, number, at).

A batch settles the intervals of balance up to the time of its newest report, so each log is read at least up to that
time. It is read in pieces of `READ_BYTES`, until a piece has a later decision. The lines of a log are in the order of
their times, except after a clock was set back. Decisions that are read after their interval was settled are counted
(see `stream.late`).
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from pulsar_barycenter.pipeline.reports.quarantine import Refused
from pulsar_barycenter.pipeline.storage.files import Entry, Storage
from pulsar_barycenter.pipeline.storage.layout import DECISIONS
from pulsar_barycenter.pipeline.tables.schemas import LAST_TIME_MS, TABLES

READ_BYTES = 8 * 2**20
"""The number of bytes of a file that are read at once. A longer line is refused."""

CLOCK_SLACK_MS = 60_000
"""A log was read far enough if a decision is more than this later than the requested time: clocks may be set back."""

_FIRST_BYTES = 16 * 2**10
"""The bytes that are read to find the first line, which is rarely longer."""


class _Code(msgspec.Struct):
    code: str


class DecisionLine(msgspec.Struct, frozen=True):
    """A line of a decision log. Fields of the line that this class does not have are ignored."""

    at: int
    by: str
    number: int
    kind: str
    reason: msgspec.Raw
    sentence: str = ""
    bundle: str = ""
    source: str = ""
    destination: str = ""
    refused: str = ""
    manager: str | None = None
    strategy: str = ""
    principal: str = ""
    request: str = ""


@dataclass(slots=True)
class NewDecisions:
    """The decisions that were newly read from the decision logs.

    `offsets`: the offset in bytes up to which each log was read, keyed by `log_name`. `parts`: tables with the columns
    DECISIONS, which together have the decisions. `times`: the times of the decisions (epoch ms), keyed by kind.
    `refused`: the lines that are not decisions. `is_whole`: all logs were read to their ends.
    """

    offsets: dict[str, int]
    parts: list[pa.Table] = field(default_factory=list)
    times: dict[str, list[int]] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    is_whole: bool = True

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables([TABLES["decisions"].arrow_schema.empty_table(), *self.parts])

    @property
    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table.to_pylist()
        return found


_decode = msgspec.json.Decoder(DecisionLine).decode
_decode_code = msgspec.json.Decoder(_Code).decode


def read_decisions(storage: Storage, offsets: Mapping[str, int], *, until_ms: int = 0) -> NewDecisions:
    """Read the lines of the decision logs that are after `offsets`. These are offsets in bytes, keyed by `log_name`; a
    log without an offset is read from its begin.

    Each log is read piece by piece. Reading of a log ends at its end, or after a piece whose last decision is more than
    `CLOCK_SLACK_MS` later than `until_ms` (epoch ms).
    """
    found = NewDecisions({})
    keys: set[tuple[str, int, int]] = set()
    for entry in reversed(storage.entries(DECISIONS)):  # "x.jsonl.1" before "x.jsonl"
        if ".jsonl" not in entry.name or entry.name.startswith((".", "_")):
            continue
        with suppress(FileNotFoundError):  # renamed just now: the next batch finds it
            name = log_name(storage, entry)
            if name:
                end = _read_log(storage, entry, offsets.get(name, 0), until_ms, found, keys)
                found.offsets[name] = max(end, found.offsets.get(name, 0))  # one of two copies may be the shorter
    return found


def has_new_decisions(storage: Storage, offsets: Mapping[str, int]) -> bool:
    """Return whether the decision logs have complete lines after `offsets` (in bytes, keyed by `log_name`)."""
    found = read_decisions(storage, offsets)
    return any(end != offsets.get(name) for name, end in found.offsets.items())


def log_name(storage: Storage, log: Entry) -> str:
    """Return a name for a log that stays the same when its file is renamed: a hash of its first line (of the first
    `READ_BYTES` if the line is longer).

    Return an empty text if the end of the first line is not written yet.
    """
    for length in (_FIRST_BYTES, READ_BYTES):
        content = storage.read(f"{DECISIONS}/{log.name}", length=length)
        first, end, _ = content.partition(b"\n")
        if end or len(content) == READ_BYTES:
            return hashlib.blake2b(first + b"\n", digest_size=12).hexdigest()
    return ""


def _read_log(
    storage: Storage, log: Entry, start: int, until_ms: int, found: NewDecisions, keys: set[tuple[str, int, int]]
) -> int:
    """Read the decision log from the offset `start` on, as `read_decisions` says, and add its decisions to `found`.
    `keys` has the decisions that were already added, so that copies are left out. Return the offset up to which the log
    was read.
    """
    path = f"{DECISIONS}/{log.name}"
    while True:
        piece = storage.read(path, offset=start, length=READ_BYTES)
        whole = piece[: piece.rfind(b"\n") + 1]
        if not whole:
            if len(piece) < READ_BYTES:
                return start
            length = _line_length(storage, path, start)
            if length is None:
                return start
            reason = f"the line has {length:,} bytes, more than {READ_BYTES:,}"
            found.refused.append(Refused("decision", log.name, reason, piece[:_FIRST_BYTES].decode(errors="replace")))
            start += length
            continue
        start += len(whole)
        latest = _take(found, keys, log.name, whole.splitlines(keepends=True))
        if len(piece) < READ_BYTES:
            return start
        if latest > until_ms + CLOCK_SLACK_MS:
            found.is_whole = False
            return start


def _line_length(storage: Storage, path: str, start: int) -> int | None:
    """Return the length of the line at `start` with its line end; None if the line end is not written yet."""
    length = 0
    while piece := storage.read(path, offset=start + length, length=READ_BYTES):
        index = piece.find(b"\n")
        if index >= 0:
            return length + index + 1
        length += len(piece)
    return None


def _take(found: NewDecisions, keys: set[tuple[str, int, int]], file: str, lines: list[bytes]) -> int:
    """Add the decisions in `lines` to `found`, without those in `keys`. Add lines that are not decisions to
    `found.refused`. Return the time of the last decision in epoch ms, 0 if there is none.
    """
    rows: list[dict[str, Any]] = []
    latest = 0
    for line in lines:
        try:
            decision = _decode(line)
            code = _decode_code(decision.reason).code
            if not 0 <= decision.at <= LAST_TIME_MS:
                raise msgspec.ValidationError("the time `at` of the decision is before 1970 or after 9999")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            text = line.decode(errors="replace").rstrip("\n")
            found.refused.append(Refused("decision", file, str(error), text))
            continue
        latest = decision.at
        key = decision.by, decision.number, decision.at
        if key not in keys:
            keys.add(key)
            rows.append(_row(decision, code))
            found.times.setdefault(decision.kind, []).append(decision.at)
    if rows:
        found.parts.append(pa.Table.from_pylist(rows, schema=TABLES["decisions"].arrow_schema))
    return latest


def _row(decision: DecisionLine, code: str) -> dict[str, Any]:
    """Return the decision as a row of DECISIONS; `at` is in epoch µs."""
    fields = {name: getattr(decision, name) for name in ("by", "number", "kind", "bundle", "source", "destination")}
    fields |= {"refused": decision.refused, "strategy": decision.strategy, "sentence": decision.sentence}
    fields |= {name: getattr(decision, name) or None for name in ("manager", "principal", "request")}
    return fields | {"at": decision.at * 1000, "code": code, "reason": bytes(decision.reason).decode()}
