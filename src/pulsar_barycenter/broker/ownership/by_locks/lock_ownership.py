"""The state machine that owns bundles by locks.

Its table is `lock_courses`: what is done, by the state of the bundle on this broker and the request. `holdings` has the
states of a term.

All changes of a bundle run one after the other, in a task that continues if the caller is cancelled. A change acts on
one `Holding`, the object for one term, and removes it only if no later one has replaced it. So the late end of an
earlier term cannot end a later one.

**Losing the lock without notice.** At SESSION_LOST, or when this process finds that it was paused for half a session
timeout (SIGSTOP, a suspended machine), every term ends at once: no receipt is sent any more, not even for durable
entries. A term never continues. When there is a session again, the topics are closed and each bundle is acquired again,
as a new term with a new epoch; bundles that another broker acquired in between are dropped. This disconnects clients
that could have stayed if no broker acquired the bundle, but it needs no further proof. A bundle that cannot be acquired
again at once waits for its next look-up, except a broker's own namespaces (`own_namespaces`).

Source: Pulsar's `OwnershipCache` and `OwnedBundle`, with their newest rules about generations and serialisation.
Differences: the epoch; and the record is `disabled` until a term serves the bundle and while the bundle is unloaded, so
that look-ups at other brokers wait instead of sending clients to a broker that refuses them.
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
    """Owns bundles by locks: acquires and releases the locks, and begins and ends the `terms` of this broker
    accordingly. Implements `OwnershipMachine`.

    `incarnation` is in this broker's lock records, and identifies this run of its process.
    """

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
        """Release every lock that this broker still has."""
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
            self._tasks.start(self._clear_for_good(holding, reason), f"clear {owned.bundle}")

    async def until_served(self, bundle: Bundle) -> None:
        """Return at once: by locks a bundle is served as soon as it is acquired."""

    # ---- owners ----

    def owner_cached(self, bundle: Bundle) -> Owner | None:
        """Return the owner if it is known without waiting. None: there is no owner, or it is not known."""
        serving = self._holdings.serving(bundle)
        if serving is not None:
            return serving.owner
        return None if bundle in self._holdings else self._others.get(bundle)

    async def owner_of(self, bundle: Bundle) -> Owner | InTransit | None:
        """Return the owner of the bundle. InTransit: a broker has the lock, but does not serve the bundle. None: no
        broker has the lock.
        """
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
            self._locks.scrub_idle(bundle)  # left by a write of unknown outcome, or just being acquired
            return InTransit(self._terms.broker_id)
        if record.broker_id == self._terms.broker_id:  # left by a former incarnation, until its session expires
            self._others.forget(bundle)
            return InTransit(self._terms.broker_id)
        if record.disabled:
            return InTransit(record.broker_id)
        return record.owner()

    def on_created(self, listener: Callable[[Bundle], None]) -> None:
        """Call `listener` with each bundle whose lock was just created, by this or another broker."""
        self._created_listeners.append(listener)

    # ---- changes ----

    async def acquire(self, bundle: Bundle, reason: str) -> Owner:
        """Acquire `bundle` and begin to serve it; return this broker as the owner. If this broker serves it already,
        return at once.

        Raises:
            BundleNotFoundError: the range is not, or no longer, a bundle of its namespace.
            BundleNotAcquiredError: this broker acquires nothing now, or lost its session in between.
            LockBusyError: another broker owns the bundle.
            MetadataError: the store did not answer.
        """
        async with self._locks.serial(bundle):
            holding = self._holdings.get(bundle)
            if holding is None:
                return (await self._take(bundle, reason)).owner
            if self._course(holding, LockRequest.ACQUIRE) is LockCourse.REFUSE:
                raise BundleNotAcquiredError(
                    bundle,
                    f"on this broker the bundle is {holding.state.value}, so it cannot be acquired now: try again",
                )
            return holding.owner

    async def release(self, bundle: Bundle, reason: str, destination: str | None) -> int | None:
        """Close the bundle's topics and release it; return the number of closed topics, None if this broker does not
        own the bundle.

        With ownership locks, `destination` has no effect: the broker that gets the next look-up chooses the owner, and
        may know the destination (`Affinities`). This waits at most `namespaceBundleUnloadingTimeoutMs` for the topics,
        then releases the bundle anyway; the fence of the ledgers protects topics that are still open.
        """
        async with self._locks.serial(bundle):
            holding = self._holdings.get(bundle)
            if holding is None or self._course(holding, LockRequest.RELEASE) is LockCourse.NOTHING:
                return None
            return await self._unload(holding, reason)

    async def split(self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        """Split `parent`, which this broker serves, into `children` without closing a topic.

        First this broker acquires the children. Then `write_boundaries` is called, which stores them as bundles of the
        namespace by compare-and-set and returns the new bundles of the namespace. Then the children replace the parent
        in one step. If anything fails before the boundaries are written, the children are released and this broker
        continues to serve the parent. If it is not known whether the boundaries were written, the children are released
        and the term of the parent ends.

        Raises:
            BundleNotAcquiredError: this broker does not serve the parent.
            BadVersionError: `write_boundaries` found that another broker has changed the namespace.
        """
        async with self._locks.serial(parent):
            holding = self._holdings.get(parent)
            if holding is None or self._course(holding, LockRequest.SPLIT) is LockCourse.REFUSE:
                raise BundleNotAcquiredError(parent, "this broker does not serve the bundle, so it cannot split it")
            await self._divide(holding, children, write_boundaries)

    async def _take(self, bundle: Bundle, reason: str) -> LockHolding:
        """Acquire the lock of a bundle and serve the bundle; return the object for this term."""
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
        """Acquire the lock of a bundle; return the object for the new term, which has not begun yet (state PREPARED).
        `is_child`: the bundle is a child of a split in progress.
        """
        won = await self._locks.acquire(bundle, is_child=is_child)
        holding = self._holdings.prepare(bundle, won, self._terms.urls.owner(is_local=True, epoch=won.epoch))
        won.lock.expired.add_done_callback(lambda _: self.lost(holding.term, "another session has acquired the lock"))
        return holding

    def _activate(self, holding: LockHolding, reason: str) -> None:
        bundle = holding.term.bundle
        self._others.forget(bundle)
        if request_id := self._hand_overs.taken(bundle):
            epoch = holding.term.epoch
            me = self._terms.broker_id
            log.info("bundle_taken_over", broker=me, bundle=str(bundle), epoch=epoch, request_id=request_id)
        self._holdings.activate(holding, reason)

    async def _unload(self, holding: LockHolding, reason: str) -> int:
        """Close the bundle's topics, end the term, and release the lock; return the number of closed topics."""
        bundle, handovers = holding.term.bundle, self._terms.handovers
        self._holdings.unload(holding)
        log.info("bundle_unloading", bundle=str(bundle), epoch=holding.term.epoch, reason=reason)
        began = asyncio.get_running_loop().time()
        request_id = current_request_id()
        handovers.giving(bundle)
        mark = self._tasks.start(self._locks.mark_disabled(holding.won), f"mark {bundle} disabled")
        publish = self._tasks.start(self._hand_overs.begin(bundle, request_id), f"publish the unload of {bundle}")
        closed = await self._terms.topics.close(bundle, reason)
        handovers.closed(bundle)
        self._holdings.end(holding, reason)
        await asyncio.wait([mark, publish])
        await self._forget(holding)
        handovers.given_up(bundle)
        self._tasks.start(self._hand_overs.end(bundle, request_id), f"end the unload of {bundle}")
        took_ms = round((asyncio.get_running_loop().time() - began) * 1000)
        log.info("bundle_unloaded", bundle=str(bundle), topics=closed, took_ms=took_ms, reason=reason)
        return closed

    async def _divide(self, parent: LockHolding, children: list[Bundle], write_boundaries: WriteBoundaries) -> None:
        def check() -> None:
            if not self._holdings.is_serving(parent):
                raise BundleNotAcquiredError(parent.term.bundle, "this broker lost the bundle during the split")

        parent.splitting = True
        won: list[LockHolding] = []
        try:
            for child in children:
                async with self._locks.serial(child):
                    won.append(await self._acquire_lock(child, is_child=True))
            boundaries = await write_boundaries(check)
        except BaseException as error:
            parent.splitting = False
            if isinstance(error, StoreUnavailableError):  # the boundaries may be written: the parent must not continue
                self.lost(parent.term, "the outcome of the bundle's split is unknown")
            for child_holding in won:
                await self._abandon(child_holding)
            raise
        self._replace_by_children(parent, won, boundaries)
        left_over = [child for child in won if child.state is HoldingState.PREPARED]
        if left_over:  # the parent was lost, so its children cannot be served; only this change clears it
            await self._terms.topics.close(parent.term.bundle, "the bundle was lost during its split")
        await self._forget(parent)
        for child_holding in left_over:
            await self._abandon(child_holding)

    def _replace_by_children(
        self, parent: LockHolding, children: list[LockHolding], boundaries: NamespaceBundles
    ) -> None:
        """After the boundaries were written, replace the parent in one step: cache the new boundaries, begin the
        children's terms, move the topics to them, and end the parent's term. If the parent's term was lost meanwhile,
        the children's terms do not begin.
        """
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
        """Close the topics of a term that ended unexpectedly, and release the lock if this broker still has it. Return
        True after that.

        Return False if this was done before by another change; then the caller must not acquire the bundle again.
        """
        bundle = holding.term.bundle
        async with self._locks.serial(bundle):
            if self._holdings.get(bundle) is not holding:
                return False
            if holding.won.lock.is_held:  # the session continues: look-ups at other brokers must wait
                await self._locks.mark_disabled(holding.won)
            await self._terms.topics.close(bundle, reason)
            await self._forget(holding)
            return True

    async def _clear_for_good(self, holding: LockHolding, reason: str) -> None:
        """Close the topics of a term that ended, release the lock, and report that the bundle was lost."""
        if await self._clear(holding, reason):
            self._terms.report_lost(holding.term.bundle)

    async def _recover(self, holding: LockHolding, reason: str) -> None:
        """Close the topics of a term that ended, release the lock, and try once to acquire the bundle again. If this
        fails, report that the bundle was lost.
        """
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
            self._recover_all("the process was paused")

    def _on_boundaries(self, namespace: NamespaceName, bundles: NamespaceBundles) -> None:
        for holding in self._terms.served_outside(namespace, bundles):
            self.lost(holding.term, "the range is no longer a bundle of the namespace")

    async def _forget(self, holding: LockHolding) -> None:
        """Release the lock, then remove the object for the term. In this order, this broker answers look-ups of the
        bundle with InTransit until the lock is free.
        """
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
