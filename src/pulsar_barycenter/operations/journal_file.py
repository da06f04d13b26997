"""A file of JSON lines, one for each entry, that outlives a crash; one process at a time uses it.

An entry is on the disk when `append` returns. An incomplete last line is ignored and replaced. The lock on the file is
released by the operating system when the process ends for any reason. Another process asks the process that has the
lock to stop, through a file next to the journal, and sees by the lock when that process has ended.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.whole_files.appearing import write_whole
from pulsar_barycenter.whole_files.lines import append_line
from pulsar_barycenter.whole_files.reading import read_regular

_MAX_BYTES: Final = 256 << 20
_MAX_REQUEST_BYTES: Final = 1 << 16

E = TypeVar("E", bound=msgspec.Struct)


class _StopAsked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request of an operator to stop the process that uses a journal. `at` is epoch ms."""

    at: int
    by: str
    why: str = ""


class JournalError(ValueError):
    """The journal cannot be read or belongs to another operation; the text says what to do."""


class JournalFile(Generic[E]):
    """A journal: a file to which entries are appended, one line of JSON each. The file is created if it does not
    exist.
    """

    def __init__(
        self, file: Path, entry_type: type[E], *, stops: str = "`barycenter cancel` stops that process"
    ) -> None:
        """`stops` tells an operator how to stop a process that has locked the journal."""
        self._file = file
        self._entry_type = entry_type
        self._stops = stops

    @property
    def file(self) -> Path:
        return self._file

    def read(self) -> list[E]:
        """Return the entries of the journal, oldest first. An incomplete last line, which a crash left, is ignored.

        Raises:
            JournalError: a line is not an entry, or the file cannot be read or is larger than a journal may be.
        """
        try:
            text = read_regular(self._file, _MAX_BYTES)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise JournalError(
                f"{self._file} cannot be read as a journal: {error.strerror or error}; name another file with --journal"
            ) from error
        whole = text[: text.rfind(b"\n") + 1]
        if not self._may_be_cut(text[len(whole) :]):
            raise JournalError(
                f"{self._file} is not a journal: its last line is neither an entry nor the beginning of one; name"
                " another file with --journal"
            )
        try:
            return [decode_json(line, self._entry_type) for line in whole.splitlines()]
        except msgspec.DecodeError as error:
            raise JournalError(f"{self._file} is not a journal: {error}; name another file with --journal") from error

    def _may_be_cut(self, rest: bytes) -> bool:
        """Return whether `rest`, the text after the last line break, may be what a crash left of an entry: `append`
        replaces it, and must not destroy a file that is no journal. After a loss of power, it may be zeros.
        """
        begin = b'{"%s":' % msgspec.structs.fields(self._entry_type)[0].encode_name.encode()
        return rest.startswith(begin) or begin.startswith(rest) or not rest.strip(b"\0")

    def append(self, entry: E) -> None:
        """Append an entry, replacing an incomplete last line; it is on the disk when this returns."""
        append_line(self._file, msgspec.json.encode(entry))

    # ---- the lock, and requests to stop ----

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the journal for this process while the block runs. A request to stop that was made before the lock is
        deleted.

        Raises:
            JournalError: another process has locked it, or it is not a regular file.
            OSError: the file cannot be created.
        """
        if self._file.exists() and not self._file.is_file():
            raise JournalError(f"{self._file} is not a regular file; name another file with --journal")
        with self._file.open("ab") as file:
            if not _is_locked_now(file.fileno()):
                raise JournalError(f"another process uses the journal {self._file}; {self._stops}")
            self._asked_file.unlink(missing_ok=True)
            yield

    def is_held(self) -> bool:
        """Return whether a process has locked this journal, that is, carries out its operation now."""
        try:
            with self._file.open("rb") as file:
                return not _is_locked_now(file.fileno())
        except FileNotFoundError:
            return False

    def ask_to_stop(self, at: int, by: str, why: str = "") -> None:
        """Ask the process that uses the journal to begin no more moves. Return once the request is written; the process
        stops later. `at` is epoch ms, `by` the user, `why` the reason.

        Raises:
            OSError: the request cannot be written next to the journal.
        """
        write_whole(self._asked_file, msgspec.json.encode(_StopAsked(at=at, by=by, why=why)))

    def asked_to_stop(self) -> str:
        """Return who asked to stop, and why, as text; blank if there is no request."""
        try:
            asked = decode_json(read_regular(self._asked_file, _MAX_REQUEST_BYTES), _StopAsked)
        except FileNotFoundError:
            return ""
        except (msgspec.DecodeError, OSError) as error:
            return f"another process asked to stop: {error}"
        return f"{asked.by} asked to stop" + (f": {asked.why}" if asked.why else "")

    @property
    def _asked_file(self) -> Path:
        return self._file.with_name(f"{self._file.name}.cancel")


def _is_locked_now(descriptor: int) -> bool:
    """Lock an open file and return True; return False without waiting if another process has locked it. Closing the
    file releases the lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
