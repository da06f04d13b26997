"""The bytes of a ledger file, and the rules that distinguish a torn tail from damage. No I/O here.

    file    header (64 bytes), then entries without gaps; all numbers little-endian
    header  magic 8s | version u32 | 0 u32 | ledger id u64 | epoch u64 | CRC u32 of all before | 0 u32
            | fence: epoch u64, CRC u32 | durable mark: CRC u32, u64
    entry   length u32 | num_messages u32 | publish_time_ms u64 | CRC u32 of the data | CRC u32 of the 20 bytes
            before, seeded with the ledger's id and the entry's | data

A later owner writes the fence field, in place; at first it has the writer's own epoch. The writer writes the durable
mark after each fdatasync, before it reports. The mark is the end of the last group that is known to be on the disk.
After a power failure it may lag by one group; it is never too high.

The checksum of an entry's head is seeded with the ledger's id and the entry's id. So bytes of another ledger never
count as an entry, and an entry after damage says which id it has. Where an entry is removed, a repair writes a head
only: length 0, and `GONE` in place of the CRC of its data. No entry can have that.

The first bytes that do not match, at offset X, decide what follows:

- The file ends inside an entry: a torn tail, which is cut. If that is before the durable mark, the file was shortened
  from outside. It is cut too, and the result says so, so that the caller logs an error.
- A checksum does not match at X ≥ durable mark: a torn tail, which is cut. The parts of a group may reach the disk in
  any order before its fdatasync, so entries after X may be intact. None of them was reported.
- A checksum does not match at X < durable mark, or the mark's own checksum does not match: damage. A changed length is
  damage too, because the length has a checksum; it never looks like a file that ends too early. `salvage` finds the
  intact entries.

Version 1 seeds the checksum of an entry's head with the ledger's id only, and its mark has no checksum. Version 1 is
read; version 2 is written.
"""

import struct
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from crc32c import crc32c

from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import LedgerCorruptedError, LedgerVersionError
from pulsar_barycenter.naming.counted import count_of

MAGIC: Final = b"BARYLDGR"
VERSION: Final = 2
HEADER_SIZE: Final = 64
FENCE_OFFSET: Final = 40
FENCE_SIZE: Final = 12
MARK_OFFSET: Final = 52
ENTRY_HEADER_SIZE: Final = 24
GONE: Final = 0x454E4F47
"""The value that a removed entry has as the CRC of its data (which is empty, so that the real CRC is 0)."""

_IDENTITY: Final = struct.Struct("<8sIIQQ")
_FENCE: Final = struct.Struct("<QI")
_MARK: Final = struct.Struct("<IQ")
_CRC: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<IIQI")
ENTRY: Final = struct.Struct("<IIQII")
"""The head of an entry: length, num_messages, publish_time_ms, CRC of the data, CRC of the head."""
_WINDOW: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Header:
    """The decoded header of a ledger's file. `durable` is the durable mark: the offset up to which the writer has made
    the file durable. None: the checksum of the mark does not match.
    """

    ledger_id: int
    epoch: int
    fenced_by: int
    durable: int | None
    version: int = VERSION


class Heads(NamedTuple):
    """The start values of the checksums of the heads (headers) of one ledger's entries. The checksum of the head of the
    entry with the id n begins with `seed ^ (n & mask)`. In format version 1 `mask` is 0, so all entries have the same
    start value.
    """

    seed: int
    mask: int

    @classmethod
    def of(cls, ledger_id: int, version: int = VERSION) -> "Heads":
        return cls(int(crc32c(ledger_id.to_bytes(8, "little"))), 0 if version == 1 else 0xFFFFFFFF)

    def begin(self, entry_id: int) -> int:
        return self.seed ^ (entry_id & self.mask)


def encode_header(ledger_id: int, epoch: int) -> bytes:
    identity = _IDENTITY.pack(MAGIC, VERSION, 0, ledger_id, epoch)
    fence = encode_fence(epoch)
    return identity + _CRC.pack(crc32c(identity)) + bytes(4) + fence + encode_mark(HEADER_SIZE)


def encode_fence(epoch: int) -> bytes:
    value = struct.pack("<Q", epoch)
    return value + _CRC.pack(crc32c(value))


def encode_mark(durable: int) -> bytes:
    return _MARK.pack(crc32c(durable.to_bytes(8, "little")), durable)


def decode_mark(data: bytes, version: int) -> int | None:
    """Return the durable mark in a file's header: the offset up to which the writer has made the file durable. None if
    the mark's checksum does not match. In format version 1 the mark has no checksum.
    """
    checksum, durable = _MARK.unpack_from(data, MARK_OFFSET)
    return int(durable) if version == 1 or checksum == crc32c(data[MARK_OFFSET + 4 : HEADER_SIZE]) else None


def decode_fence(file: str, data: bytes) -> int:
    """Return the epoch in the fence field of a file's header.

    Raises:
        LedgerCorruptedError: the checksum of the field does not match.
    """
    if len(data) == FENCE_SIZE:
        epoch, checksum = _FENCE.unpack(data)
        if crc32c(data[:8]) == checksum:
            return int(epoch)
    raise LedgerCorruptedError(file, FENCE_OFFSET, "the checksum of the fence field does not match")


def decode_header(file: str, data: bytes, ledger_id: int) -> Header:
    """Decode the header of a ledger's file, which is its first 64 bytes.

    Raises:
        LedgerCorruptedError: the header is damaged, or belongs to another ledger.
        LedgerVersionError: a later release wrote the file.
    """
    if len(data) < HEADER_SIZE or data[:8] != MAGIC:
        raise LedgerCorruptedError(file, 0, "this is not a ledger file: it has no valid header")
    _, version, _, found_id, epoch = _IDENTITY.unpack_from(data)
    if _CRC.unpack_from(data, _IDENTITY.size)[0] != crc32c(data[: _IDENTITY.size]):
        raise LedgerCorruptedError(file, 0, "the checksum of the file's header does not match")
    if not 1 <= version <= VERSION:
        raise LedgerVersionError(file, version, VERSION)
    if found_id != ledger_id:
        raise LedgerCorruptedError(file, 16, f"the file contains ledger {found_id} instead of {ledger_id}")
    fenced_by = decode_fence(file, data[FENCE_OFFSET : FENCE_OFFSET + FENCE_SIZE])
    return Header(ledger_id, epoch, fenced_by, decode_mark(data, version), version)


def encode_entries(items: Sequence[tuple[bytes, int, int]], heads: Heads, first: int) -> list[bytes]:
    """Encode entries, given as (data, num_messages, publish_time_ms), as a ledger's file contains them. Return the
    parts of the encoding, which the caller joins. `first` is the id of the first entry.

    Raises:
        struct.error: a number does not fit into its field.
    """
    parts: list[bytes] = []
    pack, checksum, pack_checksum = _ENTRY.pack, crc32c, _CRC.pack
    seed, mask = heads
    for entry_id, (data, num_messages, publish_time_ms) in enumerate(items, first):
        head = pack(len(data), num_messages, publish_time_ms, checksum(data))
        parts += (head, pack_checksum(checksum(head, seed ^ (entry_id & mask))), data)
    return parts


def encode_gone(heads: Heads, first: int, count: int) -> bytes:
    """Encode `count` removed entries, as a repaired file contains them. `first` is the id of the first of these
    entries.
    """
    head = _ENTRY.pack(0, 0, 0, GONE)
    return b"".join(head + _CRC.pack(crc32c(head, heads.begin(first + at))) for at in range(count))


def offset_of(index: EntryIndex, entry_id: int) -> int:
    """Return the offset in the file at which an entry begins; for the id after the last entry, the offset of the end of
    the file. `index` has the sizes of the entries.
    """
    return HEADER_SIZE + ENTRY_HEADER_SIZE * entry_id + index.bytes_before(entry_id)


def decode_entries(file: str, data: bytes, offset: int, first: int, count: int, heads: Heads) -> list[bytes]:
    """Decode entries and return their data. `data` are bytes of `file` that begin at `offset`, where the entry with the
    id `first` begins. `count` entries are to be decoded. If an entry after the first one is damaged, the result ends
    before that entry.

    Raises:
        LedgerCorruptedError: a checksum of the first entry does not match, or bytes of it are missing.
    """
    result: list[bytes] = []
    at = 0
    for entry_id in range(first, first + count):
        end = entry_end(data, at, heads.begin(entry_id), with_data=True)
        if end is None or end > len(data):
            if result:
                break
            raise LedgerCorruptedError(
                file, offset + at, "the checksum of an entry does not match", (entry_id, entry_id)
            )
        result.append(data[at + ENTRY_HEADER_SIZE : end])
        at = end
    return result


def entry_end(data: bytes, at: int, head_begin: int, *, with_data: bool) -> int | None:
    """Return where an entry ends that begins at the index `at` of `data`, as an index of `data`. The result may be
    greater than the length of `data`, if `data` ends inside the entry. Return None if a checksum does not match.

    If `with_data` is False, only the checksum of the entry's head is checked. `head_begin` is the start value of this
    checksum, the result of `Heads.begin`.
    """
    if at + ENTRY_HEADER_SIZE > len(data):
        return at + ENTRY_HEADER_SIZE
    length, _, _, data_checksum, head_checksum = ENTRY.unpack_from(data, at)
    if crc32c(data[at : at + ENTRY_HEADER_SIZE - 4], head_begin) != head_checksum:
        return None
    body = at + ENTRY_HEADER_SIZE
    end = int(body + length)
    if with_data and end <= len(data) and crc32c(memoryview(data)[body:end]) != data_checksum:
        return None if length or data_checksum != GONE else end
    return end


class Damage(NamedTuple):
    """A damaged part of a ledger's file: the bytes from the offset `begin` (inclusive) to `end` (exclusive). The
    entries that were there, `first` to `last` (both inclusive), cannot be read.

    `exact` is False if the number of these entries is not known. This is possible at the end of a ledger that was never
    closed, and in a file of format version 1, where the head of an entry does not contain the entry's id.
    """

    first: int
    last: int
    begin: int
    end: int
    exact: bool = True


@dataclass(slots=True)
class Scan:
    """What was found in a ledger's file: its entries, intact or not.

    `end` is the offset after the last entry that was read. `torn` is True if the file has bytes after `end` that are no
    complete entry. `shortened` is True if the file ends before its durable mark.

    `gone` are the ranges of entry ids (first, last), both inclusive, that a repair has removed. `damage` are the parts
    that cannot be read. Both are sorted. In `index`, entries of `gone` and `damage` have 0 messages and 0 bytes.
    `offsets` has the offset of each entry, 0 for an entry that cannot be read. It is None if no damage was found: then
    the sizes give the offsets.
    """

    index: EntryIndex = field(default_factory=EntryIndex)
    end: int = HEADER_SIZE
    torn: bool = False
    shortened: bool = False
    gone: list[tuple[int, int]] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    offsets: "array[int] | None" = None
    version: int = VERSION

    def offset_of(self, entry_id: int) -> int:
        """Return the offset in the file at which an entry begins, 0 if the entry cannot be read. For the id after the
        last entry, return the offset of the end of the entries.
        """
        if self.offsets is not None:
            return self.offsets[entry_id] if entry_id < len(self.offsets) else self.end
        return HEADER_SIZE + ENTRY_HEADER_SIZE * entry_id + self.index.bytes_before(entry_id)


def scan(
    file: str,
    read: Callable[[int, int], bytes],
    size: int,
    header: Header,
    *,
    with_data: bool,
    entry_count: int | None = None,
) -> Scan:
    """Return sizes and offsets of the entries in a file of `size` bytes that is not damaged. A torn tail is no damage,
    and is not part of the result. `read(offset, length)` returns bytes of the file, fewer than `length` only at its
    end.

    If `with_data` is True, the data of each entry is checked, otherwise only the head (header) of each entry. If
    `entry_count` is given, the ledger is known to have that number of entries, and the scan ends after them.

    Raises:
        LedgerCorruptedError: bytes before the durable mark are damaged, or one of the first `entry_count` entries is
            damaged or absent.
    """
    found = Scan(version=header.version)
    columns = Columns(found.index)
    seed, mask = Heads.of(header.ledger_id, header.version)
    durable = size if header.durable is None else header.durable
    window, base = b"", HEADER_SIZE
    at = HEADER_SIZE
    while at < size and (entry_count is None or columns.count < entry_count):
        end = entry_end(window, at - base, seed ^ (columns.count & mask), with_data=with_data)
        if end is not None and end > len(window) and base + len(window) < size:
            # The window ends inside this entry: read again from the start of the entry, up to its known end.
            wanted = max(_WINDOW, end - (at - base))
            if base != at or len(window) < min(wanted, size - at):
                window, base = read(at, wanted), at
                continue
        if end is None or end > len(window):
            found.torn = True
            if entry_count is not None or (end is None and at < durable):
                raise LedgerCorruptedError(
                    file,
                    at,
                    "the checksum of an entry does not match, or that of its header"
                    if end is None
                    else "the file ends inside an entry",
                )
            break
        length, num_messages, publish_time_ms, data_checksum = _ENTRY.unpack_from(window, at - base)
        if data_checksum == GONE and not length:
            join_ranges(found.gone, columns.count, columns.count)
        columns.add(length, num_messages, publish_time_ms)
        at = base + end
    columns.flush()
    if entry_count is not None and len(found.index) < entry_count:
        raise LedgerCorruptedError(
            file, at, f"the file must have {count_of(entry_count, 'entry')}, but {len(found.index)} were found"
        )
    found.end = at
    found.shortened = entry_count is None and at < durable
    return found


def join_ranges(ranges: list[tuple[int, int]], first: int, last: int) -> None:
    """Add the range `first` to `last` (both inclusive) to `ranges`, which are all before it: extend the last range if
    there is no gap between the two, otherwise append the new range.
    """
    if ranges and ranges[-1][1] + 1 == first:
        first = ranges.pop()[0]
    ranges.append((first, last))


class Columns:
    """Collects sizes, message counts and publish times in lists, until `flush` adds them to an `EntryIndex`. Extending
    the index entry by entry would be slower.
    """

    __slots__ = ("_counts", "_index", "_sizes", "_times", "count")

    def __init__(self, index: EntryIndex) -> None:
        self._index = index
        self._sizes: list[int] = []
        self._counts: list[int] = []
        self._times: list[int] = []
        self.count = 0

    def add(self, size: int, num_messages: int, publish_time_ms: int) -> None:
        self._sizes.append(size)
        self._counts.append(num_messages)
        self._times.append(publish_time_ms)
        self.count += 1

    def flush(self) -> None:
        self._index.extend(self._sizes, self._counts, self._times)
