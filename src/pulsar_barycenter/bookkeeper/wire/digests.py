"""The bytes that a bookie stores for an entry: its numbers, a digest, and the data.

    ledger i64 | entry i64 | last confirmed i64 | length i64 | digest | data

*Last confirmed* is the last entry that was confirmed when the writer packed this one. *Length* is the number of bytes
of data in this entry and in all before it. The digest covers the numbers and the data. Bookies do not interpret these
bytes.

Source: `org.apache.bookkeeper.proto.checksum.DigestManager` and its kinds.
"""

import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count, repeat
from typing import Final, TypeAlias

from crc32c import crc32c

from pulsar_barycenter.bookkeeper.errors import DigestMismatchError

_NUMBERS: Final = struct.Struct(">qqqq")
NUMBERS_BYTES: Final = _NUMBERS.size
"""The number of bytes that come before the digest in an entry."""
LAST_ENTRY: Final = -1
"""The entry number that requests the last entry which a bookie has of a ledger."""

Body: TypeAlias = tuple[bytes, bytes]
"""The bytes that bookies store for an entry, in two parts, so that the data is not copied: numbers and digest; data."""

Compute: TypeAlias = Callable[[bytes, bytes], bytes]
"""A function that returns the digest of the numbers followed by the data."""


class DigestType(Enum):
    """A kind of digest. The values are those of `LedgerMetadataFormat.DigestType`."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as a bookie stores it. `length` counts the bytes of data in this entry and in all before it."""

    ledger: int
    entry: int
    last_confirmed: int
    length: int
    data: bytes


def master_key(password: bytes) -> bytes:
    """Return the ledger's key: 20 bytes made of its password. A bookie stores the key with the first entry of the
    ledger that it gets, and refuses later adds and fencing reads that have another key.
    """
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


def _crc32c(numbers: bytes, data: bytes) -> bytes:
    return crc32c(data, crc32c(numbers)).to_bytes(4, "big")


def _crc32(numbers: bytes, data: bytes) -> bytes:
    return zlib.crc32(data, zlib.crc32(numbers)).to_bytes(8, "big")


def _nothing(numbers: bytes, data: bytes) -> bytes:
    return b""


def _hmac(password: bytes) -> Compute:
    key = hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()

    def compute(numbers: bytes, data: bytes) -> bytes:
        return hmac.digest(key, numbers + data, "sha1")

    return compute


class EntryCodec:
    """Packs and verifies the entries of one ledger."""

    __slots__ = ("_compute", "_ledger", "_overhead")

    def __init__(self, ledger: int, kind: DigestType, password: bytes) -> None:
        self._ledger = ledger
        computes: dict[DigestType, Compute] = {
            DigestType.CRC32: _crc32,
            DigestType.CRC32C: _crc32c,
            DigestType.DUMMY: _nothing,
            DigestType.HMAC: _hmac(password),
        }
        self._compute = computes[kind]
        self._overhead = NUMBERS_BYTES + len(self._compute(b"", b""))

    @property
    def overhead(self) -> int:
        """The number of bytes that an entry has in addition to its data."""
        return self._overhead

    def pack(self, entry: int, last_confirmed: int, length: int, data: bytes) -> Body:
        """Return the bytes that bookies store for an entry. `length` is the number of bytes of data in the ledger's
        entries up to this one, inclusive.
        """
        numbers = _NUMBERS.pack(self._ledger, entry, last_confirmed, length)
        return numbers + self._compute(numbers, data), data

    def pack_all(self, first: int, last_confirmed: int, lengths: Sequence[int], datas: Sequence[bytes]) -> list[Body]:
        """Return what `pack` returns for each of `datas`, the entries from `first` on. `lengths` has, for each, the
        number of bytes of data up to it, inclusive.
        """
        return list(map(self.pack, count(first), repeat(last_confirmed), lengths, datas))

    def unpack(self, entry: int, body: bytes) -> Entry:
        """Verify and parse `body`, the bytes that a bookie stores for the entry with the number `entry`. If `entry` is
        `LAST_ENTRY`, `body` may be any entry of the ledger.

        Raises:
            DigestMismatchError: the digest does not match, or `body` is another entry, or of another ledger.
        """
        if len(body) < self._overhead:
            raise DigestMismatchError(
                f"ledger {self._ledger}, entry {entry}: the bookie sent {len(body)} bytes, but an entry has at "
                f"least {self._overhead}"
            )
        numbers = body[:NUMBERS_BYTES]
        data = body[self._overhead :]
        if not hmac.compare_digest(self._compute(numbers, data), body[NUMBERS_BYTES : self._overhead]):
            raise DigestMismatchError(
                f"ledger {self._ledger}, entry {entry}: the digest does not match; the bytes are damaged, or the ledger"
                " has another password or digest type"
            )
        ledger, number, last_confirmed, length = _NUMBERS.unpack(numbers)
        if ledger != self._ledger or entry not in (number, LAST_ENTRY):
            raise DigestMismatchError(
                f"ledger {self._ledger}, entry {entry}: the bookie sent entry {number} of ledger {ledger}"
            )
        if number < 0 or not -1 <= last_confirmed < number or length < len(data):
            raise DigestMismatchError(
                f"ledger {self._ledger}, entry {entry}: the bookie sent numbers that contradict each other: entry "
                f"{number}, last confirmed {last_confirmed}, length {length} with {len(data)} bytes of data"
            )
        return Entry(ledger, number, last_confirmed, length, data)
