r"""The metadata of a ledger, the value of its key: quorums, segments, state, digest and password.

A *segment* says which bookies (its *ensemble*) have the entries from its first one up to the next segment. While a
ledger is not CLOSED, only its writer knows its last entry.

    "BookieMetadataFormatVersion\t" | version in ASCII | "\n" | version 3: varint size, protobuf; 2: protobuf as text;
                                                              1: lines

A value of version 1 or 2 keeps its version when it is changed. Protobuf fields that this code does not know are kept.

Source: `org.apache.bookkeeper.meta.LedgerMetadataSerDe` and `LedgerMetadataFormat`.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from pulsar_barycenter.bookkeeper.errors import InvalidQuorumError, LedgerMetadataError
from pulsar_barycenter.bookkeeper.metadata.ledger_formats_pb2 import LedgerMetadataFormat
from pulsar_barycenter.bookkeeper.wire.digests import DigestType

MAX_VALUE_BYTES: Final = 1 << 20
"""The maximum size in bytes (inclusive) of a value that is read: ZooKeeper stores no larger one by default."""

_HEAD: Final = b"BookieMetadataFormatVersion\t"
_CURRENT: Final = 3
_CLOSED_TAG: Final = "CLOSED"
_RECOVERING_ENTRY: Final = -102
"""The number that version 1 stores instead of the last entry while a ledger is being recovered."""


class LedgerState(Enum):
    """The state of a ledger. The values are those of `LedgerMetadataFormat.State`. A ledger never returns to an earlier
    state.
    """

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of a ledger: `members` are the bookies that have its entries, in the order of the ensemble. It begins
    with the entry `first`, and ends before the first entry of the next segment.
    """

    first: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """The metadata of a ledger. `last_entry` and `length` (bytes of data) are -1 and 0 unless the ledger is CLOSED.

    `digest_type` is None for a value of version 1: such a ledger is opened with the caller's digest and password.
    `token` is a random number, by which the client that created the ledger recognises its own value.
    """

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: tuple[Segment, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry: int = -1
    length: int = 0
    digest_type: DigestType | None = DigestType.CRC32C
    password: bytes = field(default=b"", repr=False)
    custom: Mapping[str, bytes] = field(default_factory=dict)
    token: int = 0
    version: int = _CURRENT
    source: bytes = field(default=b"", repr=False, compare=False)
    """The protobuf as it was read, for the fields that this code does not know."""

    @property
    def last_segment(self) -> Segment:
        return self.segments[-1]

    def segment_of(self, entry: int) -> Segment:
        """Return the segment that contains `entry` (≥ 0)."""
        return self.segments[max(0, bisect_right(self.segments, entry, key=lambda segment: segment.first) - 1)]

    def write_set(self, entry: int) -> tuple[str, ...]:
        """Return the bookies that store `entry`, in the order in which a reader asks them."""
        return write_set(self.segment_of(entry).members, entry, self.write_quorum)

    def with_ensemble(self, first: int, members: tuple[str, ...]) -> "LedgerMetadata":
        """Return the metadata with a new last segment: `members` have the entries from `first` on. If the present last
        segment also begins at `first`, it is replaced.

        Raises:
            ValueError: the present last segment begins after `first`.
        """
        kept = self.segments
        if first < kept[-1].first:
            raise ValueError(
                f"no segment can begin at entry {first}: the last segment begins later, at {kept[-1].first}"
            )
        if kept[-1].first == first:
            kept = kept[:-1]
        return replace(self, segments=(*kept, Segment(first, members)))

    def recovering(self) -> "LedgerMetadata":
        return replace(self, state=LedgerState.IN_RECOVERY)

    def closed(self, last_entry: int, length: int) -> "LedgerMetadata":
        return replace(self, state=LedgerState.CLOSED, last_entry=last_entry, length=length)


def write_set(members: Sequence[str], entry: int, write_quorum: int) -> tuple[str, ...]:
    """Return the members of an ensemble that store `entry`.

    Source: `org.apache.bookkeeper.client.RoundRobinDistributionSchedule`.
    """
    size = len(members)
    return tuple(members[(entry + number) % size] for number in range(write_quorum))


def check_quorums(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """Check that ensemble size ≥ write quorum ≥ ack quorum ≥ 1.

    Raises:
        InvalidQuorumError: the three sizes do not satisfy this.
    """
    if not ensemble_size >= write_quorum >= ack_quorum >= 1:
        raise InvalidQuorumError(ensemble_size, write_quorum, ack_quorum)


def encode(metadata: LedgerMetadata) -> bytes:
    """Return the bytes to store for a ledger's metadata, in the format version that the metadata has."""
    head = b"%s%d\n" % (_HEAD, metadata.version)
    if metadata.version == 1:
        return head + "\n".join(_lines(metadata)).encode()
    stored = _format(metadata)
    if metadata.version == 2:
        return head + text_format.MessageToString(stored).encode()
    body = stored.SerializeToString()
    return head + _varint(len(body)) + body


def decode(ledger: int, value: bytes) -> LedgerMetadata:
    """Parse the stored metadata of a ledger.

    Raises:
        LedgerMetadataError: the value cannot be read, contradicts itself or exceeds MAX_VALUE_BYTES.
    """
    try:
        metadata = _decode(value)
        _check(metadata)
    except (ValueError, IndexError, DecodeError, InvalidQuorumError) as error:
        raise LedgerMetadataError(
            f"ledger {ledger}: its metadata cannot be read: {error}. Compare with `bookkeeper shell ledgermetadata"
            f" -ledgerid {ledger}`"
        ) from error
    return metadata


def _decode(value: bytes) -> LedgerMetadata:
    if len(value) > MAX_VALUE_BYTES:
        raise ValueError(f"the stored metadata has {len(value):,} bytes; at most {MAX_VALUE_BYTES:,} are allowed")
    head, newline, body = value.partition(b"\n")
    if not head.startswith(_HEAD) or not newline:
        raise ValueError(f"the stored metadata begins with {value[:40]!r}, expected {_HEAD!r} and a version")
    version = head.removeprefix(_HEAD)
    if version == b"3":
        size, start = _read_varint(body)
        if size > len(body) - start:
            raise ValueError(f"the stored metadata is truncated: it has {len(body) - start} of {size} bytes")
        return _of_format(LedgerMetadataFormat.FromString(body[start : start + size]), 3)
    if version == b"2":
        parsed = LedgerMetadataFormat()
        text_format.Parse(body, parsed)
        return _of_format(parsed, 2)
    if version == b"1":
        return _of_lines(body.decode().splitlines())
    raise ValueError(f"the stored metadata has version {version!r}, but this client reads versions 1 to {_CURRENT}")


def _of_format(stored: LedgerMetadataFormat, version: int) -> LedgerMetadata:
    if not stored.IsInitialized():
        raise ValueError("the stored metadata lacks a required field")
    state = LedgerState(stored.state)
    is_closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        ensemble_size=stored.ensembleSize,
        write_quorum=stored.quorumSize,
        ack_quorum=stored.ackQuorumSize if stored.HasField("ackQuorumSize") else stored.quorumSize,
        segments=tuple(Segment(part.firstEntryId, tuple(part.ensembleMember)) for part in stored.segment),
        state=state,
        last_entry=stored.lastEntryId if is_closed else -1,
        length=stored.length if is_closed else 0,
        digest_type=DigestType(stored.digestType) if stored.HasField("password") else None,
        password=stored.password,
        custom={pair.key: pair.value for pair in stored.customMetadata},
        token=stored.cToken,
        version=version,
        source=stored.SerializeToString(),
    )


def _format(metadata: LedgerMetadata) -> LedgerMetadataFormat:
    stored = LedgerMetadataFormat.FromString(metadata.source) if metadata.source else LedgerMetadataFormat()
    stored.quorumSize = metadata.write_quorum
    stored.ackQuorumSize = metadata.ack_quorum
    stored.ensembleSize = metadata.ensemble_size
    stored.length = metadata.length
    stored.lastEntryId = metadata.last_entry
    stored.state = LedgerMetadataFormat.State.ValueType(metadata.state.value)
    if metadata.digest_type is not None:
        stored.digestType = LedgerMetadataFormat.DigestType.ValueType(metadata.digest_type.value)
        stored.password = metadata.password
    del stored.segment[:]
    for segment in metadata.segments:
        stored.segment.add(firstEntryId=segment.first, ensembleMember=segment.members)
    del stored.customMetadata[:]
    for key, value in metadata.custom.items():
        stored.customMetadata.add(key=key, value=value)
    if metadata.version > 2:
        stored.cToken = metadata.token
    return stored


def _of_lines(lines: Sequence[str]) -> LedgerMetadata:
    quorum, ensemble_size, length = (int(line) for line in lines[:3])
    segments = []
    state, last_entry = LedgerState.OPEN, -1
    for line in lines[3:]:
        number, *members = line.split("\t")
        if members == [_CLOSED_TAG]:
            is_recovering = int(number) == _RECOVERING_ENTRY
            state = LedgerState.IN_RECOVERY if is_recovering else LedgerState.CLOSED
            last_entry = -1 if is_recovering else int(number)
            break
        segments.append(Segment(int(number), tuple(members)))
    return LedgerMetadata(
        ensemble_size,
        quorum,
        quorum,
        tuple(segments),
        state,
        last_entry,
        length if state is LedgerState.CLOSED else 0,
        digest_type=None,
        version=1,
    )


def _lines(metadata: LedgerMetadata) -> list[str]:
    lines = [str(metadata.write_quorum), str(metadata.ensemble_size), str(metadata.length)]
    lines += ["\t".join((str(segment.first), *segment.members)) for segment in metadata.segments]
    ends = {LedgerState.OPEN: "", LedgerState.IN_RECOVERY: f"{_RECOVERING_ENTRY}\t{_CLOSED_TAG}"}
    return [*lines, ends.get(metadata.state, f"{metadata.last_entry}\t{_CLOSED_TAG}")]


def _check(metadata: LedgerMetadata) -> None:
    check_quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
    firsts = [segment.first for segment in metadata.segments]
    if not firsts or firsts[0] < 0 or any(later <= sooner for sooner, later in pairwise(firsts)):
        raise ValueError(
            f"the segments begin at entries {firsts}; expected at least one segment, and increasing numbers from 0 on"
        )
    for segment in metadata.segments:
        if len(segment.members) != metadata.ensemble_size or "" in segment.members:
            raise ValueError(
                f"the segment from entry {segment.first} on has the bookies {segment.members}; expected "
                f"{metadata.ensemble_size} bookies"
            )
    if metadata.last_entry < -1 or metadata.length < 0:
        raise ValueError(
            f"the ledger is closed at entry {metadata.last_entry} with {metadata.length} bytes; expected an entry from "
            "-1 on, and a length from 0 on"
        )


def _read_varint(data: bytes) -> tuple[int, int]:
    """Return the number that the varint at the beginning of `data` encodes, and the offset of the first byte after the
    varint.
    """
    number = 0
    for index, byte in enumerate(data[:5]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, index + 1
    raise ValueError("the size at the beginning of the stored metadata is not a number of 32 bits")


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
