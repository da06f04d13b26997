"""What a broker does about the records of the ownership channel: it takes, serves, hands over, splits, lets go.

Nothing here acts upon an event. Whenever a record, the session, a boundary or what is held has changed, `_settle` looks
at the bundle's record and at what is held of it, does the one thing that `DUTIES` says, and looks again. One task a
bundle does so, and all bundles are looked at again from time to time.

**Boundaries** are read after a bundle was assigned, so that nobody can split it away: only its owner may. What turns
out to be no bundle of its namespace is given up; what is a child of a split under way waits for its boundaries.

**Clients of a transfer** stay connected while their topics are closed, and are told the address of the owner once its
record says that it is one.

Source: Pulsar's `ServiceUnitStateChannelImpl` (handle…Event).
"""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError, Owner
from pulsar_barycenter.broker.cluster.registration import Registration
from pulsar_barycenter.broker.namespaces.boundaries import needs_no_record
from pulsar_barycenter.broker.namespaces.bundle_cache import BundleCache
from pulsar_barycenter.broker.ownership.channel.lives import Lives, TermRecord
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.broker.ownership.channel.steps import NextStep, PreparedNumber
from pulsar_barycenter.broker.ownership.channel.term_locks import TermLocks
from pulsar_barycenter.broker.ownership.holdings import Holding, HoldingState
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.cluster_logs.request_ids import serving
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.duties import Duty, Held, Role, duty_of, role_of
from pulsar_barycenter.load.service_units.repairs import override
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import LockBusyError, MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName, is_broker_bound

log = structlog.get_logger(__name__)

_WITHOUT_LOCK: Final = frozenset({Role.NONE, Role.EXPECTANT, Role.PREDECESSOR})
_GIVING: Final = frozenset({Role.GIVER, Role.LEAVER})
_AGAIN_S: Final = 0.2
_MOST_AGAIN_S: Final = 3.0
_SWEEP_S: Final = 5.0
"""How often all bundles are looked at, whatever was told of them."""


class Settling(Lives):
    """The part of `ChannelOwnership` that acts."""

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
        keeps_clients: Callable[[], bool],
        choose: Callable[[Bundle, Collection[str]], Awaitable[str | None]],
    ) -> None:
        super().__init__(
            store,
            bundles,
            registration,
            clock=clock,
            serving_log=serving_log,
            session_timeout_s=session_timeout_s,
            unload_timeout_s=unload_timeout_s,
        )
        self._incarnation = incarnation
        self._holds_locks = holds_locks
        self._records = records
        self._keeps_clients = keeps_clients
        self._choose = choose
        self._refusal: str | None = "this broker is starting"
        self._settling: dict[Bundle, asyncio.Task[None]] = {}
        self._due: set[Bundle] = set()
        self._prepared: dict[Bundle, PreparedNumber] = {}
        self._kept: set[Bundle] = set()
        """Bundles whose topics are closed for a transfer, and whose clients wait."""
        self._children: set[Bundle] = set()
        """Bundles that are made here of others, and not served yet."""
        self._too_low: dict[Bundle, int] = {}
        """Parts of a split whose number was taken before the boundaries stood, by a broker that did not serve the whole
        until then: another may have served that under a higher one meanwhile."""
        self._reasons: dict[Bundle, str] = {}
        self._topics_closed: dict[Bundle, int] = {}
        bundles.on_change(self._on_boundaries)

    def _begin(self) -> None:
        """Begin to act; the broker's identity is known."""
        assert self._urls is not None
        if self._holds_locks():
            self._locks = TermLocks(
                self._store,
                self._bundles,
                self._urls,
                incarnation=self._incarnation,
                pauses=self._pauses,
                spawn=self._spawn,
                owns_by_records=lambda broker: broker == self._broker_id or broker in self._owners,
                changed=self._notify,
                lost=self._lock_lost,
            )
        self._live()
        self._spawn(self._sweep(), "ownership sweep")

    def _end_life(self) -> None:
        super()._end_life()
        self._prepared.clear()
        self._too_low.clear()

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        holding = self._holdings.get(owned.bundle)
        if holding is None or holding.term is not owned or holding.is_ended:
            return
        log.warning("ownership_lost", bundle=str(owned.bundle), epoch=owned.epoch, reason=reason)
        self._holdings.end(holding, reason)
        self._settle_soon(owned.bundle)

    def _lock_lost(self, bundle: Bundle) -> None:
        holding = self._holdings.get(bundle)
        if holding is not None:
            self.lost(holding.term, "the lock went to another session")

    # ---- looking ----

    def _on_record(
        self, bundle: Bundle, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None
    ) -> None:
        prepared = self._prepared.get(bundle)
        if prepared is not None and not prepared.goes_on(before, after):
            del self._prepared[bundle]
        if role_of(after, self._broker_id) is not Role.OWNER:
            self._too_low.pop(bundle, None)
        self._time(bundle, before, after)
        self._settle_soon(bundle)
        self._notify(bundle)

    def _time(self, bundle: Bundle, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None) -> None:
        """Note how far a change is that this broker has a part in."""
        was, now = role_of(before, self._broker_id), role_of(after, self._broker_id)
        if was not in _GIVING and now in _GIVING:
            self.handovers.giving(bundle)
        elif was in _GIVING and now not in _GIVING:
            self.handovers.given_up(bundle)
        if now is Role.HEIR:
            self.handovers.taking(bundle)
        elif now not in (Role.OWNER, Role.OWNER_WITHOUT_NUMBER):
            self.handovers.not_taken(bundle)
        if after is not None and after.state is ServiceUnitState.OWNED:
            self.handovers.served(bundle)

    def _on_boundaries(self, namespace: NamespaceName, bundles: NamespaceBundles) -> None:
        current = set(bundles.bundles)
        for holding in self._holdings.all():
            bundle = holding.term.bundle
            gone = bundle.namespace == namespace and bundle not in current
            if gone and self._holdings.is_serving(holding) and not holding.splitting:
                self.lost(holding.term, "the range is no longer a bundle of the namespace")
        for bundle in self._records.bundles():
            if bundle.namespace == namespace:
                self._settle_soon(bundle)

    def _settle_all(self) -> None:
        locked = () if self._locks is None else self._locks.bundles()
        for bundle in dict.fromkeys((*self._records.bundles(), *self._holdings.bundles(), *locked)):
            self._settle_soon(bundle)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            self._settle_all()

    def _settle_soon(self, bundle: Bundle) -> None:
        """Have the bundle looked at, unless there is nothing to do."""
        if bundle in self._settling:
            self._due.add(bundle)
        elif not self._closed and self._urls is not None and self._duty(bundle) is not Duty.NOTHING:
            self._settling[bundle] = self._spawn(self._settle(bundle), f"settle {bundle}")

    def _duty(self, bundle: Bundle) -> Duty:
        record = self._records.get(bundle)
        role = role_of(record, self._broker_id)
        if role is Role.OWNER and not self._is_numbered(bundle, record):
            role = Role.OWNER_WITHOUT_NUMBER
        held = self._held(bundle, record)
        if held is Held.NOTHING and role in _WITHOUT_LOCK and bundle not in self._children and self._is_locked(bundle):
            return Duty.LET_GO
        return duty_of(role, held)

    def _is_numbered(self, bundle: Bundle, record: ServiceUnitStateData | None, above: int = 0) -> bool:
        """Tell whether a record has a number of this life, above another one, by which the bundle may be served."""
        lowest = max(above, self._too_low.get(bundle, 0))
        return self._is_of_this_life(record) and record is not None and (record.epoch or 0) > lowest

    def _is_locked(self, bundle: Bundle) -> bool:
        return self._locks is not None and self._locks.holds(bundle)

    def _held(self, bundle: Bundle, record: ServiceUnitStateData | None) -> Held:
        holding = self._holdings.get(bundle)
        if holding is None:
            return Held.NOTHING
        if bundle in self._kept:
            return Held.CLOSED
        is_of_it = record is not None and record.epoch == holding.won.epoch
        if record is None or record.state is not ServiceUnitState.OWNED or not is_of_it:
            return Held.OUTDATED
        return Held.ENDED if holding.is_ended else Held.SERVING

    async def _settle(self, bundle: Bundle) -> None:
        pause_s = _AGAIN_S
        try:
            while (duty := self._duty(bundle)) is not Duty.NOTHING:
                self._due.discard(bundle)
                try:
                    record = self._records.get(bundle)
                    with serving(_on_behalf_of(duty, record)):
                        step = await self._do(duty, bundle, record)
                except (LookupFailedError, MetadataError) as error:
                    log.info("ownership_duty_not_done", bundle=str(bundle), duty=duty.name, reason=str(error))
                    step = NextStep.RETRY
                if step is NextStep.LOOK or bundle in self._due:
                    pause_s = _AGAIN_S
                elif step is NextStep.WAIT:
                    return
                else:
                    await self.wait_change(bundle, pause_s)
                    pause_s = min(pause_s * 2, _MOST_AGAIN_S)
        finally:
            self._due.discard(bundle)
            del self._settling[bundle]

    async def _do(self, duty: Duty, bundle: Bundle, record: ServiceUnitStateData | None) -> NextStep:
        """Do one duty. All but `LET_GO` are about a record that there is."""
        if duty is Duty.LET_GO or record is None:
            return await self._let_go(bundle, record)
        match duty:
            case Duty.BEGIN:
                return await self._begin_term(bundle, record)
            case Duty.CLAIM:
                return await self._claim(bundle, record)
            case Duty.CLAIM_AGAIN:
                return await self._claim_again(bundle, record)
            case Duty.PREPARE:
                return await self._prepare(bundle, record)
            case Duty.HAND_OVER:
                return await self._hand_over(bundle, record)
            case Duty.GIVE_UP:
                return await self._give_up(bundle, record)
            case _:
                return await self._split(bundle, record)

    async def _offer(
        self, bundle: Bundle, before: ServiceUnitStateData | None, after: ServiceUnitStateData | None
    ) -> NextStep:
        """Publish a record; if it was refused and nothing else came, that is tried again after a while."""
        accepted = await self._records.put(bundle, before, after)
        return NextStep.LOOK if accepted or self._records.get(bundle) is not before else NextStep.RETRY

    # ---- taking ----

    async def _is_current(self, bundle: Bundle) -> bool:
        bundles = await self._bundles.fresh(bundle.namespace)
        exists = bundles.version is not None or needs_no_record(bundle.namespace)
        return exists and bundles.find_hash(bundle.range.lower) == bundle

    def _is_to_be(self, bundle: Bundle) -> bool:
        """Tell whether a split under way, here or elsewhere, makes this bundle."""
        return bundle in self._children or self._splitter_of(bundle) is not None

    def _splitter_of(self, bundle: Bundle) -> str | None:
        """Return who makes this bundle by a split under way, as the records say."""
        for other, record in self._records.items():
            if (
                record.state is ServiceUnitState.SPLITTING
                and other.namespace == bundle.namespace
                and str(bundle.range) in (record.split_service_unit_to_dest_broker or ())
            ):
                return record.source_broker
        return None

    async def _await_split(self, bundle: Bundle) -> NextStep:
        """Wait for the boundaries, and leave the lock to the broker that splits."""
        if self._splitter_of(bundle) not in (None, self._broker_id):
            await self._unlock(bundle)
        return NextStep.WAIT

    async def _begin_term(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        life = self._life
        if self._is_to_be(bundle):
            return await self._await_split(bundle)
        if self._refusal is not None:
            return await self._pass_on(bundle, record)
        if not await self._is_current(bundle):
            if self._is_to_be(bundle):
                return await self._await_split(bundle)
            log.info("bundle_is_none", bundle=str(bundle))
            return await self._offer(bundle, record, self._override(record, None, 0))
        if self._pauses.has_paused():
            return NextStep.WAIT  # this life ends as soon as that is noticed
        if self._locks is not None and not self._is_locked(bundle):
            return await self._claim_again(bundle, record)
        if self._life == life and self._records.get(bundle) is record and bundle not in self._holdings:
            self._activate(bundle, record)
        return NextStep.LOOK

    def _activate(self, bundle: Bundle, record: ServiceUnitStateData) -> None:
        """Begin the term that a record of this life numbers."""
        assert self._urls is not None
        assert record.epoch is not None
        owner = self._urls.owner(is_local=True, epoch=record.epoch)
        holding = self._holdings.prepare(bundle, TermRecord(record.epoch, record.version_id), owner)
        self._holdings.activate(holding, self._reasons.pop(bundle, "its record says so"))
        self.handovers.taken(bundle)

    async def _claim(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        if self._refusal is not None:
            return await self._pass_on(bundle, record)
        if self._since is None:
            return NextStep.WAIT
        prepared = self._prepared.pop(bundle, None)
        if prepared is not None and prepared.version_id == record.version_id - 1:
            if self._topics is not None and record.topics:
                self._topics.prepare(bundle, record.topics, prepared.epoch, are_closed=True)
            return await self._offer(bundle, record, events.owned(record, self._clock.now_ms(), prepared.epoch))
        if not await self._is_current(bundle) and not self._is_to_be(bundle):
            return await self._offer(bundle, record, self._override(record, None, 0))
        return await self._own(bundle, record, lambda epoch: events.owned(record, self._clock.now_ms(), epoch))

    async def _own(
        self, bundle: Bundle, record: ServiceUnitStateData, owned: Callable[[int], ServiceUnitStateData]
    ) -> NextStep:
        """Publish the record that begins a term, made with its number; leave a bundle to whom owns it by its lock."""
        try:
            epoch = await self._term_number(bundle)
        except LockBusyError:
            if not await self._is_owned_by_lock(bundle):
                return NextStep.RETRY
            log.info("bundle_left_to_the_owner_of_its_lock", bundle=str(bundle))
            return await self._offer(bundle, record, self._override(record, None, 0))
        return await self._offer(bundle, record, owned(epoch))

    async def _term_number(self, bundle: Bundle) -> int:
        """Take the number of a term, under the bundle's lock where there are locks, too.

        Raises:
            LockBusyError: another broker has that.
            BundleNotFoundError, BundleNotAcquiredError, MetadataError
        """
        if self._locks is None:
            return await self._number()
        return await self._locks.number(bundle, is_child=self._is_to_be(bundle))

    async def _is_owned_by_lock(self, bundle: Bundle) -> bool:
        """Tell whether a broker serves the bundle that owns by locks alone."""
        return self._locks is not None and isinstance(await self._locks.owner(bundle), Owner)

    async def _unlock(self, bundle: Bundle) -> None:
        """Give the lock back: the term is over, or there will be none."""
        if self._locks is not None:
            await self._locks.give_back(bundle)

    async def _claim_again(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        holding = self._holdings.get(bundle)
        if holding is not None:
            await self._drop(bundle, holding, "its term ended", None)
            return NextStep.LOOK
        if self._refusal is not None:
            return await self._pass_on(bundle, record)
        if self._since is None:
            return NextStep.WAIT
        if self._locks is not None and self._splitter_of(bundle) not in (None, self._broker_id):
            return await self._await_split(bundle)
        return await self._own(
            bundle, record, lambda epoch: events.claimed(record, self._broker_id, self._clock.now_ms(), epoch)
        )

    async def _pass_on(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """This broker takes nothing any more: have somebody else own what it does not serve."""
        successor = None
        if not is_broker_bound(bundle.namespace):
            successor = await self._choose(bundle, (self._broker_id,))
        return await self._offer(bundle, record, self._override(record, successor, await self._number()))

    def _override(self, record: ServiceUnitStateData, successor: str | None, epoch: int) -> ServiceUnitStateData:
        return override(record, successor, self._clock.now_ms(), epoch)

    async def _prepare(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Do what can be done before the owner has closed the bundle."""
        if self._locks is not None:
            return NextStep.WAIT  # its number is to be taken under the lock, which is the owner's yet
        if self._since is not None and self._refusal is None and await self._is_current(bundle):
            number = await self._number()
            self._prepared[bundle] = PreparedNumber(record.version_id, number)
            if self._topics is not None and record.topics:
                self._topics.prepare(bundle, record.topics, number, are_closed=False)
        return NextStep.WAIT

    # ---- giving ----

    async def _hand_over(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        holding = self._holdings.get(bundle)
        if holding is not None and bundle not in self._kept:
            keeps = self._keeps_clients() and self._topics is not None
            closed = await self._close(bundle, holding, f"transfer to {record.dst_broker}", keeps_clients=keeps)
            self._topics_closed[bundle] = closed
            self._reasons.pop(bundle, None)
            if keeps:
                self._kept.add(bundle)
            else:
                self._holdings.forget(holding)
        await self._unlock(bundle)
        topics = self._topics.written_topics(bundle) if self._topics is not None else ()
        return await self._offer(bundle, record, events.handed_over(record, self._clock.now_ms(), topics))

    async def _give_up(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        holding = self._holdings.get(bundle)
        if holding is not None:
            if bundle in self._kept:
                await self._drop(bundle, holding, "nobody takes it", None)
            else:
                reason = self._reasons.pop(bundle, "unload")
                self._topics_closed[bundle] = await self._close(bundle, holding, reason, keeps_clients=False)
                self._holdings.forget(holding)
        await self._unlock(bundle)
        return await self._offer(bundle, record, events.freed(record, self._clock.now_ms()))

    async def _close(self, bundle: Bundle, holding: Holding[TermRecord], reason: str, *, keeps_clients: bool) -> int:
        """Close the bundle's topics in order, and end the term."""
        if holding.state is HoldingState.SERVING:
            self._holdings.unload(holding)
        log.info("bundle_unloading", bundle=str(bundle), epoch=holding.term.epoch, reason=reason)
        began = asyncio.get_running_loop().time()
        if keeps_clients:
            assert self._topics is not None
            closed = await self._in_time(bundle, self._topics.begin_transfer(bundle, reason=reason))
        else:
            closed = await self._close_topics(bundle, reason)
        self.handovers.closed(bundle)
        self._holdings.end(holding, reason)
        took_ms = round((asyncio.get_running_loop().time() - began) * 1000)
        log.info("bundle_unloaded", bundle=str(bundle), topics=closed, took_ms=took_ms, reason=reason)
        return closed

    async def _let_go(self, bundle: Bundle, record: ServiceUnitStateData | None) -> NextStep:
        """The bundle is not this broker's: end at once what is held of it."""
        holding = self._holdings.get(bundle)
        if holding is not None:
            owner = None
            if record is not None and record.state is ServiceUnitState.OWNED and record.dst_broker != self._broker_id:
                owner = self._owners.get(record.dst_broker or "")
            await self._drop(bundle, holding, "another owns it" if owner is not None else "it is not owned here", owner)
            self._tell_lost(bundle)
        await self._unlock(bundle)
        return NextStep.LOOK

    async def _drop(self, bundle: Bundle, holding: Holding[TermRecord], reason: str, owner: Owner | None) -> None:
        self._holdings.end(holding, reason)
        if self._topics is not None and (bundle in self._kept or owner is not None):
            await self._in_time(bundle, self._topics.finish_transfer(bundle, owner, reason=reason))
        else:
            await self._close_topics(bundle, reason)
        self._kept.discard(bundle)
        self._holdings.forget(holding)

    @abstractmethod
    async def _split(self, parent: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Carry a split out."""


def _on_behalf_of(duty: Duty, record: ServiceUnitStateData | None) -> str:
    """Return the id of the request that a duty is done for; "" where its record is of a change that is over."""
    is_over = record is None or duty in (Duty.LET_GO, Duty.CLAIM_AGAIN)
    return "" if is_over or record is None else record.request_id or ""
