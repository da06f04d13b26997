"""Which bundles this broker owns by the records of the ownership channel, and who owns the others.

What is done about each record is the subject of `settling`; here it is asked for, and waited for.

Source: Pulsar's `ServiceUnitStateChannelImpl` (getOwnerAsync, publish…EventAsync). Different: an owner that hands a
bundle over is not named to those who look it up before the next one serves.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.leadership import Leadership
from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotAcquiredError,
    BundleNotFoundError,
    LookupFailedError,
    LookupNotReadyError,
    Owner,
)
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.cluster.service_urls import ServiceUrls
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.channel.channel_counters import ChannelCounters
from pulsar_barycenter.broker.ownership.channel.leaders_topics import LeadersTopics
from pulsar_barycenter.broker.ownership.channel.records import ChannelUnavailableError, OwnershipRecords, RecordListener
from pulsar_barycenter.broker.ownership.channel.splitting import PendingSplit, Splitting
from pulsar_barycenter.broker.ownership.contract import InTransit, WriteBoundaries
from pulsar_barycenter.broker.ownership.mixed_ownership import OwnershipMode
from pulsar_barycenter.broker.ownership.serving import NotServedError, OwnedBundle
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.cluster_logs.request_ids import current_request_id
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.duties import Role, role_of
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData, state_of
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import LockBusyError, MetadataError
from pulsar_barycenter.metadata.store import Guard, MetadataStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.internal_topics import is_internal_topic
from pulsar_barycenter.naming.namespace import is_broker_bound
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

_LOOK_AGAIN_S: Final = 0.25
_OFFERS: Final = 20
_LEAVE_S: Final = 5.0
"""How long a broker that leaves tries to hand a bundle over."""
_ARRIVES_S: Final = 12.0
"""How long a client is held whose bundle is on its way here."""
_ARRIVING: Final = frozenset({Role.HEIR, Role.OWNER, Role.OWNER_WITHOUT_NUMBER})
_LEAVING: Final = frozenset({Role.GIVER, Role.LEAVER, Role.PREDECESSOR, Role.SPLITTER})
"""The roles of a broker in a change that it has a part in, until somebody else or nobody owns the bundle."""


class ChannelOwnership(Splitting):
    """Implements `Ownership`. Made before the ports are known; `set_identity` comes before `acquire`."""

    def __init__(
        self,
        store: MetadataStore,
        bundles: BundleCache,
        records: OwnershipRecords,
        registration: Registration,
        *,
        clock: Clock,
        serving_log: ServingLog,
        incarnation: str,
        holds_locks: Callable[[], bool],
        session_timeout_s: float,
        unload_timeout_s: Callable[[], float],
        in_flight_s: Callable[[], float],
        keeps_clients: Callable[[], bool],
        choose: Callable[[Bundle, Collection[str]], Awaitable[str | None]],
        counters: ChannelCounters,
    ) -> None:
        """`holds_locks` tells at the start whether terms are held by locks, too; `in_flight_s` is how long a change of
        ownership is waited for; `keeps_clients` tells whether the clients of a bundle that is handed over stay
        connected; `choose` says who shall own a bundle, other than some brokers."""
        super().__init__(
            store,
            bundles,
            records,
            registration,
            clock=clock,
            serving_log=serving_log,
            incarnation=incarnation,
            holds_locks=holds_locks,
            session_timeout_s=session_timeout_s,
            unload_timeout_s=unload_timeout_s,
            keeps_clients=keeps_clients,
            choose=choose,
        )
        self._in_flight_s = in_flight_s
        self._counters = counters
        self._splits = {}
        self._record_listeners: list[RecordListener] = []
        self._leaders_topics: LeadersTopics | None = None
        self._is_cut_off = False
        """Whether the channel did not answer when this broker was leaving."""

    # ---- life ----

    def set_identity(self, urls: ServiceUrls) -> None:
        """Say under which URLs this broker serves; from now on it reads the records and may acquire."""
        self._urls = urls
        self._refusal = None
        self._records.start(self._on_record)
        self._begin()

    def _on_record(
        self, bundle: Bundle, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None
    ) -> None:
        super()._on_record(bundle, before, after)
        for listener in self._record_listeners:
            listener(bundle, before, after)

    def refuse_acquisitions(self, why: str) -> None:
        """Acquire nothing more; what is owned stays until it is released, and what is assigned is passed on."""
        self._refusal = why

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for stop in self._stop_listening:
            stop()
        self._leave_nothing()
        if self._leaders_topics is not None:
            await self._leaders_topics.close()
        await self._end_tasks()
        if self._locks is not None:
            await self._locks.close()
        await self._records.close()

    @property
    def mode(self) -> OwnershipMode:
        """How this broker keeps ownership; known once it has an identity."""
        return OwnershipMode(self._records.storage.value, holds_locks=self._locks is not None)

    # ---- internal topics ----

    def serve_internal_topics(
        self, leadership: Leadership, serving_log: ServingLog, changed: Callable[[], None]
    ) -> LeadersTopics:
        """Serve the internal topics whenever this broker leads; `changed` is called when another serves them."""
        self._leaders_topics = LeadersTopics(
            self._store,
            leadership,
            clock=self._clock,
            pauses=self._pauses,
            serving_log=serving_log,
            owner_named=self._leader_named,
            close_topics=lambda bundle, reason: self._spawn(self._close_topics(bundle, reason), f"close {bundle}"),
            changed=changed,
        )
        self.on_interruption(self._leaders_topics.interrupted)
        return self._leaders_topics

    def _leader_named(self, broker_id: str, epoch: int | None) -> Owner | None:
        if self._urls is not None and broker_id == self._broker_id:
            return self._urls.owner(is_local=True, epoch=epoch)
        return self._owners.get(broker_id)

    def served(self, topic: TopicName) -> OwnedBundle | None:
        if self._leaders_topics is not None and is_internal_topic(topic):
            return self._leaders_topics.served()
        return super().served(topic)

    async def require_served(self, topic: TopicName) -> OwnedBundle:
        """See `ServingAuthority`; a client may be here before this broker has read that it owns the bundle."""
        if self._leaders_topics is None or not is_internal_topic(topic):
            if self.served(topic) is None:
                await self._until_joined()
                await self._until_served(await self._bundles.bundle_of(topic))
            return await super().require_served(topic)
        term = self._leaders_topics.served()
        if term is None:
            raise NotServedError(topic, "the leader serves it, and this broker does not lead")
        return term

    async def _until_served(self, bundle: Bundle) -> None:
        """Wait for a bundle that is about to be this broker's."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _ARRIVES_S
        while role_of(self._records.get(bundle), self._broker_id) in _ARRIVING and not self.is_owned(bundle):
            left_s = deadline - loop.time()
            if left_s <= 0 or self._closed:
                return
            await self.wait_change(bundle, left_s)

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        if self._leaders_topics is not None:
            self._leaders_topics.lost(owned, reason)
        super().lost(owned, reason)

    # ---- who owns what ----

    def owner_cached(self, bundle: Bundle) -> Owner | None:
        record = self._records.get(bundle)
        named = _named(record)
        if record is None or named is None:
            return None
        if named == self._broker_id:
            return self._local_owner(bundle)
        if self._is_of_former_life(named, record):
            return None
        owner = self._owners.get(named)
        return owner if owner is not None or self._locks is None else self._locks.known(bundle)

    async def owner_of(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the owner, InTransit while it does not serve (yet), or None if the bundle is nobody's.

        Raises:
            LookupNotReadyError: the records were not read yet.
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
        if bundle in self._holdings:
            return InTransit(self._broker_id)
        return None if self._locks is None else await self._locks.owner(bundle)

    async def _owner_by_lock(self, bundle: Bundle, named: str | None) -> Owner | InTransit | None:
        """Ask the lock of a bundle whose record names a broker that does not own by records (any more)."""
        if self._locks is None or named is None or named == self._broker_id or named in self._owners:
            return None
        return await self._locks.owner(bundle)

    def owners(self) -> list[tuple[Bundle, str]]:
        """Return every bundle that is owned, with the id of its owner."""
        return [
            (bundle, record.dst_broker)
            for bundle, record in self._records.items()
            if record.state is ServiceUnitState.OWNED and record.dst_broker
        ]

    def concerned(self) -> set[str]:
        """Return the ids of the brokers that own a bundle, or have a part in a change under way."""
        brokers: set[str | None] = set()
        records = self._records.items()
        for _, record in records:
            if record.state.is_active:
                brokers.add(record.dst_broker)
            if record.state.is_in_flight:
                brokers.add(record.source_broker)
        return {broker for broker in brokers if broker}

    def on_record(self, listener: RecordListener) -> None:
        """Call `listener` with each change of a record, whoever's it is."""
        self._record_listeners.append(listener)

    # ---- changes ----

    async def move(self, bundle: Bundle, source: str, destination: str | None, guard: Guard | None = None) -> bool:
        """Have `source` give a bundle up, to `destination` or to nobody in particular; return whether it did.

        False: `source` does not own it. Any broker may ask for it; a leader with the `guard` of its epoch.

        Raises:
            GuardError: another leader has a later epoch.
            BundleNotAcquiredError: nobody had it in time, or the destination cannot take it.
            ChannelUnavailableError
        """
        record = self._records.get(bundle)
        if record is None or record.state is not ServiceUnitState.OWNED or record.dst_broker != source:
            return False
        self._check_destination(bundle, destination)
        releasing = events.releasing(record, destination, self._clock.now_ms(), request_id=current_request_id())
        if not await self._records.put(bundle, record, releasing, guard):
            return False
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._in_flight_s() + self._unload_timeout_s()
        while state_of(self._records.get(bundle)).is_in_flight:
            if loop.time() >= deadline:
                raise BundleNotAcquiredError(bundle, "nobody took it in time")
            await self.wait_change(bundle, _LOOK_AGAIN_S)
        return True

    def _check_destination(self, bundle: Bundle, destination: str | None) -> None:
        if destination not in (None, self._broker_id) and destination not in self._owners:
            detail = f"broker {destination} is not registered, or runs a load manager that keeps ownership elsewhere"
            raise BundleNotAcquiredError(bundle, detail)

    async def assign(self, bundle: Bundle, broker_id: str) -> None:
        """Hand a bundle that nobody owns to a broker, which has it when its record says Owned. If it is somebody's
        meanwhile, nothing is done.

        Raises:
            BundleNotFoundError: it was split, or is no bundle of its namespace.
            ChannelUnavailableError, MetadataError
        """
        record = self._records.get(bundle)
        match state_of(record):
            case ServiceUnitState.INIT | ServiceUnitState.FREE:
                assigning = events.assigning(record, broker_id, self._clock.now_ms(), request_id=current_request_id())
                await self._records.put(bundle, record, assigning)
            case ServiceUnitState.DELETED:
                if not await self._is_current(bundle):
                    raise BundleNotFoundError(bundle)
                await self._records.put(bundle, record, None)  # the namespace was deleted and made anew

    async def acquire(self, bundle: Bundle, *, reason: str) -> Owner:
        """Own and serve `bundle`; a bundle that is served here already is no work.

        Raises:
            BundleNotFoundError: it is not among the bundles of its namespace (any more).
            BundleNotAcquiredError: this broker takes nothing now, or did not get it in time.
            LockBusyError: another broker has it.
            MetadataError: the store did not answer.
        """
        return await self._run(self._acquire(bundle, reason), f"acquire {bundle}")

    async def _acquire(self, bundle: Bundle, reason: str) -> Owner:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._in_flight_s()
        failure = "it was not assigned in time"
        self._reasons[bundle] = reason
        while True:
            owner = self._local_owner(bundle)
            if owner is not None:
                return owner
            if self._refusal is not None:
                raise BundleNotAcquiredError(bundle, self._refusal)
            record = self._records.get(bundle)
            if record is not None and record.state is ServiceUnitState.OWNED and record.dst_broker != self._broker_id:
                raise LockBusyError(f"bundle {bundle}, owned by {record.dst_broker}")
            if loop.time() >= deadline:
                raise BundleNotAcquiredError(bundle, failure)
            if self._records.is_read:
                try:
                    await self.assign(bundle, self._broker_id)
                except ChannelUnavailableError as error:
                    failure = str(error)
            await self.wait_change(bundle, _LOOK_AGAIN_S)

    async def release(self, bundle: Bundle, *, reason: str, destination: str | None = None) -> int | None:
        """Give the bundle up, to `destination` or to nobody in particular; return how many topics were closed.

        None: it is not owned here. A call during another unload of the bundle waits for that one, and returns None.
        A broker that is leaving chooses a destination itself.

        Raises:
            BundleNotAcquiredError: it was not given up in time, or the destination is this broker, or cannot take it.
            ChannelUnavailableError
        """
        if self._refusal is None:
            return await self._run(self._release(bundle, reason, destination), f"release {bundle}")
        return await self._run(self._leave_bundle(bundle, reason), f"release {bundle}")

    async def _leave_bundle(self, bundle: Bundle, reason: str) -> int | None:
        """Hand a bundle over on the way out; where the channel does not answer, let it go without a word.

        Its record goes on to name this broker, which the leader finds lost once its session has ended.
        """
        try:
            async with asyncio.timeout(0 if self._is_cut_off else _LEAVE_S):
                return await self._release(bundle, reason, None)
        except (TimeoutError, LookupFailedError, MetadataError) as error:
            said = str(error) or "the channel does not answer"
            log.warning("bundle_not_handed_over", bundle=str(bundle), reason=said)
            self._is_cut_off = True
        holding = self._holdings.get(bundle)
        if holding is None:
            return None
        await self._drop(bundle, holding, reason, None)
        return 0

    async def _release(self, bundle: Bundle, reason: str, destination: str | None) -> int | None:
        if destination == self._broker_id:
            raise BundleNotAcquiredError(bundle, f"broker {destination} owns it already")
        self._check_destination(bundle, destination)
        if destination is None and self._refusal is not None and not is_broker_bound(bundle.namespace):
            destination = await self._choose(bundle, (self._broker_id,))
        self._reasons[bundle] = reason
        self._topics_closed.pop(bundle, None)
        for _ in range(_OFFERS):
            record = self._records.get(bundle)
            role = role_of(record, self._broker_id)
            if record is None or role not in (Role.OWNER, Role.OWNER_WITHOUT_NUMBER):
                break
            topics = self._topics.written_topics(bundle) if destination is not None and self._topics is not None else ()
            after = events.releasing(
                record, destination, self._clock.now_ms(), topics=topics, request_id=current_request_id()
            )
            if await self._records.put(bundle, record, after):
                await self._until_gone(bundle)
                return self._topics_closed.pop(bundle, 0)
        await self._until_gone(bundle)
        return None

    async def _until_gone(self, bundle: Bundle) -> None:
        """Wait for the end of a change under way here."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._in_flight_s() + self._unload_timeout_s()
        while bundle in self._holdings or role_of(self._records.get(bundle), self._broker_id) in _LEAVING:
            if loop.time() >= deadline:
                raise BundleNotAcquiredError(bundle, "nobody took it in time")
            await self.wait_change(bundle, _LOOK_AGAIN_S)

    async def split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        """Replace the served `parent` by `children` without closing a topic; see `Ownership.split`.

        Raises:
            BundleNotAcquiredError: the parent is not served here, or lost meanwhile, or it was not split in time.
            BadVersionError: from `write_boundaries`.
            ChannelUnavailableError
        """
        await self._run(self._begin_split(parent, children, write_boundaries), f"split {parent}")

    async def _begin_split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        record = self._records.get(parent)
        if record is None or role_of(record, self._broker_id) is not Role.OWNER or not self.is_owned(parent):
            raise BundleNotAcquiredError(parent, "it is not served here")
        if parent in self._splits:
            raise BundleNotAcquiredError(parent, "it is being split")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda each: each.cancelled() or each.exception())  # nobody may wait for it any more
        self._splits[parent] = PendingSplit(children, write_boundaries, done)
        try:
            ranges = [str(child.range) for child in children]
            after = events.splitting(record, ranges, self._clock.now_ms(), request_id=current_request_id())
            if not await self._records.put(parent, record, after):
                raise BundleNotAcquiredError(parent, "its ownership changed meanwhile")
            await self._until_split(parent, done)
        finally:
            del self._splits[parent]
            done.cancel()

    async def _until_split(self, parent: Bundle, done: asyncio.Future[None]) -> None:
        """Wait for the end of a split that was begun here, which another broker goes on with if this one lost its
        session meanwhile."""
        done.add_done_callback(lambda _: self._notify(parent))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._in_flight_s() + self._unload_timeout_s()
        while not done.done():
            is_ours = role_of(self._records.get(parent), self._broker_id) is Role.SPLITTER
            if not is_ours and parent not in self._settling:
                raise BundleNotAcquiredError(parent, "it went to another broker during the split")
            if loop.time() >= deadline:
                raise BundleNotAcquiredError(parent, "it was not split in time; the split goes on")
            await self.wait_change(parent, _LOOK_AGAIN_S)
        await done


def _named(record: ServiceUnitStateData | None) -> str | None:
    """Return the id of the broker that a record says serves; None if it says so of nobody."""
    if record is None:
        return None
    match record.state:
        case ServiceUnitState.OWNED:
            return record.dst_broker
        case ServiceUnitState.SPLITTING:
            return record.source_broker
    return None
