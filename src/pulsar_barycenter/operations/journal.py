"""What became of each move of a plan, line by line in a file beside it, so that a killed tool can go on.

A line is on the disk before what it announces is begun. Whoever reads it also sees who moved what, when, and why.

One process at a time carries moves out by a journal: it holds the lock of the file, which the system takes back when
the process ends, however it ends. Another asks it to stop by a file beside it, and sees by the lock that it did.

`backward` is the way back of what a journal says was moved.
"""

import enum
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.operations.plan import Plan, PlannedMove

_MOST_BYTES: Final = 256 << 20
_BLOCK: Final = 1 << 16
_MOST_ASKED_BYTES: Final = 1 << 16


class MoveState(enum.StrEnum):
    BEGUN = "begun"
    """The broker was asked to unload it, or is about to be."""
    SERVED = "served"
    """The destination serves it."""
    FAILED = "failed"
    MOVED_AWAY = "moved away"
    """The destination served it, and somebody else moved it since."""
    CANCELLED = "cancelled"
    """Somebody asked to begin no more moves; the entry names no bundle."""


_DONE: Final = (MoveState.SERVED, MoveState.MOVED_AWAY)


class Entry(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """`at` is epoch ms, `plan` the name of the plan, `by` who asked for it and `why`, `took_s` its duration."""

    at: int
    plan: str
    by: str
    bundle: str
    source: str
    destination: str
    state: MoveState
    detail: str = ""
    why: str = ""
    took_s: float | None = None


class _StopAsked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`at` is epoch ms."""

    at: int
    by: str
    why: str = ""


class JournalError(ValueError):
    """The journal cannot be read or is of another plan; the text says what to do."""


class Journal:
    """Appends to a file, which is made. One process at a time writes it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def file(self) -> Path:
        return self._file

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

    # ---- who carries out, and who has it stopped ----

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the one process that carries out moves by this journal; what was asked of one before is forgotten.

        Raises:
            JournalError: another process does.
            OSError: the file cannot be made.
        """
        with self._file.open("ab") as file:
            if not _is_locked_now(file.fileno()):
                raise JournalError(f"another process carries out moves by {self._file}; `barycenter cancel` stops it")
            self._asked_file.unlink(missing_ok=True)
            yield

    def is_held(self) -> bool:
        """Tell whether a process carries out moves by this journal."""
        try:
            with self._file.open("rb") as file:
                return not _is_locked_now(file.fileno())
        except FileNotFoundError:
            return False

    def ask_to_stop(self, at: int, by: str, why: str = "") -> None:
        """Have the process that holds the journal begin no more moves.

        Raises:
            OSError: it cannot be written beside the journal.
        """
        aside = self._asked_file.with_name(f"{self._asked_file.name}.{os.getpid()}")
        aside.write_bytes(msgspec.json.encode(_StopAsked(at=at, by=by, why=why)))
        aside.rename(self._asked_file)

    def asked_to_stop(self) -> str:
        """Return who asked to stop, and why, in words; blank if nobody did."""
        try:
            with self._asked_file.open("rb") as file:
                asked = msgspec.json.decode(file.read(_MOST_ASKED_BYTES), type=_StopAsked)
        except FileNotFoundError:
            return ""
        except (msgspec.DecodeError, OSError) as error:
            return f"somebody asked to stop: {error}"
        return f"{asked.by} asked to stop" + (f": {asked.why}" if asked.why else "")

    @property
    def _asked_file(self) -> Path:
        return self._file.with_name(f"{self._file.name}.cancel")

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


def _is_locked_now(descriptor: int) -> bool:
    """Take the lock of an open file, if nobody has it; it is given back when the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def left_of(plan: Plan, entries: Iterable[Entry]) -> tuple[PlannedMove, ...]:
    """Return the moves that are not done, in the plan's order; one that was begun and did not end is among them.

    One that somebody else undid since was done: to do it again is for whoever knows why.

    Raises:
        JournalError: the entries are of another plan.
    """
    last: dict[str, MoveState] = {}
    for entry in entries:  # one that names no bundle says nothing of a move
        if entry.plan != plan.name:
            raise JournalError("the journal is of another plan; name a journal of its own with --journal")
        last[entry.bundle] = entry.state
    return tuple(move for move in plan.moves if last.get(move.bundle) not in _DONE)


def backward(entries: Iterable[Entry]) -> tuple[PlannedMove, ...]:
    """Return the moves back to where each bundle was at first, what was moved last first.

    A bundle that came back by itself is left out. A move that was begun and did not end is among them, since it may
    have come to its end: if it did not, the bundle is where it is to go, and `execute` counts it as done.

    Worked example: x went from a to b, y from a to b, x from b to c. Back go x from c to a, then y from b to a.
    """
    first: dict[str, str] = {}
    last: dict[str, Entry] = {}
    for entry in entries:
        if entry.bundle and entry.state is MoveState.BEGUN:
            first.setdefault(entry.bundle, entry.source)
            last.pop(entry.bundle, None)
            last[entry.bundle] = entry
    return tuple(
        PlannedMove(
            bundle=bundle,
            source=entry.destination,
            destination=first[bundle],
            sentence=f"back to where it was before plan {entry.plan} of {entry.by}",
        )
        for bundle, entry in reversed(last.items())
        if entry.destination != first[bundle]
    )
