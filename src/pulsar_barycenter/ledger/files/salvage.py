"""Finds the intact entries of a damaged ledger file, before the damage and after it. No I/O here.

If the head of an entry is damaged, its length is unknown. The next entry is then searched byte by byte: it begins where
both a head and the data after it match their checksums. The checksum of the head depends on the entry's id. So it shows
this id, and with it the number of entries lost in between.

Heads of version 1 do not contain the id. Then the number of lost entries is
- one, if the damaged head still leads to the next entry, if its data still matches, or if there is no space for two;
- the difference to the known number of entries, if this is the only damaged part with an unknown number, and the
  durable mark shows that the file was not shortened (it may have been cut where an entry ends);
- otherwise the greatest number for which there is space. A position may then be higher than it was, so that messages
  are delivered again. It is never lower, which would lose messages.
"""

import re
import struct
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from pulsar_barycenter.ledger.files import file_format as fmt

_WINDOW: Final = 4 << 20
_LENGTH: Final = struct.Struct("<I")
_NOT_ZERO: Final = re.compile(rb"[^\0]")

Read = Callable[[int, int], bytes]


class _Bytes:
    """Reads the bytes of a file in large parts, and keeps the part that was read last in memory. `get` returns fewer
    bytes than requested only at the end of the file.
    """

    def __init__(self, read: Read, size: int) -> None:
        self._read = read
        self._window = b""
        self._base = 0
        self.size = size

    def get(self, at: int, length: int) -> bytes:
        begin = at - self._base
        if begin < 0 or begin + length > len(self._window):
            self._window, self._base, begin = self._read(at, max(length, _WINDOW)), at, 0
        return self._window[begin : begin + length]


@dataclass(slots=True)
class _Hole:
    """A damaged part of a file, without an intact entry. `before` is the index of the intact entry that follows it, in
    the list of intact entries that were found. In this part, at least `fewest` and at most `most` entries were lost.
    """

    before: int
    begin: int
    end: int
    fewest: int
    most: int


@dataclass(slots=True)
class _Found:
    """What was found in a damaged file: intact entries, whose ids are not determined yet, and the damaged parts (holes)
    between them.
    """

    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    heads: list[tuple[int, int, int]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    holes: list[_Hole] = field(default_factory=list)
    end: int = fmt.HEADER_SIZE
    rest: int = fmt.HEADER_SIZE
    """The offset after which no intact entry was found."""


def salvage(
    read: Read,
    size: int,
    ledger_id: int,
    header: fmt.Header | None,
    *,
    entry_count: int | None = None,
) -> fmt.Scan:
    """Find every intact entry of a damaged ledger file of `size` bytes, and the ranges of lost entries between them.
    The data of entries is checked too.

    `read(offset, length)` returns bytes of the file, fewer only at its end. `header` is None if the header is damaged;
    then the format version with which more intact entries are found is used. `entry_count` is the number of entries
    that the ledger is known to have; entries that are absent at the end count as lost. If `entry_count` is None, bytes
    after the last intact entry are a torn tail and are not part of the result, unless they are before the durable mark.
    """
    data = _Bytes(read, size)
    if header is None:
        walks = [(_walk(data, fmt.Heads.of(ledger_id, version), None, entry_count), version) for version in (2, 1)]
        found, version = max(walks, key=lambda walk: len(walk[0].heads))
        durable: int | None = None
    else:
        version, durable = header.version, header.durable
        found = _walk(data, fmt.Heads.of(ledger_id, version), durable, entry_count)
    is_whole = durable is not None and size >= durable
    return _numbered(found, version, size, size if durable is None else durable, entry_count, is_whole=is_whole)


def _walk(data: _Bytes, heads: fmt.Heads, durable: int | None, entry_count: int | None) -> _Found:
    """Go through the file, and return its intact entries and its damaged parts (holes) in order.

    If `entry_count` is None, the search ends at the first bytes at or after the offset `durable` that do not match
    their checksum. If `durable` is None too, the whole file is searched.
    """
    found = _Found()
    at, entry_id = fmt.HEADER_SIZE, 0
    is_counted = entry_count is not None
    stop_at_id = entry_count if entry_count is not None and heads.mask else None
    while at < data.size and (stop_at_id is None or entry_id < stop_at_id):
        end = _end_of(data, at, heads.begin(entry_id))
        if end is not None and end > data.size:
            break
        if end is None or not _data_matches(data, at, end):
            if durable is not None and at >= durable and not is_counted:
                break
            after = (end, entry_id + 1) if end is not None else _next_entry(data, at, heads, entry_id)
            if after is None:
                break
            fewest, most = _lost(data, at, after, entry_id, heads, head_holds=end is not None)
            found.holes.append(_Hole(len(found.heads), at, after[0], fewest, most))
            at, entry_id = after[0], entry_id + most
            continue
        length, num_messages, publish_time_ms, checksum, _ = fmt.ENTRY.unpack(data.get(at, fmt.ENTRY_HEADER_SIZE))
        if checksum == fmt.GONE and not length:
            found.gone.append(len(found.heads))
        found.offsets.append(at)
        found.heads.append((length, num_messages, publish_time_ms))
        at, entry_id = end, entry_id + 1
    found.end = found.rest = at
    return found


def _end_of(data: _Bytes, at: int, head_begin: int) -> int | None:
    """Return the offset in the file at which the entry ends that begins at the offset `at`; None if the checksum of its
    head does not match. The result may be greater than the size of the file.
    """
    end = fmt.entry_end(data.get(at, fmt.ENTRY_HEADER_SIZE), 0, head_begin, with_data=False)
    return None if end is None else at + end


def _data_matches(data: _Bytes, at: int, end: int) -> bool:
    """Return True if the data of the entry from `at` to `end` matches its checksum, or if the entry is marked as
    removed.
    """
    length, _, _, checksum, _ = fmt.ENTRY.unpack(data.get(at, fmt.ENTRY_HEADER_SIZE))
    whole = crc32c(data.get(at + fmt.ENTRY_HEADER_SIZE, end - at - fmt.ENTRY_HEADER_SIZE)) == checksum
    return whole or (not length and checksum == fmt.GONE)


def _next_entry(data: _Bytes, at: int, heads: fmt.Heads, entry_id: int) -> tuple[int, int] | None:
    """Search for the first intact entry that begins after the offset `at`, where the entry `entry_id` is expected.
    Return the offset and the id of the entry found; None if there is none. In format version 1 the id is not stored, so
    the result is the lowest id that the entry can have.
    """
    nothing = bytes(fmt.ENTRY_HEADER_SIZE - 4)
    plain = crc32c(nothing)
    # CRC is linear: the checksum with seed b equals the checksum with seed 0, xor that of the same number of zeros with
    # seed b (relative to seed 0). So one table of ids serves all offsets.
    ids: dict[int, int] = {}
    known = entry_id
    for place in _possible_heads(data, at + 1):
        while heads.mask and known <= entry_id + (place - at) // fmt.ENTRY_HEADER_SIZE:
            ids[crc32c(nothing, heads.begin(known)) ^ plain] = known
            known += 1
        if not heads.mask and not ids:
            ids[crc32c(nothing, heads.seed) ^ plain] = entry_id + 1
        head = data.get(place, fmt.ENTRY_HEADER_SIZE)
        found = ids.get(crc32c(head[:-4]) ^ int.from_bytes(head[-4:], "little"))
        if found is not None:
            end = place + fmt.ENTRY_HEADER_SIZE + _LENGTH.unpack_from(head)[0]
            if end <= data.size and _data_matches(data, place, end):
                return place, found
    return None


def _possible_heads(data: _Bytes, begin: int) -> Iterator[int]:
    """Yield the offsets, from `begin` (inclusive) on, at which the head of an entry can begin: an entry with the length
    that the head contains fits into the file, and the head is not all zeros.
    """
    last = data.size - fmt.ENTRY_HEADER_SIZE
    while begin <= last:
        window = data.get(begin, min(_WINDOW, data.size - begin))
        stop = len(window) - fmt.ENTRY_HEADER_SIZE + 1
        room = last - begin
        at = 0
        while at < stop:
            length = _LENGTH.unpack_from(window, at)[0]
            if length == 0:
                something = _NOT_ZERO.search(window, at)
                if something is None:
                    at = stop
                    break
                if something.start() - at >= fmt.ENTRY_HEADER_SIZE:
                    at = something.start() - fmt.ENTRY_HEADER_SIZE + 1
                    continue
            if length <= room - at:
                yield begin + at
            at += 1
        begin += stop


def _lost(
    data: _Bytes, at: int, after: tuple[int, int], entry_id: int, heads: fmt.Heads, *, head_holds: bool
) -> tuple[int, int]:
    """Return the least and the greatest number of entries that can have been in a damaged part of the file.

    The part begins at the offset `at`, with the entry `entry_id`. `after` is the offset and the id of the intact entry
    that follows the part. `head_holds` is True if only the data of the entry at `at` is damaged, not its head.
    """
    place, next_id = after
    room = place - at
    most = max(room // fmt.ENTRY_HEADER_SIZE, 1)
    if heads.mask or head_holds:
        return next_id - entry_id, next_id - entry_id
    length, _, _, checksum, _ = fmt.ENTRY.unpack(data.get(at, fmt.ENTRY_HEADER_SIZE))
    body = room - fmt.ENTRY_HEADER_SIZE
    if most == 1 or length == body or crc32c(data.get(at + fmt.ENTRY_HEADER_SIZE, body)) == checksum:
        return 1, 1
    return 1, most


def _numbered(
    found: _Found, version: int, size: int, durable: int, entry_count: int | None, *, is_whole: bool
) -> fmt.Scan:
    """Assign ids to the intact entries that were found and to the lost entries between them, and return the result as a
    scan of the file. `is_whole`: the file is known not to be shortened.
    """
    scan = fmt.Scan(version=version, end=found.end, offsets=array("Q"))
    assert scan.offsets is not None
    columns = fmt.Columns(scan.index)
    spare = _spare(found, entry_count)
    doubtful = sum(hole.fewest < hole.most for hole in found.holes)
    is_sum_known = entry_count is not None and doubtful == 1 and found.rest == size and is_whole
    holes, gone = iter([*found.holes, None]), set(found.gone)
    hole = next(holes)
    for at, head in enumerate(found.heads):
        while hole is not None and hole.before == at:
            lost = hole.fewest if hole.fewest == hole.most else min(hole.most, hole.fewest + spare)
            spare -= lost - hole.fewest
            exact = hole.fewest == hole.most or is_sum_known
            _lose(scan, columns, lost, hole.begin, hole.end, exact=exact)
            hole = next(holes)
        if at in gone:
            fmt.join_ranges(scan.gone, columns.count, columns.count)
        scan.offsets.append(found.offsets[at])
        columns.add(*head)
    while hole is not None:  # the data of the last entry is damaged
        _lose(scan, columns, hole.fewest, hole.begin, hole.end, exact=True)
        hole = next(holes)
    _finish(scan, columns, found.rest, size, durable, entry_count)
    return scan


def _spare(found: _Found, entry_count: int | None) -> int:
    """Each damaged part of the file has at least `fewest` lost entries. Return how many more entries than these are
    lost in all parts together: the exact number if `entry_count` is known, otherwise the greatest possible number.
    """
    if entry_count is None:
        return sum(hole.most - hole.fewest for hole in found.holes)
    return max(entry_count - len(found.heads) - sum(hole.fewest for hole in found.holes), 0)


def _lose(scan: fmt.Scan, columns: fmt.Columns, count: int, begin: int, end: int, *, exact: bool) -> None:
    if not count:
        return
    first = columns.count
    scan.damage.append(fmt.Damage(first, first + count - 1, begin, end, exact))
    for _ in range(count):
        columns.add(0, 0, 0)
    assert scan.offsets is not None
    scan.offsets.extend([0] * count)


def _finish(scan: fmt.Scan, columns: fmt.Columns, rest: int, size: int, durable: int, entry_count: int | None) -> None:
    """Decide whether the bytes after the offset `rest`, where the last intact entry ends, are a torn tail or damage, or
    whether the file was shortened. Record the decision in `scan`, then add the collected columns to its index.
    """
    assert scan.offsets is not None
    scan.torn = rest < size
    if entry_count is not None:
        if columns.count < entry_count:
            _lose(scan, columns, entry_count - columns.count, rest, size, exact=True)
    elif rest < durable:
        if rest < size and size >= durable:
            _lose(scan, columns, 1, rest, size, exact=False)
        else:
            scan.shortened = True
    columns.flush()
