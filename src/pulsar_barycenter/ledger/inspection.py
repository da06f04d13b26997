"""Checks and repairs all ledgers in a folder while no broker uses it.

The metadata store lists the topics, the ledgers of each topic, and the number of entries of each closed ledger. The
ledgers' files are compared with these records.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.folder import ledger_files
from pulsar_barycenter.ledger.files.repair import FileState, LedgerFile, inspect, repair
from pulsar_barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR, compacted_ledger_id
from pulsar_barycenter.ledger.managed.managed_ledger import MANAGED_LEDGERS
from pulsar_barycenter.ledger.managed.records import CursorRecord, LedgerRecord, ReadList, decode
from pulsar_barycenter.ledger.position import positions_text
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName, decode_local_name, encode_local_name


@dataclass(frozen=True, slots=True)
class ListedLedger:
    """A ledger that a topic's record lists.

    The topic needs a ledger that is `in_use`. Any other is left over from an interrupted compaction; a broker deletes
    it when it opens the topic.
    """

    topic: TopicName
    epoch: int
    record: LedgerRecord
    in_use: bool = True

    @property
    def entries(self) -> int | None:
        """The number of entries; None if the ledger was not closed, so that only its file has the number."""
        return self.record.entries if self.record.closed else None


class LedgerReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of one ledger, for output as text and JSON. Positions are `ledger:entry` or ranges of them, both ends
    inclusive.

    `lost` entries cannot be read; `gone` entries were removed by an earlier repair. With `is_estimated` the positions
    after the first lost entry may be too high. With `loses_end` an unknown number of entries is lost at the end. After
    a repair (`is_repaired`), the values still describe the file before the repair.
    """

    topic: str
    ledger: int
    file: str
    state: str
    detail: str = ""
    readable: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    is_estimated: bool = False
    loses_end: bool = False
    is_repaired: bool = False
    kept: str | None = None
    """The path at which the damaged file is kept, after a repaired file has replaced it."""
    error: str | None = None
    """Why the ledger could not be read or repaired."""

    @property
    def is_whole(self) -> bool:
        return self.state == FileState.WHOLE


async def listed_ledgers(store: MetadataStore, read: ReadList) -> AsyncIterator[ListedLedger]:
    """Yield the ledgers of every topic, ordered by topic name; compacted ledgers last. `read` reads the lists.

    Raises:
        MetadataError: the store did not answer, or a record in it cannot be decoded.
    """
    async for path, topic, value in listed_topics(store):
        record = read(path, value)
        for ledger in record.ledgers:
            yield ListedLedger(topic, record.epoch, ledger)
        in_force = await _compacted_ledger(store, path) if record.compacted_ledgers else None
        for ledger in record.compacted_ledgers:
            yield ListedLedger(topic, record.epoch, ledger, in_use=ledger.ledger_id == in_force)


async def listed_topics(store: MetadataStore) -> AsyncIterator[tuple[str, TopicName, bytes]]:
    """Yield every topic with the path and the stored value of its list of ledgers, ordered by topic name.

    Raises:
        MetadataError: the store did not answer.
    """
    async for path, value in _records(store, MANAGED_LEDGERS):
        *namespace, domain, local_name = path.removeprefix(f"{MANAGED_LEDGERS}/").split("/")
        with suppress(InvalidNameError):  # no broker finds such a topic either
            topic = TopicName.of(domain, NamespaceName.parse("/".join(namespace)), decode_local_name(local_name))
            yield path, topic, value


async def named_ledgers(store: MetadataStore, read: ReadList) -> set[int]:
    """Return the ids of all ledgers that a topic's record names, also of those that are being deleted. `read` reads the
    lists.

    Raises:
        MetadataError: the store did not answer, or a record in it cannot be decoded.
    """
    named: set[int] = set()
    async for path, value in _records(store, MANAGED_LEDGERS):
        record = read(path, value)
        named.update(ledger.ledger_id for ledger in (*record.ledgers, *record.compacted_ledgers))
        named.update(record.deleting)
    return named


async def _compacted_ledger(store: MetadataStore, topic_path: str) -> int | None:
    path = f"{topic_path}/{encode_local_name(COMPACTION_CURSOR)}"
    found = await store.get(path)
    return None if found is None else compacted_ledger_id(decode(path, found.value, CursorRecord).properties)


async def first_list(store: MetadataStore) -> bytes | None:
    """Return the stored value of one topic's list of ledgers; None if there is no topic.

    Raises:
        MetadataError: the store did not answer.
    """
    async for _, value in _records(store, MANAGED_LEDGERS):
        return value
    return None


async def _records(store: MetadataStore, folder: str) -> AsyncIterator[tuple[str, bytes]]:
    """Yield those keys below `folder` that have a value and are the records of topics. Keys below a record are
    cursors.
    """
    for name in await store.children(folder):
        path = f"{folder}/{name}"
        found = await store.get(path)
        if found is not None:
            yield path, found.value
        else:
            async for record in _records(store, path):
                yield record


def check_ledger(root: str, listed: ListedLedger) -> LedgerReport:
    """Read a ledger's file from its first to its last entry, and report its state. An error is not raised: it becomes
    part of the report.
    """
    try:
        return _report(listed, inspect(root, listed.record.ledger_id, listed.entries))
    except (OSError, LedgerError) as error:
        return _failed(listed, error)


def repair_ledger(root: str, listed: ListedLedger) -> LedgerReport:
    """Read a ledger's whole file, and replace it by a repaired one if it is damaged. The report describes the file
    before the repair. An error is not raised: it becomes part of the report.
    """
    try:
        found = inspect(root, listed.record.ledger_id, listed.entries)
        report = _report(listed, found)
        if not report.is_whole:
            report = msgspec.structs.replace(report, is_repaired=True, kept=repair(found, epoch=listed.epoch))
    except (OSError, LedgerError) as error:
        return _failed(listed, error)
    return report


def unlisted_files(root: str, listed: set[int]) -> Iterator[str]:
    """Yield the paths of ledger files that no topic lists: they are left over from an interrupted deletion, or belong
    to another cluster.
    """
    for ledger_id, path in ledger_files(root):
        if ledger_id not in listed:
            yield path


def _report(listed: ListedLedger, found: LedgerFile) -> LedgerReport:
    ledger_id = found.ledger_id
    damage = found.found.damage

    def texts(ranges: list[tuple[int, int]]) -> tuple[str, ...]:
        return tuple(positions_text(ledger_id, first, last) for first, last in ranges)

    inexact = [range_ for range_ in damage if not range_.exact]
    at_end = [range_ for range_ in inexact if range_.last == len(found.found.index) - 1]
    is_absent = found.state in (FileState.MISSING, FileState.UNREADABLE)
    return LedgerReport(
        topic=str(listed.topic),
        ledger=ledger_id,
        file=found.path,
        state=str(found.state),
        detail=found.detail,
        readable=texts(found.readable),
        lost=texts(found.lost),
        gone=texts(found.found.gone),
        is_estimated=len(inexact) > len(at_end),
        loses_end=bool(at_end) or found.found.shortened or (is_absent and found.entries is None),
    )


def _failed(listed: ListedLedger, error: OSError | LedgerError) -> LedgerReport:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    file = getattr(error, "filename", None) or getattr(error, "file", "")
    return LedgerReport(
        topic=str(listed.topic), ledger=listed.record.ledger_id, file=str(file), state="unreadable", error=text
    )
