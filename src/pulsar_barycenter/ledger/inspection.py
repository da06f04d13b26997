"""Checks and repairs all ledgers in a folder while no broker uses it.

The metadata store lists the topics, the ledgers of each topic, and the number of entries of each closed ledger. The
ledgers' files are compared with these records.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.folder import ledger_files
from pulsar_barycenter.ledger.files.repair import FileState, LedgerFile, inspect, repair
from pulsar_barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR, compacted_ledger_id
from pulsar_barycenter.ledger.managed.managed_ledger import MANAGED_LEDGERS
from pulsar_barycenter.ledger.managed.records import CursorRecord, LedgerRecord, ReadList, decode
from pulsar_barycenter.ledger.position import positions_text
from pulsar_barycenter.metadata.errors import InvalidValueError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName, decode_local_name, encode_local_name


@dataclass(frozen=True, slots=True)
class ListedLedger:
    """A ledger that is in a topic's list. `epoch` is the epoch of the owner that wrote the list last.

    If `in_use` is True, the topic needs the ledger. If it is False, an interrupted compaction has left the ledger, and
    the next broker that opens the topic deletes it.
    """

    topic: TopicName
    epoch: int
    record: LedgerRecord
    in_use: bool = True

    @property
    def entries(self) -> int | None:
        """The number of entries that the list contains for this ledger. None if the ledger was not closed: then only
        its file shows the number.
        """
        return self.record.entries if self.record.closed else None


class LedgerReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of one ledger, for output as text and JSON. A position is `ledger:entry`, a range of positions has both
    ends inclusive.

    `lost` entries cannot be read. `gone` entries were removed by an earlier repair. If `is_estimated` is True, the
    positions after the first lost entry may be too high, because the number of lost entries is not known. If
    `loses_end` is True, an unknown number of entries is lost at the end of the ledger. If `is_repaired` is True, the
    file was repaired, but the report still describes it as it was before the repair.
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


class UnreadableList(msgspec.Struct, frozen=True, rename="camel"):
    """A topic whose list of ledgers cannot be decoded. `detail` says which key has it, and why it cannot."""

    topic: str
    detail: str


OnUnreadable: TypeAlias = Callable[[str, InvalidValueError], None]
"""Receives a topic whose list of ledgers, or whose record of the compacted ledger, cannot be decoded, and the error. If
it returns, the ledgers of this topic are left out.
"""


def refuse_unreadable(_topic: str, error: InvalidValueError) -> None:
    """Raise the error, so that nothing is done on part of the lists."""
    raise error


async def listed_ledgers(
    store: MetadataStore, read: ReadList, on_unreadable: OnUnreadable = refuse_unreadable
) -> AsyncIterator[ListedLedger]:
    """Yield the ledgers in the lists of all topics, ordered by topic name; for each topic its compacted ledgers come
    last. `read` decodes a stored list.

    Raises:
        InvalidValueError: a list cannot be decoded, and `on_unreadable` raises the error.
        MetadataError: the store did not answer.
    """
    async for path, topic, value in listed_topics(store):
        try:
            record = read(path, value)
            in_force = await _compacted_ledger(store, path) if record.compacted_ledgers else None
        except InvalidValueError as error:
            on_unreadable(str(topic), error)
            continue
        for ledger in record.ledgers:
            yield ListedLedger(topic, record.epoch, ledger)
        for ledger in record.compacted_ledgers:
            yield ListedLedger(topic, record.epoch, ledger, in_use=ledger.ledger_id == in_force)


async def listed_topics(store: MetadataStore) -> AsyncIterator[tuple[str, TopicName, bytes]]:
    """Yield, for every topic, the path of its list of ledgers, the topic's name, and the stored value of the list;
    ordered by topic name.

    Raises:
        MetadataError: the store did not answer.
    """
    async for path, value in _records(store, MANAGED_LEDGERS):
        with suppress(InvalidNameError):  # no broker finds such a topic either
            yield path, _topic_at(path), value


def _topic_at(path: str) -> TopicName:
    *namespace, domain, local_name = path.removeprefix(f"{MANAGED_LEDGERS}/").split("/")
    return TopicName.of(domain, NamespaceName.parse("/".join(namespace)), decode_local_name(local_name))


def _name_at(path: str) -> str:
    """Return the name of the topic whose list is at `path`; the path itself if no topic has such a name."""
    try:
        return str(_topic_at(path))
    except InvalidNameError:
        return path


async def named_ledgers(
    store: MetadataStore, read: ReadList, on_unreadable: OnUnreadable = refuse_unreadable
) -> set[int]:
    """Return the ids of all ledgers that the lists of topics contain, including ledgers that are being deleted. `read`
    decodes a stored list.

    Raises:
        InvalidValueError: a list cannot be decoded, and `on_unreadable` raises the error.
        MetadataError: the store did not answer.
    """
    named: set[int] = set()
    async for path, value in _records(store, MANAGED_LEDGERS):
        try:
            record = read(path, value)
        except InvalidValueError as error:
            on_unreadable(_name_at(path), error)
            continue
        named.update(ledger.ledger_id for ledger in (*record.ledgers, *record.compacted_ledgers))
        named.update(record.deleting)
    return named


async def _compacted_ledger(store: MetadataStore, topic_path: str) -> int | None:
    path = f"{topic_path}/{encode_local_name(COMPACTION_CURSOR)}"
    found = await store.get(path)
    return None if found is None else compacted_ledger_id(decode(path, found.value, CursorRecord).properties)


async def first_list(store: MetadataStore) -> bytes | None:
    """Return the stored value of the list of ledgers of any one topic; None if there is no topic.

    Raises:
        MetadataError: the store did not answer.
    """
    async for _, value in _records(store, MANAGED_LEDGERS):
        return value
    return None


async def _records(store: MetadataStore, folder: str) -> AsyncIterator[tuple[str, bytes]]:
    """Yield path and value of each topic's record below `folder`: of each key that has a value and is not below another
    such key. The keys below a topic's record are its cursors, and are not yielded.
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
    """Read the whole file of a ledger in the folder `root`, and report its state. If the file cannot be read, no error
    is raised: the report contains the error.
    """
    try:
        return _report(listed, inspect(root, listed.record.ledger_id, listed.entries))
    except (OSError, LedgerError) as error:
        return _failed(listed, error)


def repair_ledger(root: str, listed: ListedLedger) -> LedgerReport:
    """Read the whole file of a ledger in the folder `root`. If it is damaged, replace it by a repaired file. The report
    describes the file before the repair. If reading or repairing fails, no error is raised: the report contains the
    error.
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
    """Yield the paths of the ledger files in the folder `root` whose ids are not in `listed`, the ids that the lists of
    topics contain. An interrupted deletion has left such a file, or it belongs to another cluster.
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
