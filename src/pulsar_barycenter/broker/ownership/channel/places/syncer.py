"""Moves the ownership records, on the leader: copies them to the other place while
`loadBalancerServiceUnitTableViewSyncer` is set, makes that place the authoritative one, and then keeps the former one
equal.

1. The other place gets all records, then each change, while all brokers write to the present place.
2. When nothing differs, all brokers have to stop writing (`place`). The leader waits until each has stopped or its
session has expired. Then it copies the last writes.
3. The leader writes the other place into the key, and all brokers continue there. Until then the key named the former
   place.

A new leader begins every step again. Late writes of a former leader do no harm: in the store, it can replace only the
version that it read, and only within its session; in the topic, the fence of the topic's ledger prevents its writes.

Source: Pulsar's `ServiceUnitStateTableViewSyncer`. Difference: in Pulsar both places are written, and each change is
copied both ways.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Protocol

import structlog

from pulsar_barycenter.broker.changes import NextChange
from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.broker.cluster.leadership import Leadership
from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError
from pulsar_barycenter.broker.ownership.channel.places.following_records import FollowingRecords
from pulsar_barycenter.broker.ownership.channel.places.place import (
    SOURCES,
    StoredPlace,
    other_place,
    read_place,
    readers_not_stopped,
    write_place,
)
from pulsar_barycenter.broker.ownership.channel.records import ChannelUnavailableError, OwnershipRecords
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, StorageType
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.counted import count_of

log = structlog.get_logger(__name__)

SYNCER_KEY: Final = "loadBalancerServiceUnitTableViewSyncer"
_CHECK_AGAIN_S: Final = 0.05
_READ_S: Final = 30.0
_CONCURRENT_COPIES: Final = 64


class CopiedRecords(OwnershipRecords, Protocol):
    """A copy of the ownership records, in the place from which brokers do not read them. Only the leader writes it, and
    it writes any record, without checking the rules for changes of records.
    """

    async def copy(self, bundle: Bundle, after: ServiceUnitStateData | None, holds: Callable[[], bool]) -> None:
        """Store `after` as the record of a bundle; None: delete the record. Before each write, `holds` is called, which
        returns whether this broker may still copy records. If it returns False, nothing more is written.

        Raises:
            ChannelUnavailableError: the record was not written completely, or this is not known; or `holds` returned
                False.
        """
        ...


class RecordsSyncer:
    """Moves the ownership records to the configured place while this broker is the leader. `make` returns an object,
    not started yet, that writes copies of records to a place.
    """

    def __init__(
        self,
        store: MetadataStore,
        records: FollowingRecords,
        config: ConfigHolder,
        leadership: Leadership,
        make: Callable[[StorageType], CopiedRecords],
    ) -> None:
        self._store = store
        self._records = records
        self._config = config
        self._leadership = leadership
        self._make = make
        self._other: CopiedRecords | None = None
        self._differing: int | None = None
        """The number of records that differ between the places; None while this broker does not copy them."""
        self._was_copied = False
        self._change = NextChange()
        self.due = asyncio.Event()
        """Set when the two places of the ownership records have to be compared soon."""
        self._stop_listening = config.on_change(SYNCER_KEY, lambda _config: self.due.set())
        self._closing: asyncio.Task[None] | None = None
        leadership.on_change(self._on_leadership)

    @property
    def is_on(self) -> bool:
        return self._config.current.load_balancer_service_unit_table_view_syncer in SOURCES

    def samples(self) -> Iterator[tuple[str, float]]:
        """Yield gauges with their names: in which place the records are, whether they are being moved, and, while this
        broker copies them, how many records still differ.
        """
        place = self._records.place
        if place is not None:
            yield "barycenter_ownership_records_in_store", place.place is StorageType.METADATA_STORE
            follows = self._records.storage is place.place
            yield "barycenter_ownership_records_moving", place.is_moving or not follows
        if self._differing is not None:
            yield "barycenter_ownership_records_differing", self._differing
            yield "barycenter_ownership_records_copied", self._was_copied

    async def close(self) -> None:
        """Stop copying. Idempotent."""
        self._stop_listening()
        self._stop_listening = lambda: None
        await self._leave_other()

    def _on_leadership(self) -> None:
        if not self._leadership.is_leader() and self._other is not None:
            self._closing = asyncio.create_task(self._leave_other(), name="close the other place of records")

    async def _leave_other(self) -> None:
        other, self._other = self._other, None
        self._differing, self._was_copied = None, False
        if other is not None:
            await other.close()

    async def run(self) -> None:
        """Do the next step of moving the ownership records, if this broker is the leader. An error is logged, and the
        next call tries again.
        """
        if not self._leadership.is_leader():
            return
        try:
            await self._step()
        except (LookupFailedError, MetadataError) as error:
            log.warning("ownership_records_not_copied", reason=str(error))

    async def _step(self) -> None:
        source = SOURCES.get(self._config.current.load_balancer_service_unit_table_view_syncer)
        seen = self._records.place
        if source is None:
            await self._leave_other()
            if seen is None or not seen.is_moving:
                return
        stored = await read_place(self._store)
        if stored is None:
            return
        if stored.place.is_moving:  # its leader is replaced or failed, so the move begins again
            await write_place(self._store, stored.place.next(stored.place.place, is_moving=False), stored.version)
            log.info("ownership_records_stay", place=stored.place.place.value)
            return
        if source is None:
            return
        other = await self._open(other_place(stored.place.place))
        if not self._records.may_write or not self._records.is_read or self._records.place != stored.place:
            return
        await self._follow_up(other)
        if self._was_copied and stored.place.place is source:
            await self._move(stored, other_place(source), other)

    async def _open(self, place: StorageType) -> CopiedRecords:
        """Begin to read the copy of the records in `place`, and wait until all of them are read; return the copy. If
        this takes longer than _READ_S seconds, raise ChannelUnavailableError.
        """
        if self._other is not None and self._other.storage is not place:
            await self._leave_other()
        if self._other is None:
            self._other = self._make(place)
            self._other.start(lambda *_: None)
        other = self._other
        try:
            async with asyncio.timeout(_READ_S):
                while not other.is_read:
                    await self._change.wait(_CHECK_AGAIN_S)
        except TimeoutError:
            raise ChannelUnavailableError(
                f"the ownership records in the {place.value} could not be read in {_READ_S:.0f} s"
            ) from None
        return other

    async def _follow_up(self, other: CopiedRecords) -> None:
        """Copy the records that differ to `other`. Brokers can still write records meanwhile, so this is repeated
        later.
        """
        session, place = self._records.session, self._records.place

        def holds() -> bool:
            records = self._records
            return (
                self._leadership.is_leader()
                and records.may_write
                and records.session == session
                and records.place == place
            )

        await self._copy(dict(self._records.items()), other, holds)
        if not self._was_copied and not self._differing:
            self._was_copied = True
            log.info("ownership_records_copied", place=other.storage.value, records=len(other.items()))

    async def _copy(
        self, records: Mapping[Bundle, ServiceUnitStateData], other: CopiedRecords, holds: Callable[[], bool]
    ) -> None:
        there = dict(other.items())
        differing = [bundle for bundle in {**there, **records} if there.get(bundle) != records.get(bundle)]
        self._differing = len(differing)
        limit = asyncio.Semaphore(_CONCURRENT_COPIES)

        async def copy(bundle: Bundle) -> None:
            async with limit:
                await other.copy(bundle, records.get(bundle), holds)
                if self._differing:
                    self._differing -= 1

        outcomes = await asyncio.gather(*map(copy, differing), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _move(self, stored: StoredPlace, target: StorageType, other: CopiedRecords) -> None:
        """Make all brokers stop writing records, copy the records that still differ, and then write the new place into
        the key that names the place.

        Raises:
            ChannelUnavailableError: the place has not changed.
            MetadataError: the store did not answer, so the place may have changed.
        """
        place = stored.place
        stored = await write_place(self._store, place.next(place.place, is_moving=True), stored.version)
        log.info("ownership_records_stand_still", generation=stored.place.generation)
        try:
            await self._await_readers(stored.place.generation)
            session = self._records.session

            def holds() -> bool:
                return self._leadership.is_leader() and self._records.session == session

            await other.catch_up()
            await self._copy(await self._records.all_read(), other, holds)
            await other.catch_up()
            if dict(other.items()) != await self._records.all_read() or not holds():
                raise ChannelUnavailableError(
                    "the ownership records in the two places still differ after all of them were copied, so they "
                    "were not moved"
                )
        except (LookupFailedError, MetadataError):
            with suppress(MetadataError):
                await write_place(self._store, stored.place.next(place.place, is_moving=False), stored.version)
            raise
        await write_place(self._store, stored.place.next(target, is_moving=False), stored.version)
        log.info("ownership_records_moved", place=target.value, records=len(other.items()))

    async def _await_readers(self, generation: int) -> None:
        """Wait until every broker has stopped writing records, or its session has expired. `generation` identifies the
        move.

        Raises:
            ChannelUnavailableError: a broker did not stop within two session timeouts; no record was moved.
        """
        within_s = max(_READ_S, 2 * self._config.current.metadata_store_session_timeout_millis / 1000)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while writing := await readers_not_stopped(self._store, generation):
            if loop.time() >= deadline:
                raise ChannelUnavailableError(
                    f"the ownership records were not moved: {count_of(len(writing), 'broker')} did not stop writing "
                    f"them within {within_s:.0f} s (their first incarnations: {', '.join(writing[:3])}). Check these "
                    "brokers; while loadBalancerServiceUnitTableViewSyncer is set, the leader tries the move again"
                )
            await self._change.wait(_CHECK_AGAIN_S)
