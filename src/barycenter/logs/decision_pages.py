"""The decision logs of a folder, a page at a time from the newest decision back, however large the files are.

Files are read in blocks from their ends, always the one whose unread part may be newest, until the page is full. A file
is in the order of its broker's clock, as long as that is not set back by more than CLOCK_SLACK_MS: a decision further
out of order may be missed. A line cut short, or spoiled, is passed over. One page reads MOST_BYTES at most, and a few
blocks of each file; what it then has is whole down to its cursor, with which the next page goes on.
"""

import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import msgspec

from barycenter.logs.decision_log import DecisionRecord
from barycenter.naming.bundle import MAX_HASH, Bundle, BundleRange
from barycenter.naming.errors import InvalidNameError
from barycenter.naming.topic import TopicName

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
"""When, by whom, the how manieth of its log: the order of decisions, and what makes them the same one."""


class _Moment(msgspec.Struct):
    at: int


_decode: Final = msgspec.json.Decoder(DecisionRecord).decode
_decode_moment: Final = msgspec.json.Decoder(_Moment).decode


class DecisionPage(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Decisions, oldest first. `next` is the cursor for older ones, "" if there are none.

    `known_since` and `known_until` are when the oldest and the newest of all decisions kept was made, epoch ms,
    whatever was asked for; both 0 if none is kept. `silent` are the brokers that did not answer: what they alone keep
    is missing.
    """

    decisions: list[DecisionRecord]
    next: str = ""
    known_since: int = 0
    known_until: int = 0
    silent: list[str] = []


@dataclass(frozen=True, slots=True)
class Span:
    """Hashes from `lower` to `last`, both inclusive, of a namespace."""

    namespace: str
    lower: int
    last: int

    @staticmethod
    def of_topic(topic: TopicName) -> "Span":
        return Span(str(topic.namespace), topic.hash32, topic.hash32)

    @staticmethod
    def of_bundle(bundle: Bundle) -> "Span":
        last = bundle.range.upper if bundle.range.contains(bundle.range.upper) else bundle.range.upper - 1
        return Span(str(bundle.namespace), bundle.range.lower, last)

    def as_bundle(self) -> str:
        """Return the smallest bundle that has all of it: the same bundles cover both, unless they are smaller yet."""
        lower = min(self.lower, MAX_HASH - 1)
        return f"{self.namespace}/{BundleRange(lower, min(MAX_HASH, self.last + 1))}"

    def is_covered_by(self, bundle: str) -> bool:
        """Tell whether all of it lies in a bundle: a topic's, a bundle itself, or those that it was split from."""
        if not bundle.startswith(f"{self.namespace}/"):
            return False
        try:
            covering = Bundle.parse(bundle)
        except InvalidNameError:
            return False
        hashes = covering.range
        return str(covering.namespace) == self.namespace and hashes.contains(self.lower) and hashes.contains(self.last)


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """Which decisions: blank names are not asked for, `since_ms` and `until_ms` are inclusive epoch ms.

    `covering` are those of bundles that have all of it. `before` is the cursor of a page: only older decisions.
    """

    bundle: str = ""
    namespace: str = ""
    broker: str = ""
    kind: str = ""
    covering: Span | None = None
    since_ms: int = 0
    until_ms: int = LATEST_MS
    before: Key | None = None
    limit: int = 100

    def wants(self, record: DecisionRecord) -> bool:
        if not self.since_ms <= record.at <= self.until_ms:
            return False
        if self.before is not None and key_of(record) >= self.before:
            return False
        if self.kind and record.kind != self.kind:
            return False
        if self.covering is not None and not self.covering.is_covered_by(record.bundle):
            return False
        return record.concerns(bundle=self.bundle, namespace=self.namespace, broker=self.broker)

    @property
    def latest_ms(self) -> int:
        return self.until_ms if self.before is None else min(self.until_ms, self.before[0])


def key_of(record: DecisionRecord) -> Key:
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
        raise ValueError(f"{text[:100]!r} is no cursor of a page of decisions")
    return int(parts[0]), parts[2], int(parts[1])


def read_page(
    folder: Path | None, question: DecisionQuestion, remembered: Iterable[DecisionRecord] = ()
) -> DecisionPage:
    """Return the newest `question.limit` decisions that are wanted, of the logs in `folder` and of those `remembered`.

    What is both logged and remembered counts once. No file is read whole. Blocks; for a thread of its own.
    """
    remembered = list(remembered)
    newest = _Newest(question.limit)
    for record in remembered:
        if question.wants(record):
            newest.add(record)
    times = [record.at for record in remembered]
    with ExitStack() as opened:
        files = [_Backwards(each, opened, times) for each in (_logs_of(folder) if folder is not None else ())]
        for file in files:
            file.skip_later_than(question.latest_ms + CLOCK_SLACK_MS)
        cut = _fill(newest, files, question)
    return _page(newest.records(), question.limit, cut, times)


def merged_pages(pages: Sequence[DecisionPage], limit: int, silent: Iterable[str] = ()) -> DecisionPage:
    """Return one page of those that several brokers answered to the same question."""
    cut = max((parse_cursor(page.next) for page in pages if page.next), default=None)
    found = {key_of(record): record for page in pages for record in page.decisions}
    times = [at for page in pages for at in (page.known_since, page.known_until) if at]
    page = _page([found[key] for key in sorted(found)], limit, cut, times)
    return msgspec.structs.replace(page, silent=sorted(silent))


def _page(records: list[DecisionRecord], limit: int, cut: Key | None, times: Sequence[int]) -> DecisionPage:
    """Return the page of `records`, oldest first, which are whole from `cut` on."""
    kept = [record for record in records if cut is None or key_of(record) >= cut]
    if len(kept) > limit:
        kept = kept[len(kept) - limit :]
        cut = key_of(kept[0]) if kept else (LATEST_MS, "", 0)
    return DecisionPage(
        decisions=kept,
        next="" if cut is None else cursor_of(cut),
        known_since=min(times, default=0),
        known_until=max(times, default=0),
    )


class _Newest:
    """Keeps the newest decisions of those added, each once: one more than `limit`, which tells that there are more."""

    def __init__(self, limit: int) -> None:
        self._most = limit + 1
        self._heap: list[tuple[Key, DecisionRecord]] = []
        self._keys: set[Key] = set()

    def add(self, record: DecisionRecord) -> None:
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

    def records(self) -> list[DecisionRecord]:
        return [record for _, record in sorted(self._heap, key=lambda each: each[0])]


def _fill(newest: _Newest, files: Sequence["_Backwards"], question: DecisionQuestion) -> Key | None:
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


class _Backwards:
    """A log, read from its end back. `frontier_ms`: what is unread was made by then, but for the clock's slack."""

    def __init__(self, path: Path, opened: ExitStack, times: list[int]) -> None:
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

    def block(self) -> Iterator[DecisionRecord]:
        """Read a block; yield the decisions whose lines begin in it, the newest first."""
        length = min(BLOCK_BYTES, self._end)
        self._end -= length
        lines = (self._read(self._end, length) + self._rest).split(b"\n")
        self._rest = lines.pop(0) if self._end else b""
        if len(self._rest) > LONGEST_LINE:
            self._rest = b""
        for line in reversed(lines):
            record = _decoded(_decode, line)
            if record is not None:
                self.frontier_ms = min(self.frontier_ms, record.at)
                yield record

    def skip_later_than(self, latest_ms: int) -> None:
        """Leave out the end of the file that holds later decisions alone."""
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
        """Return when the first decision was made whose line begins at `place` or after, None if that is not near."""
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
