"""The machine that owns bundles by locks.

`lock_courses` is its table: what is done about a bundle, by its state here and by what is asked. `holdings` has the
states that a term goes through.

Everything that changes one bundle runs through that bundle's serial lock, in a task that outlives the caller. A
change acts on one generation (a `Holding`), and forgets it only while it is still the registered one, so a late end of
generation 1 cannot destroy generation 2.

**Losing the lock without notice.** At SESSION_LOST, or when this process finds that it stood still for half a session
(SIGSTOP, a swapped-out machine), every term ends at once: nothing is acknowledged any more, not even of what is
already durable. A term never comes back. When the session is there again the topics are closed and each bundle is
acquired anew, as a new term with a new epoch; those that another broker took meanwhile are dropped. That closes
clients which could have stayed if nobody took the bundle, and spares every proof about it. What cannot be acquired
again at once waits for its next lookup, a broker's own namespaces excepted (`own_namespaces`).

Source: Pulsar's `OwnershipCache` and `OwnedBundle`, its newest rules on generations and serialisation included.
Different: the epoch; the record says `disabled` until a term serves and while it leaves, so that lookups at other
brokers wait instead of sending clients to a broker that refuses them.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError, BundleNotFoundError, Owner
from pulsar_barycenter.broker.ownership.by_locks.hand_overs import HandOvers
from pulsar_barycenter.broker.ownership.by_locks.lock_courses import (
    LockCourse,
    LockRequest,
    LockState,
    course_of,
    lock_state,
)
from pulsar_barycenter.broker.ownership.contract import InTransit, WriteBoundaries
from pulsar_barycenter.broker.ownership.holdings import Holding, HoldingState
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.broker.ownership.locks import BundleLock, BundleLocks
from pulsar_barycenter.broker.ownership.other_owners import OtherOwners, bundle_of_lock
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.cluster_logs.request_ids import current_request_id
from pulsar_barycenter.metadata.errors import LockBusyError, MetadataError, StoreUnavailableError
from pulsar_barycenter.metadata.store import MetadataStore, Notification, NotificationType, SessionEvent
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName

log = structlog.get_logger(__name__)

LockHolding: TypeAlias = Holding[BundleLock]


class LockOwnership:
    """Implements `OwnershipMachine`; works on `terms`. `incarnation` names this process in its lock records."""

    def __init__(self, store: MetadataStore, terms: LocalTerms[BundleLock], *, incarnation: str) -> None:
        self._terms = terms
        self._holdings = terms.holdings
        self._tasks = terms.tasks
        self._incarnation = incarnation
        self._locks = BundleLocks(
            store,
            terms.bundles,
            incarnation=incarnation,
            pauses=terms.pauses,
            spawn=terms.tasks.start,
            is_held=terms.holdings.__contains__,
        )
        self._others = OtherOwners(store, incarnation)
        self._hand_overs = HandOvers(store)
        self._created_listeners: list[Callable[[Bundle], None]] = []
        self._stop_listening = [
            self._others.close,
            self._hand_overs.close,
            store.add_listener(self._on_notification),
            store.add_session_listener(self._on_session_event),
        ]
        terms.bundles.on_change(self._on_boundaries)

    # ---- life ----

    def start(self) -> None:
        self._locks.set_identity(self._terms.urls)
        self._tasks.start(
            self._terms.watch_pauses(self._locks.interrupted, self._recover_from_pause), "ownership pauses"
        )

    def refuse(self, why: str) -> None:
        self._locks.refuse(why)

    def stop(self) -> None:
        self._locks.stop()
        for stop in self._stop_listening:
            stop()

    async def close(self) -> None:
        """Let go of every lock that is still held."""
        await self._locks.close()

    # ---- the table ----

    def _state(self, holding: LockHolding | None) -> LockState:
        held = None if holding is None else holding.state
        return lock_state(held, has_paused=held is HoldingState.SERVING and self._terms.pauses.has_paused())

    def _course(self, holding: LockHolding | None, request: LockRequest) -> LockCourse:
        return course_of(self._state(holding), request)

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        holding = self._holdings.get(owned.bundle)
        if holding is None or holding.term is not owned:
            return
        if self._course(holding, LockRequest.LOSE) is LockCourse.CLEAR:
            log.warning("ownership_lost", bundle=str(owned.bundle), epoch=owned.epoch, reason=reason)
            self._holdings.end(holding, reason)
            self._tasks.start(self._give_up(holding, reason), f"clear {owned.bundle}")

    async def until_served(self, bundle: Bundle) -> None:
        """Return at once: nothing is on its way here, a bundle is served as soon as it is acquired."""

    # ---- who owns what ----

    def owner_cached(self, bundle: Bundle) -> Owner | None:
        """Return the owner if it is known now; never waits."""
        holding = self._holdings.get(bundle)
        if holding is not None:
            return holding.owner if self._holdings.is_serving(holding) else None
        return self._others.get(bundle)

    async def owner_of(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the owner, InTransit while it does not serve (yet), or None if nobody holds the lock."""
        owner = self.owner_cached(bundle)
        if owner is not None:
            return owner
        if self._course(self._holdings.get(bundle), LockRequest.FIND) is not LockCourse.ASK_LOCK:
            return InTransit(self._terms.broker_id)
        record = await self._others.read(bundle)
        if record is None:
            return None
        if self._course(self._holdings.get(bundle), LockRequest.FIND) is not LockCourse.ASK_LOCK:
            return self.owner_cached(bundle) or InTransit(self._terms.broker_id)
        if record.incarnation == self._incarnation:
            self._locks.scrub_idle(bundle)  # a write of unknown outcome left it behind, or we are just winning
            return InTransit(self._terms.broker_id)
        if record.broker_id == self._terms.broker_id:  # a former life of this broker left it, until its session ends
            self._others.forget(bundle)
            return InTransit(self._terms.broker_id)
        if record.disabled:
            return InTransit(record.broker_id)
        return record.owner()

    def on_created(self, listener: Callable[[Bundle], None]) -> None:
        """Call `listener` with each bundle, of any broker, whose lock was just taken."""
        self._created_listeners.append(listener)

    # ---- changes ----

    async def acquire(self, bundle: Bundle, reason: str) -> Owner:
        """Own and serve `bundle`; a bundle that is served here already is no work.

        Raises:
            BundleNotFoundError: it is not among the bundles of its namespace (any more).
            BundleNotAcquiredError: this broker takes nothing now, or lost its session on the way.
            LockBusyError: another broker has it.
            MetadataError: the store did not answer.
        """
        async with self._locks.serial(bundle):
            holding = self._holdings.get(bundle)
            if holding is None:
                return (await self._take(bundle, reason)).owner
            if self._course(holding, LockRequest.ACQUIRE) is LockCourse.REFUSE:
                raise BundleNotAcquiredError(bundle, f"it is {holding.state.value} here")
            return holding.owner

    async def release(self, bundle: Bundle, reason: str, destination: str | None) -> int | None:
        """Close the bundle's topics, then give it up; return how many topics were closed, None if not owned.

        `destination` is not passed on: the broker at which the bundle is looked up next decides, and may know of it.
        Waits at most `namespaceBundleUnloadingTimeoutMs` for the topics; then it lets go all the same, and the
        fence of their ledgers is what protects them.
        """
        async with self._locks.serial(bundle):
            holding = self._holdings.get(bundle)
            if holding is None or self._course(holding, LockRequest.RELEASE) is LockCourse.NOTHING:
                return None
            return await self._unload(holding, reason)

    async def split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        """Replace the served `parent` by `children` without closing a topic.

        Acquires the children, then calls `write_boundaries`, which makes them the namespace's bundles by
        compare-and-set and returns the new list, then swaps parent for children in one step. If anything fails
        before the boundaries stand, the children are given up and the parent goes on.

        Raises:
            BundleNotAcquiredError: the parent is not served here.
            BadVersionError: from `write_boundaries`; another broker changed the namespace.
        """
        async with self._locks.serial(parent):
            holding = self._holdings.get(parent)
            if holding is None or self._course(holding, LockRequest.SPLIT) is LockCourse.REFUSE:
                raise BundleNotAcquiredError(parent, "it is not served here")
            await self._divide(holding, children, write_boundaries)

    async def _take(self, bundle: Bundle, reason: str) -> LockHolding:
        """Win the lock, and serve."""
        self._terms.handovers.taking(bundle)
        try:
            holding = await self._acquire_lock(bundle)
        except BaseException:
            self._terms.handovers.not_taken(bundle)
            raise
        self._activate(holding, reason)
        self._terms.handovers.taken(bundle)
        return holding

    async def _acquire_lock(self, bundle: Bundle, *, is_child: bool = False) -> LockHolding:
        """Win the lock; the holding is registered as PREPARED."""
        won = await self._locks.acquire(bundle, is_child=is_child)
        holding = self._holdings.prepare(bundle, won, self._terms.urls.owner(is_local=True, epoch=won.epoch))
        won.lock.expired.add_done_callback(lambda _: self.lost(holding.term, "the lock went to another session"))
        return holding

    def _activate(self, holding: LockHolding, reason: str) -> None:
        bundle = holding.term.bundle
        self._others.forget(bundle)
        if on_behalf := self._hand_overs.taken(bundle):
            epoch = holding.term.epoch
            me = self._terms.broker_id
            log.info("bundle_taken_over", broker=me, bundle=str(bundle), epoch=epoch, request_id=on_behalf)
        self._holdings.activate(holding, reason)

    async def _unload(self, holding: LockHolding, reason: str) -> int:
        """Close the topics, end the term, free the lock; return how many topics were closed."""
        bundle, handovers = holding.term.bundle, self._terms.handovers
        self._holdings.unload(holding)
        log.info("bundle_unloading", bundle=str(bundle), epoch=holding.term.epoch, reason=reason)
        began = asyncio.get_running_loop().time()
        request_id = current_request_id()
        handovers.giving(bundle)
        mark = self._tasks.start(self._locks.mark_disabled(holding.won), f"mark {bundle} disabled")
        publish = self._tasks.start(self._hand_overs.begin(bundle, request_id), f"publish who unloads {bundle}")
        closed = await self._terms.topics.close(bundle, reason)
        handovers.closed(bundle)
        self._holdings.end(holding, reason)
        await asyncio.wait([mark, publish])
        await self._forget(holding)
        handovers.given_up(bundle)
        self._tasks.start(self._hand_overs.end(bundle, request_id), f"forget who unloads {bundle}")
        took_ms = round((asyncio.get_running_loop().time() - began) * 1000)
        log.info("bundle_unloaded", bundle=str(bundle), topics=closed, took_ms=took_ms, reason=reason)
        return closed

    async def _divide(self, parent: LockHolding, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        def check() -> None:
            if not self._holdings.is_serving(parent):
                raise BundleNotAcquiredError(parent.term.bundle, "it was lost during the split")

        parent.splitting = True
        won: list[LockHolding] = []
        try:
            for child in children:
                async with self._locks.serial(child):
                    won.append(await self._acquire_lock(child, is_child=True))
            boundaries = await write_boundaries(check)
        except BaseException as error:
            parent.splitting = False
            if isinstance(error, StoreUnavailableError):  # the boundaries may stand: do not serve on
                self.lost(parent.term, "the outcome of its split is unknown")
            for child_holding in won:
                await self._abandon(child_holding)
            raise
        self._replace_by_children(parent, won, boundaries)
        left_over = [child for child in won if child.state is HoldingState.PREPARED]
        if left_over:  # the parent was lost: its place is not ours to fill, and this change alone clears it
            await self._terms.topics.close(parent.term.bundle, "it was lost during its split")
        await self._forget(parent)
        for child_holding in left_over:
            await self._abandon(child_holding)

    def _replace_by_children(
        self, parent: LockHolding, children: list[LockHolding], boundaries: NamespaceBundles
    ) -> None:
        """One step: new boundaries, parent out, children in, topics to the terms of their new bundles."""
        self._terms.bundles.accept(boundaries)
        was_serving = self._holdings.is_serving(parent)
        if parent.state is HoldingState.SERVING:  # else it was lost while the boundaries were written
            self._holdings.unload(parent)
        for child in children:
            if was_serving and child.state is HoldingState.PREPARED:
                self._activate(child, f"split of {parent.term.bundle}")
        if was_serving:
            self._terms.topics.refresh_bundles()
        self._holdings.end(parent, "split")

    async def _abandon(self, holding: LockHolding) -> None:
        async with self._locks.serial(holding.term.bundle):
            self._holdings.end(holding, "split abandoned")
            await self._forget(holding)

    # ---- loss ----

    async def _clear(self, holding: LockHolding, reason: str) -> bool:
        """After the end of a term without notice: close what is open, let the lock go if it is still there.

        Returns whether this call did it; if another change already did, there is nothing to acquire again.
        """
        bundle = holding.term.bundle
        async with self._locks.serial(bundle):
            if self._holdings.get(bundle) is not holding:
                return False
            if holding.won.lock.is_held:  # the session goes on: have lookups elsewhere wait for what comes
                await self._locks.mark_disabled(holding.won)
            await self._terms.topics.close(bundle, reason)
            await self._forget(holding)
            return True

    async def _give_up(self, holding: LockHolding, reason: str) -> None:
        """Clear an ended term for good."""
        if await self._clear(holding, reason):
            self._terms.report_lost(holding.term.bundle)

    async def _recover(self, holding: LockHolding, reason: str) -> None:
        """Clear an ended term and try to own the bundle again."""
        bundle = holding.term.bundle
        if not await self._clear(holding, reason):
            return
        try:
            await self.acquire(bundle, f"again after: {reason}")
        except (LockBusyError, BundleNotFoundError, BundleNotAcquiredError) as error:
            log.info("bundle_not_regained", bundle=str(bundle), reason=str(error))
            self._terms.report_lost(bundle)
        except MetadataError as error:
            log.warning("bundle_not_regained", bundle=str(bundle), reason=str(error))
            self._terms.report_lost(bundle)

    def _recover_all(self, reason: str) -> None:
        for holding in self._holdings.all():
            if self._course(holding, LockRequest.REGAIN) is LockCourse.TAKE_AGAIN:
                self._tasks.start(self._recover(holding, reason), f"recover {holding.term.bundle}")

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_LOST:
            self._terms.suspend_all("session lost")
            self._others.forget_all()
            self._locks.lose_session()
        elif event is SessionEvent.SESSION_REESTABLISHED:
            self._terms.pauses.begin_anew()
            self._locks.regain_session()
            self._recover_all("session re-established")

    def _recover_from_pause(self) -> None:
        self._others.forget_all()
        if self._locks.has_session:
            self._recover_all("the process stood still")

    def _on_boundaries(self, namespace: NamespaceName, bundles: NamespaceBundles) -> None:
        for holding in self._terms.served_outside(namespace, bundles):
            self.lost(holding.term, "the range is no longer a bundle of the namespace")

    async def _forget(self, holding: LockHolding) -> None:
        """Release the lock and drop the generation, in this order, so that lookups are held until it is free."""
        await self._locks.release(holding.term.bundle, holding.won.lock)
        self._holdings.forget(holding)

    # ---- notifications ----

    def _on_notification(self, notification: Notification) -> None:
        bundle = bundle_of_lock(notification)
        if bundle is None:
            return
        self._terms.changes.notify(bundle)
        if notification.type is NotificationType.CREATED:
            self._terms.handovers.served(bundle)
            for listener in self._created_listeners:
                listener(bundle)
