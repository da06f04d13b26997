"""The ownership records as keys of the metadata store: `/service_unit_state/<tenant>/<ns>/<range>`.

A record is replaced by compare-and-set, so that a broker whose change is refused knows it at once. Every broker reads
all records, follows changes by notifications, and reads all records again from time to time, because a notification may
be late or lost. Reading all records takes at most a twentieth of the time.

Source: Pulsar's `ServiceUnitStateMetadataStoreTableViewImpl`.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import msgspec
import structlog

from pulsar_barycenter.broker.ownership.channel.records import ChannelUnavailableError, RecordListener
from pulsar_barycenter.load.service_units.conflicts import conflict
from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitStateData,
    StorageType,
    decode_record,
    encode_record,
)
from pulsar_barycenter.metadata.errors import BadVersionError, GuardError, MetadataError, NotFoundError
from pulsar_barycenter.metadata.store import (
    CONNECTED_EVENTS,
    MUST_NOT_EXIST,
    Guard,
    MetadataStore,
    Notification,
    NotificationType,
    Record,
    SessionEvent,
)
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError

log = structlog.get_logger(__name__)

RECORDS_ROOT: Final = "/service_unit_state"
_READ_AGAIN_S: Final = 5.0
_PAUSE_FACTOR: Final = 20
"""After all records were read, the next reading of all starts no earlier than after this multiple of the time that it
took.
"""
_MAX_LOGGED_KEYS: Final = 1_000
_SHORTEST_NAMESPACE: Final = 2
_LONGEST_NAMESPACE: Final = 3


class _Known(NamedTuple):
    record: ServiceUnitStateData
    version: int


class _Reading:
    """A read of an ownership record that is in progress. `is_old` is set when this broker changes the record meanwhile:
    then the result of the read is outdated, and must be dropped.
    """

    is_old = False


class StoreRecords:
    """The ownership records as keys of the metadata store. Implements `OwnershipRecords`."""

    storage = StorageType.METADATA_STORE

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._known: dict[Bundle, _Known] = {}
        self._reading: dict[Bundle, list[_Reading]] = {}
        """The reads in progress, by bundle."""
        self._dirty: dict[Bundle, None] = {}
        self._logged: set[str] = set()
        self._listener: RecordListener | None = None
        self._wake = asyncio.Event()
        self._is_read = False
        self._reads_all = True
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._stop_listening: list[Callable[[], None]] = []

    @property
    def is_read(self) -> bool:
        return self._is_read

    def get(self, bundle: Bundle) -> ServiceUnitStateData | None:
        known = self._known.get(bundle)
        return None if known is None else known.record

    def items(self) -> list[tuple[Bundle, ServiceUnitStateData]]:
        return [(bundle, known.record) for bundle, known in self._known.items()]

    def bundles(self) -> list[Bundle]:
        return list(self._known)

    def start(self, listener: RecordListener) -> None:
        self._listener = listener
        self._stop_listening = [
            self._store.add_listener(self._on_notification),
            self._store.add_session_listener(self._on_session_event),
        ]
        self._task = asyncio.create_task(self._read_on(), name="ownership records")

    async def close(self) -> None:
        self._closed = True
        self._listener = None
        for stop in self._stop_listening:
            stop()
        self._stop_listening = []
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def refresh(self, bundle: Bundle) -> None:
        if not self._closed:
            with suppress(MetadataError):
                await self._read(bundle)

    async def catch_up(self) -> None:
        self._check_open()
        try:
            await self._read_all()
        except MetadataError as error:
            raise ChannelUnavailableError(str(error)) from error

    async def put(
        self,
        bundle: Bundle,
        before: ServiceUnitStateData | None,
        after: ServiceUnitStateData | None,
        guard: Guard | None = None,
    ) -> bool:
        known = self._known.get(bundle)
        if (None if known is None else known.record) is not before or conflict(before, after, self.storage):
            return False
        self._check_open()
        path = _path(bundle)
        try:
            if after is not None:
                expected = MUST_NOT_EXIST if known is None else known.version
                stat = await self._store.put(path, encode_record(after), expected_version=expected, guard=guard)
                self._apply(bundle, _Known(after, stat.version))
            elif known is not None:
                await self._store.delete(path, expected_version=known.version, guard=guard)
                self._apply(bundle, None)
        except GuardError:
            raise
        except (BadVersionError, NotFoundError):
            await self.refresh(bundle)
            return False
        except MetadataError as error:
            self._soon(bundle)
            raise ChannelUnavailableError(str(error)) from error
        return True

    async def copy(self, bundle: Bundle, after: ServiceUnitStateData | None, holds: Callable[[], bool]) -> None:
        """Write a copy of a record; see `CopiedRecords.copy`. A record that cannot be decoded is replaced, too."""
        self._check_open()
        path, known = _path(bundle), self._known.get(bundle)
        try:
            version = MUST_NOT_EXIST if known is None else known.version
            if known is None and (stored := await self._store.get(path)) is not None:
                version = stored.stat.version
            if not holds():
                raise ChannelUnavailableError(
                    "this broker does not copy ownership records any more: another broker is the leader, or the "
                    "records are being moved to another place"
                )
            if after is not None:
                stat = await self._store.put(path, encode_record(after), expected_version=version)
                self._apply(bundle, _Known(after, stat.version))
            elif known is not None:
                await self._store.delete(path, expected_version=version)
                self._apply(bundle, None)
        except (BadVersionError, NotFoundError) as error:
            await self.refresh(bundle)
            raise ChannelUnavailableError(str(error)) from error
        except MetadataError as error:
            self._soon(bundle)
            raise ChannelUnavailableError(str(error)) from error

    def _check_open(self) -> None:
        if self._closed:
            raise ChannelUnavailableError("this broker has closed its ownership channel")

    # ---- reading ----

    async def _read_on(self) -> None:
        loop = asyncio.get_running_loop()
        read_all_at = 0.0
        while True:
            try:
                if self._reads_all or loop.time() >= read_all_at:
                    self._reads_all = False
                    began = loop.time()
                    await self._read_all()
                    self._is_read = True
                    read_all_at = loop.time() + max(_READ_AGAIN_S, _PAUSE_FACTOR * (loop.time() - began))
                while self._dirty:
                    await self._read(self._dirty.popitem()[0])
            except MetadataError as error:
                log.warning("ownership_records_not_read", reason=str(error))
                self._reads_all = True
                await asyncio.sleep(1.0)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, read_all_at - loop.time())):
                    await self._wake.wait()
            self._wake.clear()

    async def _read_all(self) -> None:
        found = dict.fromkeys(self._known)
        await self._list(RECORDS_ROOT, 0, found)
        for bundle in found:
            await self._read(bundle)

    async def _list(self, path: str, depth: int, found: dict[Bundle, None]) -> None:
        """Add to `found` all bundles that have keys below a path. The path of a namespace has two or three parts."""
        for name in await self._store.children(path):
            below = f"{path}/{name}"
            if depth < _SHORTEST_NAMESPACE or (depth < _LONGEST_NAMESPACE and not name.startswith("0x")):
                await self._list(below, depth + 1, found)
            elif (bundle := self._bundle_of(below)) is not None:
                found[bundle] = None

    async def _read(self, bundle: Bundle) -> None:
        """Read the record of one bundle. If this broker changed it in between, read it again."""
        while True:
            with self._reads(bundle) as reading:
                stored = await self._store.get(_path(bundle))
            if not reading.is_old:
                self._apply(bundle, None if stored is None else self._decoded(stored))
                return

    @contextmanager
    def _reads(self, bundle: Bundle) -> Iterator[_Reading]:
        reading, readings = _Reading(), self._reading.setdefault(bundle, [])
        readings.append(reading)
        try:
            yield reading
        finally:
            readings.remove(reading)
            if not readings:
                del self._reading[bundle]

    def _decoded(self, stored: Record) -> _Known | None:
        """Return the decoded ownership record. A record that cannot be decoded counts as missing; `put` does not
        replace it, but `copy` does.
        """
        try:
            return _Known(decode_record(stored.value), stored.stat.version)
        except msgspec.DecodeError as error:
            self._log_ignored(stored.stat.path, str(error))
            return None

    def _apply(self, bundle: Bundle, known: _Known | None) -> None:
        before = self._known.get(bundle)
        if before == known:
            return
        for reading in self._reading.get(bundle, ()):
            reading.is_old = True
        if known is None:
            del self._known[bundle]
        else:
            self._known[bundle] = known
        if self._listener is not None:
            self._listener(bundle, None if before is None else before.record, None if known is None else known.record)

    # ---- changes ----

    def _on_notification(self, change: Notification) -> None:
        if change.type is not NotificationType.CHILDREN_CHANGED and change.path.startswith(RECORDS_ROOT + "/"):
            bundle = self._bundle_of(change.path)
            if bundle is not None:
                self._soon(bundle)

    def _soon(self, bundle: Bundle) -> None:
        self._dirty[bundle] = None
        self._wake.set()

    def _on_session_event(self, event: SessionEvent) -> None:
        if event in CONNECTED_EVENTS:
            self._reads_all = True
            self._wake.set()

    def _bundle_of(self, path: str) -> Bundle | None:
        try:
            return Bundle.parse(path[len(RECORDS_ROOT) + 1 :])
        except InvalidNameError as error:
            self._log_ignored(path, str(error))
            return None

    def _log_ignored(self, path: str, reason: str) -> None:
        if path not in self._logged and len(self._logged) < _MAX_LOGGED_KEYS:
            self._logged.add(path)
            log.warning("ownership_record_ignored", path=path, reason=reason)


def _path(bundle: Bundle) -> str:
    return f"{RECORDS_ROOT}/{bundle}"
