"""The state machine that owns bundles by the records of the ownership channel.

`machine` has the modules that act on ownership records. This module connects them, and answers look-ups from the
records.

Source: Pulsar's `ServiceUnitStateChannelImpl` (getOwnerAsync, publish…EventAsync). Difference: while an owner transfers
a bundle, look-ups do not return it; they wait until the next owner serves.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import (
    LookupNotReadyError,
    Owner,
)
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.ownership.channel.channel_counters import ChannelCounters
from pulsar_barycenter.broker.ownership.channel.machine.bundle_states import BundleStates, TermRecord
from pulsar_barycenter.broker.ownership.channel.machine.giving import Giving
from pulsar_barycenter.broker.ownership.channel.machine.own_life import OwnLife
from pulsar_barycenter.broker.ownership.channel.machine.record_brokers import RecordBrokers
from pulsar_barycenter.broker.ownership.channel.machine.requests import RecordRequests
from pulsar_barycenter.broker.ownership.channel.machine.settling import Settling
from pulsar_barycenter.broker.ownership.channel.machine.splitting import Splitting
from pulsar_barycenter.broker.ownership.channel.machine.steps import RequestNotes
from pulsar_barycenter.broker.ownership.channel.machine.taking import Choose, Taking
from pulsar_barycenter.broker.ownership.channel.machine.term_locks import TermLocks
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords, RecordListener
from pulsar_barycenter.broker.ownership.contract import InTransit, WriteBoundaries
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.broker.ownership.mixed_ownership import OwnershipMode
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.load.service_units.duties import Duty, Role, role_of
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData, state_of
from pulsar_barycenter.metadata.store import Guard, MetadataStore, SessionEvent
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName

log = structlog.get_logger(__name__)

_ARRIVES_S: Final = 12.0
"""The number of seconds that a client waits for a bundle that this broker is about to serve."""
_ARRIVING: Final = frozenset({Role.HEIR, Role.OWNER, Role.OWNER_WITHOUT_NUMBER})
_GIVING: Final = frozenset({Role.GIVER, Role.LEAVER})


class RecordOwnership:
    """Owns bundles by ownership records: does what the records require of this broker, and begins and ends its `terms`
    accordingly. Implements `OwnershipMachine`.
    """

    def __init__(
        self,
        store: MetadataStore,
        terms: LocalTerms[TermRecord],
        records: OwnershipRecords,
        registration: Registration,
        *,
        incarnation: str,
        holds_locks: Callable[[], bool],
        in_flight_s: Callable[[], float],
        keeps_clients: Callable[[], bool],
        choose: Choose,
        counters: ChannelCounters,
    ) -> None:
        """`holds_locks` returns whether terms also need locks; it is called once, by `start`. `in_flight_s` returns for
        how many seconds a request to change ownership waits, not counting the time for closing topics. `keeps_clients`
        returns whether the clients of a transferred bundle stay connected until they are sent to the next owner.
        `choose(bundle, brokers)` returns an owner for the bundle, but none of `brokers`; None if no broker can own it.
        """
        self._store = store
        self._terms = terms
        self._records = records
        self._registration = registration
        self._incarnation = incarnation
        self._holds_locks = holds_locks
        self._counters = counters
        notes = RequestNotes()
        self._brokers = RecordBrokers(store, registration, terms.tasks)
        self._life = OwnLife(store, registration, terms.tasks, begun=lambda: self.settling.all_soon())
        self._states = BundleStates(terms, records, self._life)
        giving = Giving(terms, records, self._states, self._brokers, notes, keeps_clients)
        self.settling = Settling(terms, records, self._states, giving)
        """Does what the records require of this broker (duties); its `actions` has a function for each duty."""
        self._taking = Taking(terms, records, self._states, self._life, giving, notes, choose)
        self._splitting = Splitting(store, terms, records, self._states, self._life, self._taking, self.settling, notes)
        self.settling.actions = {
            Duty.BEGIN: self._taking.begin_term,
            Duty.CLAIM: self._taking.claim,
            Duty.CLAIM_AGAIN: self._taking.claim_again,
            Duty.PREPARE: self._taking.prepare,
            Duty.HAND_OVER: giving.hand_over,
            Duty.GIVE_UP: giving.give_up,
            Duty.SPLIT: self._splitting.carry_out,
        }
        self._requests = RecordRequests(
            terms,
            records,
            self._states,
            self._brokers,
            self._taking,
            giving,
            notes,
            in_flight_s=in_flight_s,
            choose=choose,
        )
        self._record_listeners: list[RecordListener] = []
        self._interrupted: list[Callable[[], None]] = []
        self._is_stopped = False
        self._stop_listening = store.add_session_listener(self._on_session_event)
        terms.bundles.on_change(self._on_boundaries)

    # ---- lifecycle ----

    def start(self) -> None:
        """Begin to read the ownership records, and to acquire and release bundles as they require."""
        self._taking.refusal = None
        self._records.start(self._on_record)
        read = self._registration.data_of
        if self._holds_locks():
            self._states.guard = self._term_locks()
            read = self._registration.read
        self._brokers.start(read)
        self._life.start(self._terms.broker_id)
        self._terms.tasks.start(self._terms.watch_pauses(self._after_pause, self._begin_life), "ownership pauses")
        self.settling.start()

    def _term_locks(self) -> TermLocks:
        me = self._terms.broker_id
        return TermLocks(
            self._store,
            self._terms.bundles,
            self._terms.urls,
            incarnation=self._incarnation,
            pauses=self._terms.pauses,
            spawn=self._terms.tasks.start,
            owns_by_records=lambda broker: broker == me or broker in self._brokers,
            changed=self._terms.changes.notify,
            lost=self._lock_lost,
        )

    def refuse(self, why: str) -> None:
        """Acquire no more bundles. Bundles that this broker owns stay its own until they are released. If another
        broker assigns a bundle to this broker, this broker passes it on to a third one.
        """
        self._taking.refusal = why

    def stop(self) -> None:
        self._is_stopped = True
        self.settling.stop()
        self._stop_listening()
        self._brokers.stop()

    async def close(self) -> None:
        await self._states.guard.close()
        await self._records.close()

    @property
    def mode(self) -> OwnershipMode:
        """How this broker owns bundles: by locks or by records. It can be read only after the broker's id is known."""
        return OwnershipMode(self._records.storage.value, holds_locks=self._states.guard.holds_locks)

    def on_interruption(self, listener: Callable[[], None]) -> None:
        """Call `listener` each time it was found that this process was paused for so long that other brokers may own
        its bundles now.
        """
        self._interrupted.append(listener)

    def on_record(self, listener: RecordListener) -> None:
        """Call `listener` with each change of an ownership record, whichever broker owns the bundle."""
        self._record_listeners.append(listener)

    # ---- events ----

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_LOST:
            self._life.end()
            self._states.guard.lose_session()
            self._terms.suspend_all("session lost")
        elif event is SessionEvent.SESSION_REESTABLISHED:
            self._terms.pauses.begin_anew()
            self._states.guard.regain_session()
            self._begin_life()

    def _after_pause(self) -> None:
        self._life.end()
        self._states.guard.interrupted()
        for listener in self._interrupted:
            listener()

    def _begin_life(self) -> None:
        self._life.begin_soon()
        self.settling.all_soon()

    def _on_record(
        self, bundle: Bundle, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None
    ) -> None:
        self._life.record_changed(bundle, before, after)
        if role_of(after, self._terms.broker_id) is not Role.OWNER:
            self._life.drop_floor(bundle)
        self._time(bundle, before, after)
        self.settling.soon(bundle)
        self._terms.changes.notify(bundle)
        for listener in self._record_listeners:
            listener(bundle, before, after)

    def _time(self, bundle: Bundle, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None) -> None:
        """Record, for `HandoverTimes`, when this broker begins or ends its part in a handover of the bundle, as the
        change of the record from `before` to `after` shows.
        """
        was, now = role_of(before, self._terms.broker_id), role_of(after, self._terms.broker_id)
        handovers = self._terms.handovers
        if was not in _GIVING and now in _GIVING:
            handovers.giving(bundle)
        elif was in _GIVING and now not in _GIVING:
            handovers.given_up(bundle)
        if now is Role.HEIR:
            handovers.taking(bundle)
        elif now not in (Role.OWNER, Role.OWNER_WITHOUT_NUMBER):
            handovers.not_taken(bundle)
        if after is not None and after.state is ServiceUnitState.OWNED:
            handovers.served(bundle)

    def _on_boundaries(self, namespace: NamespaceName, bundles: NamespaceBundles) -> None:
        for holding in self._terms.served_outside(namespace, bundles):
            self.lost(holding.term, "the range is no longer a bundle of the namespace")
        for bundle in self._records.bundles():
            if bundle.namespace == namespace:
                self.settling.soon(bundle)

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        holding = self._terms.holdings.get(owned.bundle)
        if holding is None or holding.term is not owned or holding.is_ended:
            return
        log.warning("ownership_lost", bundle=str(owned.bundle), epoch=owned.epoch, reason=reason)
        self._terms.holdings.end(holding, reason)
        self.settling.soon(owned.bundle)

    def _lock_lost(self, bundle: Bundle) -> None:
        holding = self._terms.holdings.get(bundle)
        if holding is not None:
            self.lost(holding.term, "another session has acquired the lock")

    async def until_served(self, bundle: Bundle) -> None:
        """Wait until this broker serves the bundle, or until the bundle's record shows that this broker will not serve
        it soon, for at most _ARRIVES_S seconds. If this time is over, return without an error.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ARRIVES_S
        while self._states.role(bundle) in _ARRIVING and self._terms.local_owner(bundle) is None:
            left_s = deadline - loop.time()
            if left_s <= 0 or self._is_stopped:
                return
            await self._terms.changes.wait(bundle, left_s)

    def owner_named(self, broker_id: str, epoch: int | None) -> Owner | None:
        """Return the addresses of the broker `broker_id`; None if they are not known. `epoch` is only used if this is
        the id of this broker: it becomes the epoch in the result.
        """
        if self._terms.has_identity and broker_id == self._terms.broker_id:
            return self._terms.urls.owner(is_local=True, epoch=epoch)
        return self._brokers.get(broker_id)

    # ---- owners ----

    def owner_cached(self, bundle: Bundle) -> Owner | None:
        record = self._records.get(bundle)
        named = _named(record)
        if record is None or named is None:
            return None
        if named == self._terms.broker_id:
            return self._terms.local_owner(bundle)
        if self._brokers.is_of_former_life(named, record):
            return None
        return self._brokers.get(named) or self._states.guard.known(bundle)

    async def owner_of(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the owner of the bundle. InTransit: the bundle has an owner or a next owner, which does not serve it
        now. None: the bundle has no owner.

        Raises:
            LookupNotReadyError: the ownership records have not been read yet.
        """
        state = state_of(self._records.get(bundle)).value
        self._counters.count("owner_lookup", state=state, result="Total")
        if not self._records.is_read:
            self._counters.count("owner_lookup", state=state, result="Failure")
            raise LookupNotReadyError("The ownership channel has not been read yet")
        owner = self.owner_cached(bundle)
        if owner is not None:
            return owner
        await self._records.refresh(bundle)
        record = self._records.get(bundle)
        if record is not None and record.state.is_active:
            found = self.owner_cached(bundle) or await self._owner_by_lock(bundle, _named(record))
            return found or InTransit(record.owner or record.source_broker or "")
        if bundle in self._terms.holdings:
            return InTransit(self._terms.broker_id)
        return await self._states.guard.owner(bundle)

    async def _owner_by_lock(self, bundle: Bundle, named: str | None) -> Owner | InTransit | None:
        """Return the owner that the bundle's lock names. None if the lock does not count: the broker `named` by the
        bundle's record owns bundles by records, or the record names no broker.
        """
        if named is None or named == self._terms.broker_id or named in self._brokers:
            return None
        return await self._states.guard.owner(bundle)

    def owners(self) -> list[tuple[Bundle, str]]:
        """Return every bundle that has an owner in its ownership record, with the owner's id."""
        return [
            (bundle, record.dst_broker)
            for bundle, record in self._records.items()
            if record.state is ServiceUnitState.OWNED and record.dst_broker
        ]

    def concerned(self) -> set[str]:
        """Return the ids of all brokers that the ownership records name as an owner, or as the former or next owner in
        a change of ownership in progress.
        """
        brokers: set[str | None] = set()
        records = self._records.items()
        for _, record in records:
            if record.state.is_active:
                brokers.add(record.dst_broker)
            if record.state.is_in_flight:
                brokers.add(record.source_broker)
        return {broker for broker in brokers if broker}

    # ---- changes ----

    async def move(self, bundle: Bundle, source: str, destination: str | None, guard: Guard | None = None) -> bool:
        """Make the broker `source` unload a bundle, for `destination` as the next owner; see `RecordRequests.move`."""
        return await self._requests.move(bundle, source, destination, guard)

    async def assign(self, bundle: Bundle, broker_id: str) -> None:
        """Assign a bundle without an owner to a broker; see `RecordRequests.assign`."""
        await self._requests.assign(bundle, broker_id)

    async def acquire(self, bundle: Bundle, reason: str) -> Owner:
        """Own and serve `bundle`; see `RecordRequests.acquire`."""
        return await self._requests.acquire(bundle, reason)

    async def release(self, bundle: Bundle, reason: str, destination: str | None) -> int | None:
        """Release the bundle; see `RecordRequests.release`."""
        return await self._requests.release(bundle, reason, destination)

    async def split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        """Split `parent`, which this broker serves, into `children` without closing a topic; see
        `Splitting.request`.
        """
        await self._splitting.request(parent, children, write_boundaries, within_s=self._requests.change_s())


def _named(record: ServiceUnitStateData | None) -> str | None:
    """Return the id of the broker that serves the bundle, as its ownership record says; None if the record
    names none.
    """
    if record is None:
        return None
    match record.state:
        case ServiceUnitState.OWNED:
            return record.dst_broker
        case ServiceUnitState.SPLITTING:
            return record.source_broker
    return None
