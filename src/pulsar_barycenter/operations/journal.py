"""The journal of a plan: a file with one line for each state of a move, so that a killed tool can continue.

A line is on the disk before the action that it announces begins. The journal also shows who moved what, when, and why.

Only one process at a time uses a journal. It holds a lock on the file, which the operating system releases when the
process ends for any reason. Another process asks it to stop through a file next to the journal, and sees by the lock
that it has ended.

`backward` returns the moves that reverse a journal.
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
from pulsar_barycenter.whole_files.appearing import write_whole

_MAX_BYTES: Final = 256 << 20
_BLOCK: Final = 1 << 16
_MAX_REQUEST_BYTES: Final = 1 << 16


class MoveState(enum.StrEnum):
    BEGUN = "begun"
    """The broker has received the request to unload the bundle, or is about to."""
    SERVED = "served"
    """The destination serves the bundle."""
    FAILED = "failed"
    MOVED_AWAY = "moved away"
    """The destination served the bundle, and it has moved again since."""
    CANCELLED = "cancelled"
    """Another process asked to begin no more moves; the entry names no bundle."""


_DONE: Final = (MoveState.SERVED, MoveState.MOVED_AWAY)


class Entry(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """A state of a move. `at` is epoch ms, `plan` the name of the plan, `by` the user, `why` the reason.

    `took_s` is the duration of a move that has ended.
    """

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
    """A request to stop. `at` is epoch ms."""

    at: int
    by: str
    why: str = ""


class JournalError(ValueError):
    """The journal cannot be read or belongs to another plan; the text says what to do."""


class Journal:
    """Appends to a file, and creates it if it does not exist. Only one process at a time writes it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def file(self) -> Path:
        return self._file

    def read(self) -> list[Entry]:
        """Return the entries, without an incomplete last line.

        Raises:
            JournalError: a line is not an entry, or the file is larger than a journal may be.
        """
        try:
            if self._file.stat().st_size > _MAX_BYTES:
                raise JournalError(
                    f"{self._file} is larger than {_MAX_BYTES:,} bytes, the maximum for a journal; name another file "
                    "with --journal"
                )
            text = self._file.read_bytes()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        try:
            return [msgspec.json.decode(line, type=Entry) for line in whole.splitlines()]
        except msgspec.DecodeError as error:
            raise JournalError(f"{self._file} is not a journal: {error}; name another file with --journal") from error

    def append(self, entry: Entry) -> None:
        """Append an entry, replacing an incomplete last line; it is on the disk when this returns."""
        with self._file.open("ab") as file:
            file.truncate(self._whole_bytes())
            file.write(msgspec.json.encode(entry) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    # ---- the lock, and requests to stop ----

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the journal for this process; delete an earlier request to stop.

        Raises:
            JournalError: another process has locked it.
            OSError: the file cannot be created.
        """
        with self._file.open("ab") as file:
            if not _is_locked_now(file.fileno()):
                raise JournalError(f"another process uses the journal {self._file}; `barycenter cancel` stops it")
            self._asked_file.unlink(missing_ok=True)
            yield

    def is_held(self) -> bool:
        """Return whether a process carries out moves with this journal."""
        try:
            with self._file.open("rb") as file:
                return not _is_locked_now(file.fileno())
        except FileNotFoundError:
            return False

    def ask_to_stop(self, at: int, by: str, why: str = "") -> None:
        """Ask the process that uses the journal to begin no more moves.

        Raises:
            OSError: the request cannot be written next to the journal.
        """
        write_whole(self._asked_file, msgspec.json.encode(_StopAsked(at=at, by=by, why=why)))

    def asked_to_stop(self) -> str:
        """Return who asked to stop, and why, as text; blank if there is no request."""
        try:
            with self._asked_file.open("rb") as file:
                asked = msgspec.json.decode(file.read(_MAX_REQUEST_BYTES), type=_StopAsked)
        except FileNotFoundError:
            return ""
        except (msgspec.DecodeError, OSError) as error:
            return f"another process asked to stop: {error}"
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
    """Lock an open file; return False if another process has locked it. Closing the file releases the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def left_of(plan: Plan, entries: Iterable[Entry]) -> tuple[PlannedMove, ...]:
    """Return the moves that are not done, in the plan's order, including moves that began and did not end.

    A move whose bundle has moved again counts as done: an operator has to decide whether to repeat it.

    Raises:
        JournalError: the entries belong to another plan.
    """
    last: dict[str, MoveState] = {}
    for entry in entries:  # an entry without a bundle is not about a move
        if entry.plan != plan.name:
            raise JournalError("the journal belongs to another plan; name a new file with --journal")
        last[entry.bundle] = entry.state
    return tuple(move for move in plan.moves if last.get(move.bundle) not in _DONE)


def backward(entries: Iterable[Entry]) -> tuple[PlannedMove, ...]:
    """Return the moves that bring each bundle back to its first broker; the bundle that moved last comes first.

    A bundle that is back already is left out. Moves that began and did not end are included, since they may have been
    made; if not, the bundle is already at its destination, and `execute` counts the move as done.

    Example: x moved from a to b, y from a to b, x from b to c. The result is x from c to a, then y from b to a.
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
            sentence=f"back to the broker that had it before plan {entry.plan} of {entry.by}",
        )
        for bundle, entry in reversed(last.items())
        if entry.destination != first[bundle]
    )
