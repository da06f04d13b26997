"""The requests to the state machine. Each writes an ownership record, and waits until the brokers have done what the
record requires.

That may be the work of another broker. So a request ends when the records show that it is done. After a time limit it
fails with BundleNotAcquiredError, while the change continues.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotAcquiredError,
    BundleNotFoundError,
    LookupFailedError,
    Owner,
)
from pulsar_barycenter.broker.ownership.channel.machine.bundle_states import BundleStates, TermRecord
from pulsar_barycenter.broker.ownership.channel.machine.giving import Giving
from pulsar_barycenter.broker.ownership.channel.machine.record_brokers import RecordBrokers
from pulsar_barycenter.broker.ownership.channel.machine.steps import RequestNotes
from pulsar_barycenter.broker.ownership.channel.machine.taking import Choose, Taking
from pulsar_barycenter.broker.ownership.channel.records import ChannelUnavailableError, OwnershipRecords
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.cluster_logs.request_ids import current_request_id
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.duties import Role, role_of
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, state_of
from pulsar_barycenter.metadata.errors import LockBusyError, MetadataError
from pulsar_barycenter.metadata.store import Guard
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import is_broker_bound

log = structlog.get_logger(__name__)

_CHECK_AGAIN_S: Final = 0.25
_ATTEMPTS: Final = 20
_LEAVE_S: Final = 5.0
"""The number of seconds for which a broker that stops tries to transfer a bundle."""
_LEAVING: Final = frozenset({Role.GIVER, Role.LEAVER, Role.PREDECESSOR, Role.SPLITTER})
"""The roles of a broker that is losing a bundle in a change, until another broker or none owns the bundle."""


class RecordRequests:
    """Carries out requests to change the ownership of bundles, and waits for the result. `in_flight_s` returns for how
    many seconds a request waits, not counting the time for closing topics.
    """

    def __init__(
        self,
        terms: LocalTerms[TermRecord],
        records: OwnershipRecords,
        states: BundleStates,
        brokers: RecordBrokers,
        taking: Taking,
        giving: Giving,
        notes: RequestNotes,
        *,
        in_flight_s: Callable[[], float],
        choose: Choose,
    ) -> None:
        self._terms = terms
        self._records = records
        self._states = states
        self._brokers = brokers
        self._taking = taking
        self._giving = giving
        self._notes = notes
        self._in_flight_s = in_flight_s
        self._choose = choose
        self._is_cut_off = False
        """Whether the channel did not answer when this broker was stopping."""

    async def move(self, bundle: Bundle, source: str, destination: str | None, guard: Guard | None = None) -> bool:
        """Make the broker `source` unload a bundle, and wait for the end of the unload. `destination` is the next
        owner; None: the bundle then has no owner, and its next look-up assigns one.

        Return True after the unload. Return False if `source` does not own the bundle, or the bundle's record changed
        meanwhile. Any broker may request an unload; a leader passes `guard`, the condition that no later leader exists.

        Raises:
            GuardError: another leader has a later epoch.
            BundleNotAcquiredError: the unload did not end in time, or the destination cannot own the bundle.
            ChannelUnavailableError: the ownership records cannot be written now.
        """
        record = self._records.get(bundle)
        if record is None or record.state is not ServiceUnitState.OWNED or record.dst_broker != source:
            return False
        self._check_destination(bundle, destination)
        releasing = events.releasing(record, destination, self._now_ms(), request_id=current_request_id())
        if not await self._records.put(bundle, record, releasing, guard):
            return False
        await self._wait_while(bundle, lambda: state_of(self._records.get(bundle)).is_in_flight)
        return True

    async def _wait_while(self, bundle: Bundle, is_pending: Callable[[], bool]) -> None:
        """Wait until `is_pending` returns False, for at most `change_s` seconds.

        Raises:
            BundleNotAcquiredError: the change did not end in time.
        """
        await self._terms.wait_while(
            bundle,
            is_pending,
            within_s=self.change_s(),
            look_every_s=_CHECK_AGAIN_S,
            failure="no broker took over the bundle in time; the change continues",
        )

    def change_s(self) -> float:
        """Return how many seconds a request waits for a change of ownership. This includes the time that closing topics
        may take.
        """
        return self._in_flight_s() + self._terms.unload_timeout_s()

    def _check_destination(self, bundle: Bundle, destination: str | None) -> None:
        if destination is not None and destination != self._terms.broker_id and destination not in self._brokers:
            detail = f"broker {destination} is not registered, or its load manager does not own bundles by records"
            raise BundleNotAcquiredError(bundle, detail)

    async def assign(self, bundle: Bundle, broker_id: str) -> None:
        """Write into the ownership record of a bundle without an owner that the bundle is assigned to the broker
        `broker_id`. That broker owns the bundle when it has written the state Owned into the record. Do nothing if the
        bundle already has an owner, or another change of its ownership is in progress. If the record says that the
        bundle was deleted, and the bundle exists again, only delete the record.

        Raises:
            BundleNotFoundError: the bundle was split, or is not one of its namespace.
            ChannelUnavailableError, MetadataError: the ownership records cannot be written now.
        """
        record = self._records.get(bundle)
        match state_of(record):
            case ServiceUnitState.INIT | ServiceUnitState.FREE:
                assigning = events.assigning(record, broker_id, self._now_ms(), request_id=current_request_id())
                await self._records.put(bundle, record, assigning)
            case ServiceUnitState.DELETED:
                if not await self._states.is_current(bundle):
                    raise BundleNotFoundError(bundle)
                await self._records.put(bundle, record, None)  # the namespace was deleted and created again

    async def acquire(self, bundle: Bundle, reason: str) -> Owner:
        """Acquire `bundle` and wait until this broker serves it; return this broker as the owner. If this broker serves
        it already, return at once.

        Raises:
            BundleNotFoundError: the range is not, or no longer, a bundle of its namespace.
            BundleNotAcquiredError: this broker acquires nothing now, or did not get the bundle in time.
            LockBusyError: another broker owns the bundle.
            MetadataError: the store did not answer.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._in_flight_s()
        failure = "the bundle was not assigned in time"
        me = self._terms.broker_id
        self._notes.reasons[bundle] = reason
        while True:
            owner = self._terms.local_owner(bundle)
            if owner is not None:
                return owner
            if self._taking.refusal is not None:
                raise BundleNotAcquiredError(bundle, self._taking.refusal)
            record = self._records.get(bundle)
            if record is not None and record.state is ServiceUnitState.OWNED and record.dst_broker != me:
                raise LockBusyError(f"bundle {bundle} is owned by broker {record.dst_broker}")
            if loop.time() >= deadline:
                raise BundleNotAcquiredError(bundle, failure)
            if self._records.is_read:
                try:
                    await self.assign(bundle, me)
                except ChannelUnavailableError as error:
                    failure = str(error)
            await self._terms.changes.wait(bundle, _CHECK_AGAIN_S)

    async def release(self, bundle: Bundle, reason: str, destination: str | None) -> int | None:
        """Release a bundle and wait for it. `destination` is the next owner; None: the bundle then has no owner, and
        its next look-up assigns one. Return the number of closed topics, None if this broker does not own the bundle.

        A call during another unload of the bundle waits for the end of that unload, and returns None. While this broker
        is stopping, the load manager chooses the next owner if `destination` is None, and none of these errors is
        raised: after an error this only ends the term.

        Raises:
            BundleNotAcquiredError: the bundle was not released in time, or the destination is this broker, or cannot
                own it.
            ChannelUnavailableError: the ownership records cannot be written now.
        """
        if self._taking.refusal is None:
            return await self._release(bundle, reason, destination)
        return await self._leave_bundle(bundle, reason)

    async def _leave_bundle(self, bundle: Bundle, reason: str) -> int | None:
        """Transfer a bundle to another broker, because this broker stops; return the number of closed topics, None if
        this broker does not own the bundle. If the ownership record cannot be written in time, only end the term, and
        return 0.

        In the second case the record still names this broker. After this broker's session has expired, the leader
        assigns the bundle to another broker.
        """
        try:
            async with asyncio.timeout(0 if self._is_cut_off else _LEAVE_S):
                return await self._release(bundle, reason, None)
        except (TimeoutError, LookupFailedError, MetadataError) as error:
            reason_text = str(error) or "the ownership channel does not answer"
            log.warning("bundle_not_handed_over", bundle=str(bundle), reason=reason_text)
            self._is_cut_off = True
        holding = self._terms.holdings.get(bundle)
        if holding is None:
            return None
        await self._giving.drop(bundle, holding, reason, None)
        return 0

    async def _release(self, bundle: Bundle, reason: str, destination: str | None) -> int | None:
        me = self._terms.broker_id
        if destination == me:
            raise BundleNotAcquiredError(
                bundle, f"broker {destination} owns the bundle already: name another destination"
            )
        self._check_destination(bundle, destination)
        if destination is None and self._taking.refusal is not None and not is_broker_bound(bundle.namespace):
            destination = await self._choose(bundle, (me,))
        self._notes.reasons[bundle] = reason
        self._notes.topics_closed.pop(bundle, None)
        for _ in range(_ATTEMPTS):
            record = self._records.get(bundle)
            if record is None or role_of(record, me) not in (Role.OWNER, Role.OWNER_WITHOUT_NUMBER):
                break
            topics = self._terms.topics.written(bundle) if destination is not None else ()
            after = events.releasing(
                record, destination, self._now_ms(), topics=topics, request_id=current_request_id()
            )
            if await self._records.put(bundle, record, after):
                await self._until_left(bundle)
                return self._notes.topics_closed.pop(bundle, 0)
        await self._until_left(bundle)
        return None

    async def _until_left(self, bundle: Bundle) -> None:
        """Wait until this broker has no term of the bundle, and its record gives this broker nothing more to do. Raises
        the errors of `_wait_while`.
        """
        await self._wait_while(bundle, lambda: bundle in self._terms.holdings or self._states.role(bundle) in _LEAVING)

    def _now_ms(self) -> int:
        return self._terms.clock.now_ms()
