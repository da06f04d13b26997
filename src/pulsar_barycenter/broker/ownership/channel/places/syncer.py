"""What the leader does while `loadBalancerServiceUnitTableViewSyncer` is set: it copies the ownership records to the
place that the key names, moves the truth there, and keeps the former place alike from then on.

1. The other place gets all records as they are, then each change, while everybody writes where the truth is.
2. When nothing differs, everybody is asked to stand still (`place`), and who cannot be heard of is waited for until his
   session ends. What was written last is copied.
3. The key names the other place, and everybody goes on there. Until then it named the former one.

Every step is begun anew by whoever leads next. What a former leader does late harms nothing: it replaces the key and
the records of the store by the version that it read, within its session, and reaches the topic by its own broker only,
which the fence of the topic's ledger keeps out.

Source: Pulsar's `ServiceUnitStateTableViewSyncer`. Different: there both places are written, and each change is copied
both ways.
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
    who_goes_on,
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
_LOOK_AGAIN_S: Final = 0.05
_READ_S: Final = 30.0
_AT_ONCE: Final = 64


class CopiedRecords(OwnershipRecords, Protocol):
    """Records of a place where the truth is not: the leader alone writes there, whatever may follow what."""

    async def copy(self, bundle: Bundle, after: ServiceUnitStateData | None, holds: Callable[[], bool]) -> None:
        """Have `after` there (None: nothing), if `holds` until it is written.

        Raises:
            ChannelUnavailableError: it was not written, or that is not known.
        """
        ...


class RecordsSyncer:
    """`make` returns the records of a place, as the leader alone writes them; they are not started."""

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
        """How many records differ between the places; None while they are not copied by this broker."""
        self._was_copied = False
        self._change = NextChange()
        self.due = asyncio.Event()
        """Set when the places have to be looked at soon."""
        self._stop_listening = config.on_change(SYNCER_KEY, lambda _config: self.due.set())
        self._closing: asyncio.Task[None] | None = None
        leadership.on_change(self._on_leadership)

    @property
    def is_on(self) -> bool:
        return self._config.current.load_balancer_service_unit_table_view_syncer in SOURCES

    def samples(self) -> Iterator[tuple[str, float]]:
        """Return gauges: where the records are, and how far they are copied if this broker does that."""
        place = self._records.place
        if place is not None:
            yield "barycenter_ownership_records_in_store", place.place is StorageType.METADATA_STORE
            follows = self._records.storage is place.place
            yield "barycenter_ownership_records_moving", place.is_moving or not follows
        if self._differing is not None:
            yield "barycenter_ownership_records_differing", self._differing
            yield "barycenter_ownership_records_copied", self._was_copied

    async def close(self) -> None:
        """Idempotent."""
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
        """Bring the places nearer to what the key asks for. What fails is told, and tried again at the next call."""
        if not self._leadership.is_leader():
            return
        try:
            await self._look()
        except (LookupFailedError, MetadataError) as error:
            log.warning("ownership_records_not_copied", reason=str(error))

    async def _look(self) -> None:
        source = SOURCES.get(self._config.current.load_balancer_service_unit_table_view_syncer)
        seen = self._records.place
        if source is None:
            await self._leave_other()
            if seen is None or not seen.is_moving:
                return
        stored = await read_place(self._store)
        if stored is None:
            return
        if stored.place.is_moving:  # whoever began that does not lead any more, or failed: it begins anew
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
        """Return the records of a place to copy to, read."""
        if self._other is not None and self._other.storage is not place:
            await self._leave_other()
        if self._other is None:
            self._other = self._make(place)
            self._other.start(lambda *_: None)
        other = self._other
        try:
            async with asyncio.timeout(_READ_S):
                while not other.is_read:
                    await self._change.wait(_LOOK_AGAIN_S)
        except TimeoutError:
            raise ChannelUnavailableError(
                f"what is in the {place.value} could not be read in {_READ_S:.0f} s"
            ) from None
        return other

    async def _follow_up(self, other: CopiedRecords) -> None:
        """Copy what differs, while everybody writes."""
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
        differing = [each for each in {**there, **records} if there.get(each) != records.get(each)]
        self._differing = len(differing)
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(bundle: Bundle) -> None:
            async with limit:
                await other.copy(bundle, records.get(bundle), holds)
                if self._differing:
                    self._differing -= 1

        outcomes = await asyncio.gather(*map(one, differing), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _move(self, stored: StoredPlace, target: StorageType, other: CopiedRecords) -> None:
        """Have everybody stand still, copy what is left, and name the other place.

        Raises:
            ChannelUnavailableError, MetadataError: the truth stays where it was, as far as that is known.
        """
        place = stored.place
        stored = await write_place(self._store, place.next(place.place, is_moving=True), stored.version)
        log.info("ownership_records_stand_still", generation=stored.place.generation)
        try:
            await self._await_all_still(stored.place.generation)
            session = self._records.session

            def holds() -> bool:
                return self._leadership.is_leader() and self._records.session == session

            await other.catch_up()
            await self._copy(await self._records.all_read(), other, holds)
            await other.catch_up()
            if dict(other.items()) != await self._records.all_read() or not holds():
                raise ChannelUnavailableError("the two places differ though everything was copied")
        except (LookupFailedError, MetadataError):
            with suppress(MetadataError):
                await write_place(self._store, stored.place.next(place.place, is_moving=False), stored.version)
            raise
        await write_place(self._store, stored.place.next(target, is_moving=False), stored.version)
        log.info("ownership_records_moved", place=target.value, records=len(other.items()))

    async def _await_all_still(self, generation: int) -> None:
        """Wait for everybody's sign, or for the end of his session."""
        within_s = max(_READ_S, 2 * self._config.current.metadata_store_session_timeout_millis / 1000)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while going_on := await who_goes_on(self._store, generation):
            if loop.time() >= deadline:
                raise ChannelUnavailableError(
                    f"{count_of(len(going_on), 'broker')} did not stand still in {within_s:.0f} s"
                )
            await self._change.wait(_LOOK_AGAIN_S)
