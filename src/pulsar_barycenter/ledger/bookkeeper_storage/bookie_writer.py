"""Appends to a ledger on bookies. The entries that are confirmed in one iteration of the event loop are reported as one
group.

Entries wait here while the client has reached its limit of unconfirmed bytes. Otherwise they would fill the connections
to slow bookies, which would then count as failed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.client.ledger_writer import LedgerWriter
from pulsar_barycenter.bookkeeper.errors import BookKeeperError, EntryTooLargeError, WriterFencedError
from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.ledger.bookkeeper_storage.bookie_reader import WrittenReader
from pulsar_barycenter.ledger.bookkeeper_storage.marks import epoch_of
from pulsar_barycenter.ledger.bookkeeper_storage.storage_errors import as_ledger_error, ledger_name
from pulsar_barycenter.ledger.entry_index import EntryIndex
from pulsar_barycenter.ledger.errors import LedgerClosedError, LedgerError, LedgerFencedError
from pulsar_barycenter.ledger.position import NewEntry
from pulsar_barycenter.ledger.storage import OnDurable
from pulsar_barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

CLOSE_TIMEOUT_S: Final = 10.0
"""The number of seconds that `close` waits for the metadata store. After that, `close` returns and leaves the ledger
open; the broker that opens the ledger next closes it.
"""


class Confirmations:
    """Collects what the BookKeeper client reports about the entries of one ledger: `stop` is the number of confirmed
    entries, `failure` has the errors. `changed` is called after new reports, at most once in each iteration of the
    event loop.
    """

    def __init__(self) -> None:
        self.stop = 0
        """The number of confirmed entries."""
        self.failure: list[BookKeeperError] = []
        self.changed: Callable[[], None] = lambda: None
        self._is_scheduled = False

    def __call__(self, entry: int, error: BookKeeperError | None) -> None:
        if error is None:
            self.stop = entry + 1
        else:
            self.failure.append(error)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._is_scheduled = False
        self.changed()


class BookieWriter:
    """Writes a ledger on bookies. Created by `BookKeeperStorage.create`. `on_closed` is called with this writer when
    `close` has finished.
    """

    def __init__(
        self,
        client: LedgerClient,
        ledger: LedgerWriter,
        confirmations: Confirmations,
        *,
        epoch: int,
        max_data_bytes: int,
        on_durable: OnDurable,
        on_closed: Callable[["BookieWriter"], None],
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._confirmations = confirmations
        self._epoch = epoch
        self._max_data_bytes = max_data_bytes
        self._on_durable = on_durable
        self._on_closed = on_closed
        self._sizes: list[int] = []
        self._counts: list[int] = []
        self._times: list[int] = []
        """The columns of the entries that are not reported."""
        self._waiting: deque[NewEntry] = deque()
        """Entries that were not given to the BookKeeper client yet, because its buffer is full."""
        self._next = 0
        self._is_open = True
        self._is_failing = False
        self._has_failed = False
        self._reported = asyncio.Event()
        self._index = EntryIndex()
        self._reader = WrittenReader(client.reader_of(ledger), self._index)
        self._tasks = BackgroundTasks("ledger_failure_not_reported")
        self._closing: list[asyncio.Task[None]] = []
        confirmations.changed = self._report

    @property
    def reader(self) -> WrittenReader:
        return self._reader

    @property
    def index(self) -> EntryIndex:
        return self._index

    def append(self, entry: bytes, num_messages: int, publish_time_ms: int) -> int:
        entry_id = self._next
        self.extend([(entry, num_messages, publish_time_ms)])
        return entry_id

    def extend(self, entries: Sequence[NewEntry]) -> None:
        if not self._is_open:
            raise LedgerClosedError(f"{self._name}: the writer is closed")
        largest = max((len(data) for data, _, _ in entries), default=0)
        if largest > self._max_data_bytes:
            raise LedgerError(str(EntryTooLargeError(largest, self._max_data_bytes)))
        self._next += len(entries)
        if self._confirmations.failure:
            return  # the failure is reported soon, for these entries too
        if self._waiting or not self._ledger.has_room:
            if not self._waiting:
                self._tasks.start(self._feed(), f"feed ledger {self._ledger.ledger}")
            self._waiting.extend(entries)
        elif entries:
            self._send(entries)

    def _send(self, entries: Sequence[NewEntry]) -> None:
        datas, counts, times = zip(*entries, strict=True)
        self._ledger.extend(datas)
        self._sizes.extend(map(len, datas))
        self._counts.extend(counts)
        self._times.extend(times)

    async def _feed(self) -> None:
        """Send the entries that wait because the BookKeeper client has reached its limit of unconfirmed bytes. Send
        each one as soon as the client has room. If the writer fails, discard the entries that still wait.
        """
        while self._waiting:
            await self._ledger.room()
            while self._waiting and self._ledger.has_room and not self._confirmations.failure:
                self._send([self._waiting.popleft()])
            if self._confirmations.failure:
                self._waiting.clear()

    async def close(self) -> None:
        self._is_open = False
        if not self._closing:
            self._closing = [asyncio.ensure_future(self._close())]
        await asyncio.shield(self._closing[0])

    @property
    def _name(self) -> str:
        return ledger_name(self._ledger.ledger)

    @property
    def _is_drained(self) -> bool:
        return self._has_failed or len(self._index) == self._next

    async def _close(self) -> None:
        while not self._is_drained:
            self._reported.clear()
            await self._reported.wait()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._ledger.close()
        except (BookKeeperError, TimeoutError) as error:
            reason = str(error) or f"the metadata store did not answer within {CLOSE_TIMEOUT_S:g} s"
            log.info("ledger_left_open", ledger=self._ledger.ledger, reason=reason)
        self._on_closed(self)

    def _report(self) -> None:
        if self._has_failed:
            return
        count = self._confirmations.stop - len(self._index)
        if count:
            self._index.extend(self._sizes[:count], self._counts[:count], self._times[:count])
            del self._sizes[:count], self._counts[:count], self._times[:count]
            self._on_durable(self._confirmations.stop - 1, None)
        if self._confirmations.failure and not self._is_failing:
            self._is_failing = True
            self._tasks.start(self._report_failure(self._confirmations.failure[0]), f"ledger {self._ledger.ledger}")
        self._reported.set()

    async def _report_failure(self, failure: BookKeeperError) -> None:
        error = await self._reason(failure)
        self._is_open = False
        self._has_failed = True
        self._reported.set()
        self._on_durable(len(self._index), error)

    async def _reason(self, failure: BookKeeperError) -> LedgerError:
        """Convert `failure`, with which the BookKeeper client stopped the writer. Return a LedgerFencedError if an
        owner with a higher epoch fenced the ledger, otherwise the LedgerError that corresponds to `failure`.
        """
        if isinstance(failure, WriterFencedError):
            try:
                owner = epoch_of((await self._client.metadata(self._ledger.ledger)).custom)
            except (BookKeeperError, MetadataError) as error:
                return as_ledger_error(self._ledger.ledger, error)
            if owner > self._epoch:
                return LedgerFencedError(self._name, self._epoch, owner)
        return as_ledger_error(self._ledger.ledger, failure)
