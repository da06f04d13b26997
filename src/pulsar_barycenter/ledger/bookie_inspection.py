"""Compares the ledgers in the lists of topics with the ledgers on bookies: which ones are missing, and which ones no
topic lists.

A ledger is created before a topic lists it, and taken off the list before it is deleted. A broker that ends between
creating and listing leaves a ledger that no topic lists. No entry of such a ledger was reported to a producer as
stored.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.errors import LedgerMetadataError, NoSuchLedgerError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from pulsar_barycenter.ledger.bookkeeper_storage.marks import is_of
from pulsar_barycenter.ledger.bookkeeper_storage.storage_errors import ledger_errors
from pulsar_barycenter.ledger.inspection import ListedLedger, UnreadableList, listed_ledgers, named_ledgers
from pulsar_barycenter.ledger.managed.records import ReadList
from pulsar_barycenter.metadata.errors import InvalidValueError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.counted import count_of

_AT_ONCE: Final = 64


class LackingLedger(msgspec.Struct, frozen=True, rename="camel"):
    """A ledger that is in a topic's list, and that is missing on the bookies, has unreadable metadata, or has fewer
    entries than the list says. `detail` says which of these, as text.
    """

    topic: str
    ledger: int
    detail: str


class BookieReport(msgspec.Struct, frozen=True, rename="camel"):
    """The result of comparing the topics' lists of ledgers with the ledgers on bookies. `topics` and `ledgers` are the
    numbers of topics and of listed ledgers that were compared. `lacking` are the ledgers that topics need and that are
    missing or not usable.

    `unlisted` are the ids of ledgers that the brokers created and no topic lists. `others` is the number of ledgers
    that other users of the bookies created. `deleted` are the ids of the unlisted ledgers that were deleted after the
    comparison.

    `unreadable` are the topics whose list cannot be decoded. While there are any, nobody knows whether a topic lists a
    ledger that no readable list has, so `unlisted` is empty.
    """

    topics: int
    ledgers: int
    lacking: list[LackingLedger]
    unlisted: list[int]
    others: int
    deleted: list[int] = []
    unreadable: list[UnreadableList] = []


async def compare(store: MetadataStore, client: LedgerClient, cluster: str, read: ReadList) -> BookieReport:
    """Compare the topics' lists of ledgers with the ledgers on bookies. `cluster` is the id that the brokers store with
    their ledgers. `read` decodes a stored list; a list that cannot be decoded is reported. This function changes
    nothing.

    The ledgers on bookies are listed before the topics' lists are read. If brokers run meanwhile, a ledger that is just
    being created may be reported as unlisted.

    Raises:
        LedgerError, MetadataError: a store did not answer.
    """
    unreadable: dict[str, UnreadableList] = {}

    def note(topic: str, error: InvalidValueError) -> None:
        unreadable[topic] = UnreadableList(topic, str(error))

    stored = [ledger async for ledger in client.ids()]
    needed = [ledger async for ledger in listed_ledgers(store, read, note) if ledger.in_use]
    named = await named_ledgers(store, read, note)
    lacking = await _lacking(client, [ledger for ledger in needed if ledger.record.ledger_id in named])
    unlisted, others = [], 0
    left = sorted(set(stored) - named)
    for ledger, metadata in zip(left, await _metadata(client, left), strict=True):
        if isinstance(metadata, LedgerMetadata) and is_of(cluster, metadata.custom):
            if not unreadable:
                unlisted.append(ledger)
        elif not isinstance(metadata, NoSuchLedgerError):
            others += 1
    topics = len({ledger.topic for ledger in needed})
    return BookieReport(topics, len(needed), lacking, unlisted, others, unreadable=list(unreadable.values()))


async def delete_unlisted(
    store: MetadataStore, client: LedgerClient, ledgers: Iterable[int], read: ReadList
) -> list[int]:
    """Delete those of `ledgers` that no topic lists; return their ids. A ledger that does not exist is no error, and
    its id is not returned. The caller must have stopped all brokers. `read` decodes a stored list of ledgers.

    First, all `ledgers` are fenced: if a broker process was only paused and continues, it cannot write to them. Then
    the lists are read again, and a ledger that is in a list now is not deleted.

    Raises:
        LedgerError, MetadataError: a ledger cannot be fenced, or a store did not answer; some of the ledgers may be
            deleted already.
    """
    ended = []
    for ledger in ledgers:
        with ledger_errors(ledger):
            try:
                await client.recover(ledger, password=(await client.metadata(ledger)).password)
            except NoSuchLedgerError:
                continue
            ended.append(ledger)
    named = await named_ledgers(store, read)
    deleted = [ledger for ledger in ended if ledger not in named]
    for ledger in deleted:
        with ledger_errors(ledger):
            await client.delete(ledger)
    return deleted


async def _lacking(client: LedgerClient, needed: list[ListedLedger]) -> list[LackingLedger]:
    found = []
    read = await _metadata(client, [ledger.record.ledger_id for ledger in needed])
    for ledger, metadata in zip(needed, read, strict=True):
        detail = _fault(ledger, metadata)
        if detail:
            found.append(LackingLedger(str(ledger.topic), ledger.record.ledger_id, detail))
    return found


def _fault(ledger: ListedLedger, metadata: LedgerMetadata | NoSuchLedgerError | LedgerMetadataError) -> str:
    if not isinstance(metadata, LedgerMetadata):
        return str(metadata)
    stored = metadata.last_entry + 1
    if ledger.entries is not None and metadata.state is LedgerState.CLOSED and stored < ledger.entries:
        return (
            f"it ends after {count_of(stored, 'entry')}, but the topic's list says {count_of(ledger.entries, 'entry')}"
        )
    return ""


async def _metadata(
    client: LedgerClient, ledgers: Sequence[int]
) -> list[LedgerMetadata | NoSuchLedgerError | LedgerMetadataError]:
    """Return, for each ledger, its metadata, or the error that occurred when the metadata was read. The order is that
    of `ledgers`.
    """
    found: list[LedgerMetadata | NoSuchLedgerError | LedgerMetadataError] = []
    for at in range(0, len(ledgers), _AT_ONCE):
        found += await asyncio.gather(*(_read(client, ledger) for ledger in ledgers[at : at + _AT_ONCE]))
    return found


async def _read(client: LedgerClient, ledger: int) -> LedgerMetadata | NoSuchLedgerError | LedgerMetadataError:
    try:
        return await client.metadata(ledger)
    except (NoSuchLedgerError, LedgerMetadataError) as error:
        return error
