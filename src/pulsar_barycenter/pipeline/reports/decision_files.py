"""The leaders' decision logs, read from where the last batch left off: `<data>/decisions/<broker>.jsonl`.

A log that grew large is renamed to `<broker>.jsonl.1`, and a new one begins. A file is known by its first line, which
names a decision and so never occurs twice; its offset is kept with the state of a batch. A last line without its end
is left for the next time. Every decision is read once; the reader of the table leaves out copies an operator made, by
(by, number, at).
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
"""How much of each file one batch reads at most."""

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
    """What was read: `rows` for DECISIONS (`at` in epoch µs), `times` (epoch ms) of the decisions of each kind."""

    offsets: dict[str, int]
    rows: list[dict[str, Any]] = field(default_factory=list)
    times: dict[str, list[int]] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, schema=TABLES["decisions"].arrow_schema)


_decode = msgspec.json.Decoder(DecisionLine).decode
_decode_code = msgspec.json.Decoder(_Code).decode


def read_decisions(storage: Storage, offsets: Mapping[str, int]) -> NewDecisions:
    """Read what was added to the logs since `offsets` (of a file's first line), and return the new ones."""
    found = NewDecisions({})
    keys: set[tuple[str, int, int]] = set()
    for entry in reversed(storage.entries(DECISIONS)):  # "x.jsonl.1" before "x.jsonl"
        if ".jsonl" not in entry.name or entry.name.startswith((".", "_")):
            continue
        with suppress(FileNotFoundError):  # renamed just now: the next batch finds it
            name, start, lines = _read_lines(storage, entry, offsets)
            if name:
                found.offsets[name] = start + sum(map(len, lines))
                for line in lines:
                    _take(found, keys, entry.name, line)
    return found


def _read_lines(storage: Storage, log: Entry, offsets: Mapping[str, int]) -> tuple[str, int, list[bytes]]:
    """The name of the file's content (empty if it has no whole line yet), where it was read from, its whole lines."""
    path = f"{DECISIONS}/{log.name}"
    first = b""
    for length in (_FIRST_BYTES, READ_BYTES):
        first, end, _ = storage.read(path, length=length).partition(b"\n")
        if end:
            break
    else:
        return "", 0, []
    name = hashlib.blake2b(first + b"\n", digest_size=12).hexdigest()
    start = offsets.get(name, 0)
    content = storage.read(path, offset=start, length=READ_BYTES)
    return name, start, content[: content.rfind(b"\n") + 1].splitlines(keepends=True)


def _take(found: NewDecisions, keys: set[tuple[str, int, int]], file: str, line: bytes) -> None:
    try:
        decision = _decode(line)
        code = _decode_code(decision.reason).code
        if not 0 <= decision.at <= LAST_TIME_MS:
            raise msgspec.ValidationError("`at` lies before 1970 or after 9999")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = line.decode(errors="replace").rstrip("\n")
        found.refused.append(Refused("decision", file, str(error), text))
        return
    key = decision.by, decision.number, decision.at
    if key in keys:
        return
    keys.add(key)
    fields = {name: getattr(decision, name) for name in ("by", "number", "kind", "bundle", "source", "destination")}
    fields |= {"refused": decision.refused, "strategy": decision.strategy, "sentence": decision.sentence}
    fields |= {name: getattr(decision, name) or None for name in ("manager", "principal", "request")}
    fields |= {"at": decision.at * 1000, "code": code, "reason": bytes(decision.reason).decode()}
    found.rows.append(fields)
    found.times.setdefault(decision.kind, []).append(decision.at)
