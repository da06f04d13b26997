"""Encodes and decodes the records of Pulsar: a topic's list of ledgers, a cursor, and an entry of a cursor's ledger.

Fields that this code does not know are kept: a record that was read is changed and written, not created again. An empty
value is the record of a topic without ledgers.

Source: `MetaStoreImpl` and `ManagedCursorImpl` of Pulsar.
"""

from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from pulsar_barycenter.ledger.pulsar_records.compression import pack, unpack
from pulsar_barycenter.ledger.pulsar_records.errors import PulsarRecordError
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import (
    CompressionType,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    PositionInfo,
)

MAX_ENTRY_BYTES: Final = 5_253_120
"""The maximum size in bytes (inclusive) of an entry of a cursor's ledger, which is also the limit of Pulsar's
bookies.
"""

_M = TypeVar("_M", bound=Message)


class StoredLedgers(NamedTuple):
    """A topic's list of ledgers in Pulsar's form, and the compression with which it is stored."""

    info: ManagedLedgerInfo
    compression: CompressionType.ValueType


class StoredCursor(NamedTuple):
    """A cursor's record in Pulsar's form, and the compression with which it is stored."""

    info: ManagedCursorInfo
    compression: CompressionType.ValueType


def read_ledgers(path: str, value: bytes) -> StoredLedgers:
    """Decode `value`, a topic's list of ledgers that is stored at `path` in Pulsar's form.

    Raises:
        PulsarRecordError: the value cannot be read, or exceeds a limit of the module `compression`.
    """
    return StoredLedgers(*_read(path, value, ManagedLedgerInfo))


def read_cursor(path: str, value: bytes) -> StoredCursor:
    """Decode `value`, a cursor's record that is stored at `path` in Pulsar's form.

    Raises:
        PulsarRecordError: the value cannot be read, or exceeds a limit of the module `compression`.
    """
    return StoredCursor(*_read(path, value, ManagedCursorInfo))


def write_record(path: str, stored: StoredLedgers | StoredCursor) -> bytes:
    """Encode a topic's list of ledgers, or a cursor's record, as the value to store at `path`.

    Raises:
        PulsarRecordError: the value would exceed a limit of the module `compression`, or its compression needs pyarrow,
            which is not installed.
    """
    try:
        return pack(stored.info.SerializeToString(), stored.compression)
    except PulsarRecordError as error:
        raise PulsarRecordError(f"{path}: {error}") from error


def read_position(ledger_id: int, entry: bytes) -> PositionInfo:
    """Decode `entry`, which is an entry of the ledger `ledger_id` that stores a cursor. Such entries are never
    compressed.

    Raises:
        PulsarRecordError: the entry cannot be read, or is larger than MAX_ENTRY_BYTES.
    """
    place = f"cursor ledger {ledger_id}"
    if len(entry) > MAX_ENTRY_BYTES:
        raise PulsarRecordError(
            f"{place}: the entry that was read has {len(entry):,} bytes, more than the limit of {MAX_ENTRY_BYTES:,}"
        )
    return _parsed(place, entry, PositionInfo)


def write_position(info: PositionInfo) -> bytes:
    """Encode the state of a cursor as an entry of the ledger that stores the cursor.

    Raises:
        PulsarRecordError: the entry would be larger than MAX_ENTRY_BYTES.
    """
    entry = info.SerializeToString()
    if len(entry) > MAX_ENTRY_BYTES:
        raise PulsarRecordError(
            f"the state of the cursor has {len(entry):,} bytes, more than the {MAX_ENTRY_BYTES:,} of an entry"
        )
    return entry


def _read(path: str, value: bytes, kind: type[_M]) -> tuple[_M, CompressionType.ValueType]:
    try:
        plain, compression = unpack(value)
    except PulsarRecordError as error:
        raise PulsarRecordError(f"{path}: {error}") from error
    return _parsed(path, plain, kind), compression


def _parsed(place: str, data: bytes, kind: type[_M]) -> _M:
    try:
        found = kind.FromString(data)
    except DecodeError as error:
        raise PulsarRecordError(f"{place}: the stored value is not a {kind.DESCRIPTOR.name}: {error}") from error
    if not found.IsInitialized():
        raise PulsarRecordError(f"{place}: the stored {kind.DESCRIPTOR.name} lacks a required field")
    return found
