"""The leaders' decision logs, read from where the last batch left off: `<data>/decisions/<broker>.jsonl`.

A log that grew large is renamed to `<broker>.jsonl.1`, and a new one begins. A file is known by its first line, which
names a decision and so never occurs twice; its offset is kept with the state of a batch. A last line without its end
is left for the next time. Every decision is read once; the reader of the table leaves out copies an operator made, by
(by, number, at).

A batch settles what happened up to its time, so each log is read at least up to there, in pieces of `READ_BYTES`, and
to the end of the piece in which a later decision stands. Logs are in the order of their times, but for what a clock
was set back; what is read after its interval was settled is counted, see `stream.late`.
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
"""How much of a file is read at a time; a line that is longer is refused."""

CLOCK_SLACK_MS = 60_000
"""How much later than the time asked for a decision has to be to show that the log was read far enough."""

_FIRST_BYTES = 16 * 2**10
"""A first line is rarely longer."""


class _Code(msgspec.Struct):
    code: str


class DecisionLine(msgspec.Struct, frozen=True):
    """A line of a decision log; fields it does not know are ignored."""

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
    """What was read: `parts` for DECISIONS, `times` (epoch ms) of the decisions of each kind.

    `offsets` is of each file how far it was read; `is_whole` says that all were read to their ends.
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
    """Read what was added to the logs since `offsets` (of a file's first line), and return the new ones.

    Each log is read up to its end, or until a decision is later than `until_ms` (epoch ms): one piece at least.
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
    """Say whether anything was added to the logs since `offsets`, which a batch can read."""
    found = read_decisions(storage, offsets)
    return any(end != offsets.get(name) for name, end in found.offsets.items())


def log_name(storage: Storage, log: Entry) -> str:
    """The name of the file's content: of its first line, or the beginning of it; empty if there is no whole one yet."""
    for length in (_FIRST_BYTES, READ_BYTES):
        content = storage.read(f"{DECISIONS}/{log.name}", length=length)
        first, end, _ = content.partition(b"\n")
        if end or len(content) == READ_BYTES:
            return hashlib.blake2b(first + b"\n", digest_size=12).hexdigest()
    return ""


def _read_log(
    storage: Storage, log: Entry, start: int, until_ms: int, found: NewDecisions, keys: set[tuple[str, int, int]]
) -> int:
    """Take what stands in the file from `start` on; return how far it was read."""
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
            reason = f"a line of {length:,} bytes, longer than {READ_BYTES:,}"
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
    """The length of the line at `start`, its end included; None if it has none yet."""
    length = 0
    while piece := storage.read(path, offset=start + length, length=READ_BYTES):
        place = piece.find(b"\n")
        if place >= 0:
            return length + place + 1
        length += len(piece)
    return None


def _take(found: NewDecisions, keys: set[tuple[str, int, int]], file: str, lines: list[bytes]) -> int:
    """Take the decisions of some lines; return the time of the last one, 0 if there is none."""
    rows: list[dict[str, Any]] = []
    latest = 0
    for line in lines:
        try:
            decision = _decode(line)
            code = _decode_code(decision.reason).code
            if not 0 <= decision.at <= LAST_TIME_MS:
                raise msgspec.ValidationError("`at` lies before 1970 or after 9999")
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
    """The decision as a row of DECISIONS; `at` in epoch µs."""
    fields = {name: getattr(decision, name) for name in ("by", "number", "kind", "bundle", "source", "destination")}
    fields |= {"refused": decision.refused, "strategy": decision.strategy, "sentence": decision.sentence}
    fields |= {name: getattr(decision, name) or None for name in ("manager", "principal", "request")}
    return fields | {"at": decision.at * 1000, "code": code, "reason": bytes(decision.reason).decode()}
