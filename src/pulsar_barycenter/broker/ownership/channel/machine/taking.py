"""The duties (what an ownership record requires of this broker) that begin its term as owner of a bundle: it writes
itself as owner into the record, then serves the bundle.

**Boundaries** are read after the bundle was assigned, because from then on only its owner may split it. If the bundle
does not belong to its namespace any more, the broker writes that it has no owner. A child of a split in progress waits
for its boundaries.

Source: Pulsar's `ServiceUnitStateChannelImpl` (handleAssignEvent, handleOwnEvent).
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

import structlog

from pulsar_barycenter.broker.ownership.channel.machine.bundle_states import BundleStates, TermRecord
from pulsar_barycenter.broker.ownership.channel.machine.giving import Giving
from pulsar_barycenter.broker.ownership.channel.machine.own_life import OwnLife
from pulsar_barycenter.broker.ownership.channel.machine.steps import NextStep, PreparedNumber, RequestNotes, offer
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.repairs import override
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.metadata.errors import LockBusyError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import is_broker_bound

log = structlog.get_logger(__name__)

Choose: TypeAlias = Callable[[Bundle, Collection[str]], Awaitable[str | None]]
"""A function that returns an owner for a bundle, but none of the given brokers; None if no broker can own it."""


class Taking:
    def __init__(
        self,
        terms: LocalTerms[TermRecord],
        records: OwnershipRecords,
        states: BundleStates,
        life: OwnLife,
        giving: Giving,
        notes: RequestNotes,
        choose: Choose,
    ) -> None:
        self._terms = terms
        self._records = records
        self._states = states
        self._life = life
        self._giving = giving
        self._notes = notes
        self._choose = choose
        self.refusal: str | None = "this broker is starting"
        """Why this broker acquires nothing now; None if it does."""

    async def begin_term(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Begin to serve a bundle whose ownership record names this broker, under an epoch that this broker took in its
        present life. Return the next step.
        """
        lives_ended = self._life.ended
        if self._states.is_to_be(bundle):
            return await self._await_split(bundle)
        if self.refusal is not None:
            return await self._pass_on(bundle, record)
        if not await self._states.is_current(bundle):
            if self._states.is_to_be(bundle):
                return await self._await_split(bundle)
            log.info("bundle_is_none", bundle=str(bundle))
            return await self.free(bundle, record)
        if self._terms.pauses.has_paused():
            return NextStep.WAIT  # this life ends when the pause is detected
        if self._states.guard.lacks(bundle):
            return await self.claim_again(bundle, record)
        is_unchanged = self._life.ended == lives_ended and self._records.get(bundle) is record
        if is_unchanged and bundle not in self._terms.holdings:
            self.activate(bundle, record)
        return NextStep.LOOK

    def activate(self, bundle: Bundle, record: ServiceUnitStateData) -> None:
        """Begin the term under the epoch in `record`, which this broker took in its present life."""
        assert record.epoch is not None
        owner = self._terms.urls.owner(is_local=True, epoch=record.epoch)
        holding = self._terms.holdings.prepare(bundle, TermRecord(record.epoch, record.version_id), owner)
        self._terms.holdings.activate(holding, self._notes.reasons.pop(bundle, "the bundle's record names this broker"))
        self._terms.handovers.taken(bundle)

    async def claim(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Write into the ownership record that this broker owns a bundle that was assigned to it. If this broker
        accepts no bundles now, assign the bundle to another one instead. Return the next step.
        """
        if self.refusal is not None:
            return await self._pass_on(bundle, record)
        if not self._life.has_begun:
            return NextStep.WAIT
        prepared = self._life.take_prepared(bundle, record)
        if prepared is not None:
            self._prepare_topics(bundle, record, prepared, are_closed=True)
            return await offer(self._records, bundle, record, events.owned(record, self._now_ms(), prepared))
        if not await self._states.is_current(bundle) and not self._states.is_to_be(bundle):
            return await self.free(bundle, record)
        return await self._own(bundle, record, lambda epoch: events.owned(record, self._now_ms(), epoch))

    async def claim_again(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Write again into the ownership record that this broker owns a bundle, under a new epoch: the epoch in the
        record was not taken in the present life, or its term has ended. Return the next step.
        """
        holding = self._terms.holdings.get(bundle)
        if holding is not None:
            self._life.raise_floor(bundle, holding.term.epoch)  # the term was lost, but the record may have its number
            await self._giving.drop(bundle, holding, "the bundle's term ended", None)
            return NextStep.LOOK
        if self.refusal is not None:
            return await self._pass_on(bundle, record)
        if not self._life.has_begun:
            return NextStep.WAIT
        if self._states.guard.holds_locks and self._states.is_split_elsewhere(bundle):
            return await self._await_split(bundle)
        me = self._terms.broker_id
        return await self._own(bundle, record, lambda epoch: events.claimed(record, me, self._now_ms(), epoch))

    async def prepare(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Prepare the term of a bundle that is being transferred to this broker, while the present owner still serves
        it: take an epoch, and begin to open topics. Return the next step.
        """
        if self._states.guard.holds_locks:
            return NextStep.WAIT  # the number must be taken under the lock, which the owner still has
        if self._life.has_begun and self.refusal is None and await self._states.is_current(bundle):
            number = await self._life.number()
            self._life.prepare(bundle, PreparedNumber(record.version_id, number))
            self._prepare_topics(bundle, record, number, are_closed=False)
        return NextStep.WAIT

    def _prepare_topics(self, bundle: Bundle, record: ServiceUnitStateData, number: int, *, are_closed: bool) -> None:
        if record.topics:
            self._terms.topics.prepare(bundle, record.topics, number, are_closed=are_closed)

    async def free(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Write into the ownership record that the bundle has no owner. Return the next step."""
        return await offer(self._records, bundle, record, override(record, None, self._now_ms(), 0))

    async def term_number(self, bundle: Bundle) -> int:
        """Take an epoch for a term. If terms need locks, acquire the bundle's lock first. See `TermGuard.number`."""
        return await self._states.guard.number(bundle, is_child=lambda: self._states.is_to_be(bundle))

    async def _own(
        self, bundle: Bundle, record: ServiceUnitStateData, owned: Callable[[int], ServiceUnitStateData]
    ) -> NextStep:
        """Take an epoch, and write the record that `owned` returns for it, which says that this broker owns the bundle.
        Return the next step.

        If a broker that owns bundles by locks serves the bundle, write instead that the bundle has no owner by records.
        """
        try:
            epoch = await self.term_number(bundle)
        except LockBusyError:
            if not await self._states.is_owned_by_lock(bundle):
                return NextStep.RETRY
            log.info("bundle_left_to_the_owner_of_its_lock", bundle=str(bundle))
            return await self.free(bundle, record)
        return await offer(self._records, bundle, record, owned(epoch))

    async def _await_split(self, bundle: Bundle) -> NextStep:
        """Called while the boundaries of a split are not written yet: return WAIT. If another broker does the split,
        also release the bundle's lock, so that that broker can acquire it.
        """
        if self._states.is_split_elsewhere(bundle):
            await self._states.guard.give_back(bundle)
        return NextStep.WAIT

    async def _pass_on(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Assign the bundle to another broker that the load manager chooses, because this broker accepts no bundles
        now; if there is none, write that it has no owner. Return the next step.
        """
        successor = None
        if not is_broker_bound(bundle.namespace):
            successor = await self._choose(bundle, (self._terms.broker_id,))
        number = await self._life.number()
        return await offer(self._records, bundle, record, override(record, successor, self._now_ms(), number))

    def _now_ms(self) -> int:
        return self._terms.clock.now_ms()
