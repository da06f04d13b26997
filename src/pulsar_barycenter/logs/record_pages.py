"""The logs of a folder, a page at a time from the newest record back, however large the files are.

A log is lines of JSON with `at` (epoch ms), `by` and `number`: when, by whom, the how manieth of its log. Files are
read in blocks from their ends, always the one whose unread part may be newest, until the page is full. A file is in the
order of its broker's clock, as long as that is not set back by more than CLOCK_SLACK_MS: a record further out of order
may be missed. A line cut short, or spoiled, is passed over. One page reads MOST_BYTES at most, and a few blocks of each
file; what it then has is whole down to its cursor, with which the next page goes on.
"""

import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

MOST_ON_PAGE: Final = 1_000
MOST_BYTES: Final = 32 * 1_048_576
MOST_FILES: Final = 128
"""Of more files those changed last are read."""
BLOCK_BYTES: Final = 65_536
LONGEST_LINE: Final = 1_048_576
CLOCK_SLACK_MS: Final = 60_000
LATEST_MS: Final = 2**53

T = TypeVar("T")

Key: TypeAlias = tuple[int, str, int]
"""When, by whom, the how manieth of its log: the order of records, and what makes them the same one."""


class Kept(Protocol):
    """A record of a log."""

    @property
    def at(self) -> int: ...
    @property
    def by(self) -> str: ...
    @property
    def number(self) -> int: ...


R = TypeVar("R", bound=Kept)
R_contra = TypeVar("R_contra", bound=Kept, contravariant=True)


class Question(Protocol[R_contra]):
    """Which records: the newest `limit` wanted ones, of `since_ms` to `latest_ms` (inclusive), before a cursor."""

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
    """Return what `cursor_of` made a text of.

    Raises:
        ValueError: it did not.
    """
    parts = text.split(":", 2)
    if len(parts) != 3 or not all(each.isascii() and each.isdecimal() and len(each) <= 16 for each in parts[:2]):
        raise ValueError(f"{text[:100]!r} is no cursor of a page")
    return int(parts[0]), parts[2], int(parts[1])


class Found(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The records of a page, oldest first. `cut`: where older ones go on, None if there are none. `times` are when the
    first and the last of each log were made."""

    records: list[T]
    cut: Key | None
    times: list[int]


def find(folder: Path | None, question: Question[R], remembered: Iterable[R], decode: Callable[[bytes], R]) -> Found[R]:
    """Return the newest `question.limit` records that are wanted, of the logs in `folder` and of those `remembered`.

    What is both logged and remembered counts once. No file is read whole. Blocks; for a thread of its own.
    """
    remembered = list(remembered)
    newest = _Newest[R](question.limit)
    for record in remembered:
        if question.wants(record):
            newest.add(record)
    times = [record.at for record in remembered]
    with ExitStack() as opened:
        files = [_Backwards(each, opened, times, decode) for each in (_logs_of(folder) if folder is not None else ())]
        for file in files:
            file.skip_later_than(question.latest_ms + CLOCK_SLACK_MS)
        cut = _fill(newest, files, question)
    kept, cut = bounded(newest.records(), question.limit, cut)
    return Found(records=kept, cut=cut, times=times)


def merged(pages: Sequence[tuple[Sequence[R], str]], limit: int) -> tuple[list[R], Key | None]:
    """Return one page of those that several brokers answered to the same question, each with its cursor."""
    cut = max((parse_cursor(cursor) for _, cursor in pages if cursor), default=None)
    found = {key_of(record): record for records, _ in pages for record in records}
    return bounded([found[key] for key in sorted(found)], limit, cut)


def bounded(records: list[R], limit: int, cut: Key | None) -> tuple[list[R], Key | None]:
    """Return the last `limit` of records, oldest first, which are whole from `cut` on; and where older ones go on."""
    kept = [record for record in records if cut is None or key_of(record) >= cut]
    if len(kept) > limit:
        kept = kept[len(kept) - limit :]
        cut = key_of(kept[0]) if kept else (LATEST_MS, "", 0)
    return kept, cut


class _Newest(Generic[R]):
    """Keeps the newest records of those added, each once: one more than `limit`, which tells that there are more."""

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
        """When the oldest was made, as soon as there are enough."""
        return self._heap[0][0][0] if len(self._heap) == self._most else None

    def records(self) -> list[R]:
        return [record for _, record in sorted(self._heap, key=lambda each: each[0])]


def _fill(newest: _Newest[R], files: Sequence["_Backwards[R]"], question: Question[R]) -> Key | None:
    """Read until nothing unread can matter; return from where on what was found is whole, None if all of it is."""
    left_bytes = MOST_BYTES
    while True:
        unread = [file for file in files if file.is_left and file.frontier_ms + CLOCK_SLACK_MS >= question.since_ms]
        if not unread:
            return None
        file = max(unread, key=lambda each: each.frontier_ms)
        oldest_ms = newest.oldest_ms
        if oldest_ms is not None and file.frontier_ms + CLOCK_SLACK_MS < oldest_ms:
            return None
        cut = file.frontier_ms + CLOCK_SLACK_MS + 1, "", 0
        if left_bytes <= 0 and cut < (question.before or (LATEST_MS, "", 0)):  # the next page shall get further
            return cut
        left_bytes -= BLOCK_BYTES
        for record in file.block():
            if question.wants(record):
                newest.add(record)


class _Backwards(Generic[R]):
    """A log, read from its end back. `frontier_ms`: what is unread was made by then, but for the clock's slack."""

    def __init__(self, path: Path, opened: ExitStack, times: list[int], decode: Callable[[bytes], R]) -> None:
        self._decode = decode
        self._file = -1
        self._end, self._rest, self.frontier_ms = 0, b"", LATEST_MS
        with suppress(OSError):  # the log was set aside or removed just now
            self._file = os.open(path, os.O_RDONLY)
            opened.callback(os.close, self._file)
            self._end = os.fstat(self._file).st_size
        self._last_ms = self._last_moment()
        times += [at for at in (self._moment_after(0), self._last_ms) if at is not None]

    @property
    def is_left(self) -> bool:
        return self._end > 0

    def block(self) -> Iterator[R]:
        """Read a block; yield the records whose lines begin in it, the newest first."""
        length = min(BLOCK_BYTES, self._end)
        self._end -= length
        lines = (self._read(self._end, length) + self._rest).split(b"\n")
        self._rest = lines.pop(0) if self._end else b""
        if len(self._rest) > LONGEST_LINE:
            self._rest = b""
        for line in reversed(lines):
            record = _decoded(self._decode, line)
            if record is not None:
                self.frontier_ms = min(self.frontier_ms, record.at)
                yield record

    def skip_later_than(self, latest_ms: int) -> None:
        """Leave out the end of the file that holds later records alone."""
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
            # the line that lies across it is the last one that may be wanted
            for place in range(upper, min(self._end, upper + LONGEST_LINE), BLOCK_BYTES):
                end = self._read(place, BLOCK_BYTES).find(b"\n")
                if end >= 0:
                    self._end = place + end
                    break
            self.frontier_ms = latest_ms

    def _moment_after(self, place: int) -> int | None:
        """Return when the first record was made whose line begins at `place` or after, None if that is not near."""
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
    """Return the logs to read; `folder` may be one.

    One in use comes before what was set aside of it: renamed in between, none is missed.
    """
    if folder.is_file():
        return [folder]
    found = []
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith((".jsonl", ".jsonl.1")):
                with suppress(OSError):
                    found.append((entry.stat().st_mtime_ns, entry.path))
    return sorted((Path(path) for _, path in heapq.nlargest(MOST_FILES, found)), key=str)
