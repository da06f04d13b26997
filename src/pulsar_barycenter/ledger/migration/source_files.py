"""Reads the files of ledgers for a migration, without an open storage. Blocking."""

import os
from typing import Final

from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.ledger.files.examine import read_exactly
from pulsar_barycenter.ledger.files.folder import ledger_error
from pulsar_barycenter.ledger.files.repair import inspect
from pulsar_barycenter.ledger.inspection import ListedLedger
from pulsar_barycenter.ledger.migration.planning import Refusal, SourceLedger, refusal_of_file

_GROUP_BYTES: Final = 2 << 20


def examined(root: str, listed: ListedLedger, max_entry_bytes: int) -> SourceLedger | Refusal:
    """Read the whole file of a ledger in the folder `root`. Return the ledger as one to copy, or a `Refusal` with the
    reason for which it cannot be copied. `max_entry_bytes` is the size (inclusive) of the largest entry that the
    bookies accept.
    """
    ledger_id, topic = listed.record.ledger_id, str(listed.topic)
    try:
        found = inspect(root, ledger_id, listed.entries)
    except OSError as error:
        return Refusal(str(ledger_error(error)), topic, ledger_id)
    except LedgerError as error:
        return Refusal(str(error), topic, ledger_id)
    reason = refusal_of_file(found, max_entry_bytes)
    if reason:
        return Refusal(reason, topic, ledger_id)
    index = found.found.index
    return SourceLedger(topic, ledger_id, listed.epoch, found.path, found.found.version, len(index), index.total_bytes)


def read_group(ledger: SourceLedger, first: int, offset: int) -> list[bytes]:
    """Read entries from a ledger's file and return their data. The first one is the entry with the id `first`, which
    begins at `offset` of the file. The result has about 2 MiB, at least one entry, and ends with the ledger's last
    entry at the latest. The checksums of the entries are checked.

    Raises:
        LedgerError: the file cannot be read, or has changed since `examined` read it.
    """
    heads = fmt.Heads.of(ledger.ledger_id, ledger.version)
    try:
        descriptor = os.open(ledger.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            head = read_exactly(descriptor, offset, fmt.ENTRY_HEADER_SIZE).ljust(fmt.ENTRY_HEADER_SIZE, b"\0")
            size = fmt.ENTRY_HEADER_SIZE + fmt.ENTRY.unpack(head)[0]
            data = read_exactly(descriptor, offset, max(_GROUP_BYTES, size))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ledger_error(error) from error
    return fmt.decode_entries(ledger.path, data, offset, first, ledger.entries - first, heads)


def offset_after(offset: int, group: list[bytes]) -> int:
    """Return the offset in the file at which the entry after `group` begins. `group` is the data of consecutive
    entries, the first of which begins at `offset`.
    """
    return offset + fmt.ENTRY_HEADER_SIZE * len(group) + sum(map(len, group))
