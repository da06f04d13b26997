"""What became of each move of a plan, line by line in a file beside it, so that a killed tool can go on.

A line is on the disk before what it announces is begun. Whoever reads it also sees who moved what, when, and why.
"""

import enum
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from barycenter.operations.plan import Plan, PlannedMove

_MOST_BYTES: Final = 256 << 20
_BLOCK: Final = 1 << 16


class MoveState(enum.StrEnum):
    BEGUN = "begun"
    """The broker was asked to unload it, or is about to be."""
    SERVED = "served"
    """The destination serves it."""
    FAILED = "failed"


class Entry(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """`at` is epoch ms, `plan` the name of the plan, `by` who asked for it, `took_s` from the beginning to the end."""

    at: int
    plan: str
    by: str
    bundle: str
    source: str
    destination: str
    state: MoveState
    detail: str = ""
    took_s: float | None = None


class JournalError(ValueError):
    """The journal cannot be read or is of another plan; the text says what to do."""


class Journal:
    """Appends to a file, which is made. One process at a time writes it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> list[Entry]:
        """Return what was written, without a last line that was cut off.

        Raises:
            JournalError: a line is none of a journal, or the file is larger than any journal.
        """
        try:
            if self._file.stat().st_size > _MOST_BYTES:
                raise JournalError(f"{self._file} is larger than a journal can be")
            text = self._file.read_bytes()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        try:
            return [msgspec.json.decode(line, type=Entry) for line in whole.splitlines()]
        except msgspec.DecodeError as error:
            raise JournalError(f"{self._file} is no journal of moves: {error}; name another with --journal") from error

    def append(self, entry: Entry) -> None:
        """Write an entry down, in place of a last line that was cut off; it is on the disk when this returns."""
        with self._file.open("ab") as file:
            file.truncate(self._whole_bytes())
            file.write(msgspec.json.encode(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _whole_bytes(self) -> int:
        with self._file.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            while end:
                begin = max(0, end - _BLOCK)
                file.seek(begin)
                newline = file.read(end - begin).rfind(b"\n")
                if newline >= 0:
                    return begin + newline + 1
                end = begin
            return 0


def left_of(plan: Plan, entries: Iterable[Entry]) -> tuple[PlannedMove, ...]:
    """Return the moves that are not done, in the plan's order; one that was begun and did not end is among them.

    Raises:
        JournalError: the entries are of another plan.
    """
    last: dict[str, MoveState] = {}
    for entry in entries:
        if entry.plan != plan.name:
            raise JournalError("the journal is of another plan; name a journal of its own with --journal")
        last[entry.bundle] = entry.state
    return tuple(move for move in plan.moves if last.get(move.bundle) is not MoveState.SERVED)
