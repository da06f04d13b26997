"""Finds out from the metadata store whether a Python broker can serve a topic, before anything of it is changed."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.ledger.errors import ForeignTopicError, LedgerUnavailableError
from pulsar_barycenter.ledger.pulsar_records.cursors_mapping import COMPACTION, NO_LEDGER
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import ManagedCursorInfo, ManagedLedgerInfo
from pulsar_barycenter.ledger.pulsar_records.record_codec import read_cursor, read_ledgers, read_position
from pulsar_barycenter.ledger.pulsar_records.taking import is_of_transactions, reasons_not_to_take
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import decode_local_name, encode_local_name

KEPT_MS: Final = 10_000
"""How long the topics of transactions of a namespace count as known: reading all names of a namespace for each of its
topics would take time that grows with the square of their number.
"""
_MAX_NAMESPACES: Final = 1_000

LastEntry: TypeAlias = Callable[[int], Awaitable[bytes | None]]


class TopicCheck:
    """Checks whether a Python broker can serve topics whose records are in Pulsar's form. `last_entry` is a function
    like `CursorLedgers.last_entry`: it returns the last entry of a ledger, or None.
    """

    __slots__ = ("_clock", "_known", "_last_entry", "_reading")

    def __init__(self, last_entry: LastEntry, clock: Clock) -> None:
        self._last_entry = last_entry
        self._clock = clock
        self._known: Recent[str, tuple[int, frozenset[str]]] = Recent(_MAX_NAMESPACES)
        """When the names of a folder were asked for, in ms since 1970, and the topics of transactions among them."""
        self._reading: dict[str, asyncio.Task[frozenset[str]]] = {}

    async def run(self, store: MetadataStore, path: str) -> None:
        """Check that a Python broker can serve the topic whose record is at `path`. The topic may not exist yet: that
        is no error.

        Raises:
            ForeignTopicError: only Java brokers can serve the topic.
            PulsarRecordError: a record cannot be read.
            LedgerError: the ledger of the topic's compaction cursor cannot be read now.
            LedgerUnavailableError: the store did not answer.
        """
        folder, _, encoded = path.rpartition("/")
        compaction_path = f"{path}/{encode_local_name(COMPACTION)}"
        try:
            ledgers, compaction, of_transactions = await asyncio.gather(
                store.get(path), store.get(compaction_path), self._of_transactions(store, folder)
            )
        except MetadataError as error:
            raise LedgerUnavailableError(str(error)) from error
        info = ManagedLedgerInfo() if ledgers is None else read_ledgers(path, ledgers.value).info
        cursors = {}
        if compaction is not None:
            cursors[COMPACTION] = await self._current(read_cursor(compaction_path, compaction.value).info)
        name = decode_local_name(encoded)
        reasons = reasons_not_to_take(name, info, cursors, of_transactions)
        if reasons:
            raise ForeignTopicError(f"only Java brokers can serve the topic {name}: {'; '.join(reasons)}")

    async def _of_transactions(self, store: MetadataStore, folder: str) -> frozenset[str]:
        """Return the local names of the topics in a namespace in which Java brokers store the state of transactions.
        `folder` is the path below which the records of the namespace's topics are. The names are read again if they
        were read more than KEPT_MS ago.
        """
        known = self._known.get(folder)
        if known is not None and self._clock.now_ms() - known[0] < KEPT_MS:
            return known[1]
        reading = self._reading.get(folder)
        if reading is None:
            reading = self._reading[folder] = asyncio.create_task(self._read(store, folder))
            reading.add_done_callback(lambda _: self._reading.pop(folder))
        return await asyncio.shield(reading)

    async def _read(self, store: MetadataStore, folder: str) -> frozenset[str]:
        asked_ms = self._clock.now_ms()
        found = set()
        for encoded in await store.children(folder):
            with suppress(InvalidNameError):  # no broker finds such a topic
                name = decode_local_name(encoded)
                if is_of_transactions(name):
                    found.add(name)
        self._known.put(folder, (asked_ms, frozenset(found)))
        return frozenset(found)

    async def _current(self, cursor: ManagedCursorInfo) -> ManagedCursorInfo:
        """Return `cursor` with its present properties: if the cursor's state is in a ledger, the properties in the last
        entry of that ledger.
        """
        if cursor.cursorsLedgerId == NO_LEDGER:
            return cursor
        entry = await self._last_entry(cursor.cursorsLedgerId)
        if entry is None:
            return cursor
        position = read_position(cursor.cursorsLedgerId, entry)
        return ManagedCursorInfo(cursorsLedgerId=cursor.cursorsLedgerId, properties=position.properties)
