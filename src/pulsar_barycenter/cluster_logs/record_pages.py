"""Reads the logs of a folder by page, from the newest record backwards, however large the files are.

A log has JSON lines with `at` (ms since 1970), `by` (broker id) and `number` (counts the records of that broker). Files
are read in blocks from their ends. The next block is always of the file whose unread part may be newest, until the page
is full.

A file is ordered by its broker's clock, unless the clock is set back by more than CLOCK_SLACK_MS; a record further out
of order may be missed. Incomplete or damaged lines are skipped. One page reads at most MAX_BYTES_READ, and some blocks
of each file. Such a page is complete down to its cursor, at which the next page continues.
"""

import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

MAX_RECORDS_ON_PAGE: Final = 1_000
MAX_BYTES_READ: Final = 32 * 1_048_576
MAX_FILES: Final = 128
"""The maximum number of files that are read. If there are more, only those that were changed last are read."""
BLOCK_BYTES: Final = 65_536
MAX_LINE_BYTES: Final = 1_048_576
CLOCK_SLACK_MS: Final = 60_000
LATEST_MS: Final = 2**53

T = TypeVar("T")

Key: TypeAlias = tuple[int, str, int]
"""Time, broker, and number in the broker's log: the order of records, and their identity."""


class Kept(Protocol):
    """A record of a log that can be read page by page."""

    @property
    def at(self) -> int: ...
    @property
    def by(self) -> str: ...
    @property
    def number(self) -> int: ...


R = TypeVar("R", bound=Kept)
R_contra = TypeVar("R_contra", bound=Kept, contravariant=True)


class Question(Protocol[R_contra]):
    """Selects records: the newest `limit` records that match and whose time is from `since_ms` to `latest_ms`, both
    inclusive. With `before`, only records older than the one with this key.
    """

    @property
    def since_ms(self) -> int: ...
    @property
    def latest_ms(self) -> int: ...
    @property
    def before(self) -> Key | None: ...
    @property
    def limit(self) -> int: ...
    def wants(self, record: R_contra, /) -> bool: ...


class _Moment(msgspec.Struct):
    at: int


_decode_moment: Final = msgspec.json.Decoder(_Moment).decode


def key_of(record: Kept) -> Key:
    return record.at, record.by, record.number


def cursor_of(key: Key) -> str:
    at, by, number = key
    return f"{at}:{number}:{by}"


def parse_cursor(text: str) -> Key:
    """Return the key of a record from the text of a cursor, which `cursor_of` made.

    Raises:
        ValueError: the text is not such a cursor.
    """
    parts = text.split(":", 2)
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) <= 16 for part in parts[:2]):
        raise ValueError(f"{text[:100]!r} is not the cursor of a page; give the cursor that the previous page returned")
    return int(parts[0]), parts[2], int(parts[1])


class Found(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The records of a page, oldest first. Older records have keys below `cut`; None: there are no older records.
    `times` are the times of the first and the last record of each log.
    """

    records: list[T]
    cut: Key | None
    times: list[int]


def find(folder: Path | None, question: Question[R], remembered: Iterable[R], decode: Callable[[bytes], R]) -> Found[R]:
    """Return the newest `question.limit` records that `question` selects, from the logs in `folder` and from
    `remembered`.

    A record that is in both counts once. No file is read completely. Blocking; call it on a separate thread.
    """
    remembered = list(remembered)
    newest = _Newest[R](question.limit)
    for record in remembered:
        if question.wants(record):
            newest.add(record)
    times = [record.at for record in remembered]
    with ExitStack() as opened:
        files = [
            _BackwardReader(path, opened, times, decode) for path in (_logs_of(folder) if folder is not None else ())
        ]
        for file in files:
            file.skip_later_than(question.latest_ms + CLOCK_SLACK_MS)
        cut = _fill(newest, files, question)
    kept, cut = bounded(newest.records(), question.limit, cut)
    return Found(records=kept, cut=cut, times=times)


def merged(pages: Sequence[tuple[Sequence[R], str]], limit: int) -> tuple[list[R], Key | None]:
    """Merge the pages of records that several brokers returned for one request into one page of at most `limit`.

    Each page comes with the cursor of its broker. Returns the records, and the key where the next page starts, None if
    there are no more records.
    """
    cut = max((parse_cursor(cursor) for _, cursor in pages if cursor), default=None)
    found = {key_of(record): record for records, _ in pages for record in records}
    return bounded([found[key] for key in sorted(found)], limit, cut)


def bounded(records: list[R], limit: int, cut: Key | None) -> tuple[list[R], Key | None]:
    """Return the newest `limit` records of a page, oldest first, and a key: the older records that follow on the next
    page have lower keys (None: there are no older records).

    `records` is complete from the key `cut` on, inclusive; records with lower keys are left out, because others between
    them may be missing. `cut` None: `records` is complete.
    """
    kept = [record for record in records if cut is None or key_of(record) >= cut]
    if len(kept) > limit:
        kept = kept[len(kept) - limit :]
        cut = key_of(kept[0]) if kept else (LATEST_MS, "", 0)
    return kept, cut


class _Newest(Generic[R]):
    """Collects the newest records, each once, at most `limit` + 1: the additional one shows that there are more."""

    def __init__(self, limit: int) -> None:
        self._most = limit + 1
        self._heap: list[tuple[Key, R]] = []
        self._keys: set[Key] = set()

    def add(self, record: R) -> None:
        key = key_of(record)
        if key in self._keys:
            return
        self._keys.add(key)
        heapq.heappush(self._heap, (key, record))
        if len(self._heap) > self._most:
            self._keys.remove(heapq.heappop(self._heap)[0])

    @property
    def oldest_ms(self) -> int | None:
        """The time of the oldest collected record; None while fewer than `limit` + 1 records are collected."""
        return self._heap[0][0][0] if len(self._heap) == self._most else None

    def records(self) -> list[R]:
        return [record for _, record in sorted(self._heap, key=lambda item: item[0])]


def _fill(newest: _Newest[R], files: Sequence["_BackwardReader[R]"], question: Question[R]) -> Key | None:
    """Read the log files backwards until no unread record can belong to the page, or until MAX_BYTES_READ bytes were
    read. Return the key from which on, inclusive, `newest` has all records; None: it has all records of the page.
    """
    left_bytes = MAX_BYTES_READ
    while True:
        unread = [file for file in files if file.is_left and file.frontier_ms + CLOCK_SLACK_MS >= question.since_ms]
        if not unread:
            return None
        file = max(unread, key=lambda unread_file: unread_file.frontier_ms)
        oldest_ms = newest.oldest_ms
        if oldest_ms is not None and file.frontier_ms + CLOCK_SLACK_MS < oldest_ms:
            return None
        cut = file.frontier_ms + CLOCK_SLACK_MS + 1, "", 0
        # ensures that the next page reads further
        if left_bytes <= 0 and cut < (question.before or (LATEST_MS, "", 0)):
            return cut
        left_bytes -= BLOCK_BYTES
        for record in file.block():
            if question.wants(record):
                newest.add(record)


class _BackwardReader(Generic[R]):
    """Reads a log file backwards, from its end. A record that was not read yet is older than `frontier_ms`, or at most
    CLOCK_SLACK_MS newer: this much a broker's clock may have been set back.
    """

    def __init__(self, path: Path, opened: ExitStack, times: list[int], decode: Callable[[bytes], R]) -> None:
        self._decode = decode
        self._file = -1
        self._end, self._rest, self.frontier_ms = 0, b"", LATEST_MS
        with suppress(OSError):  # the log was renamed or removed meanwhile
            self._file = os.open(path, os.O_RDONLY)
            opened.callback(os.close, self._file)
            self._end = os.fstat(self._file).st_size
        self._last_ms = self._last_moment()
        times += [at for at in (self._moment_after(0), self._last_ms) if at is not None]

    @property
    def is_left(self) -> bool:
        return self._end > 0

    def block(self) -> Iterator[R]:
        """Read one more block of the file; yield the records whose lines begin in this block, newest first."""
        length = min(BLOCK_BYTES, self._end)
        self._end -= length
        lines = (self._read(self._end, length) + self._rest).split(b"\n")
        self._rest = lines.pop(0) if self._end else b""
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest = b""
        for line in reversed(lines):
            record = _decoded(self._decode, line)
            if record is not None:
                self.frontier_ms = min(self.frontier_ms, record.at)
                yield record

    def skip_later_than(self, latest_ms: int) -> None:
        """Skip the records at the end of the file that are later than `latest_ms`."""
        if self._last_ms is None or self._last_ms <= latest_ms:
            return
        lower, upper = 0, self._end
        while upper - lower > BLOCK_BYTES:
            middle = (lower + upper) // 2
            at_ms = self._moment_after(middle)
            if at_ms is None:
                return
            lower, upper = (lower, middle) if at_ms > latest_ms else (middle, upper)
        if upper < self._end:
            # the line across this offset is the last one that may be selected
            for place in range(upper, min(self._end, upper + MAX_LINE_BYTES), BLOCK_BYTES):
                end = self._read(place, BLOCK_BYTES).find(b"\n")
                if end >= 0:
                    self._end = place + end
                    break
            self.frontier_ms = latest_ms

    def _moment_after(self, place: int) -> int | None:
        """Return the time of the first record whose line begins at the offset `place` or within one block after it;
        None if there is no such record.
        """
        lines = self._read(place, BLOCK_BYTES).split(b"\n")
        for line in lines[1 if place else 0 :]:
            found = _decoded(_decode_moment, line)
            if found is not None:
                return found.at
        return None

    def _last_moment(self) -> int | None:
        start = max(0, self._end - BLOCK_BYTES)
        for line in reversed(self._read(start, BLOCK_BYTES).split(b"\n")):
            found = _decoded(_decode_moment, line)
            if found is not None:
                return found.at
        return None

    def _read(self, place: int, length: int) -> bytes:
        try:
            return os.pread(self._file, length, place)
        except OSError:
            return b""


def _decoded(decode: Callable[[bytes], T], line: bytes) -> T | None:
    try:
        return decode(line) if line else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _logs_of(folder: Path) -> list[Path]:
    """Return the paths of the log files to read: those in `folder`, which may also be a single log file.

    A current file comes before its previous file, so that none is missed if it is renamed in between.
    """
    if folder.is_file():
        return [folder]
    found = []
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith((".jsonl", ".jsonl.1")):
                with suppress(OSError):
                    found.append((entry.stat().st_mtime_ns, entry.path))
    return sorted((Path(path) for _, path in heapq.nlargest(MAX_FILES, found)), key=str)
