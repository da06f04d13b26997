"""Splits bundles by the records of the ownership channel; the owner does it, or a broker that replaces a lost one.

    Splitting(parent) ▸ Owned(child) for each ▸ the boundaries are written ▸ children replace parent ▸ Deleted(parent)

No topic is closed. If the broker is lost in between, the record stays Splitting: the leader writes another broker into
it, which finds out from the boundaries how far the split was carried out. If the boundaries were certainly not written,
the split is cancelled, and the parent's term continues. If there are locks (`term_locks`), the lock of the parent is
held until the children have theirs.

Source: Pulsar's `ServiceUnitStateChannelImpl.splitServiceUnit`. Difference: in Pulsar, a failed split stays as it is
until the leader finds it, and is then tried again.
"""

import asyncio
from contextlib import suppress
from itertools import pairwise
from typing import Final, NamedTuple

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError, LookupFailedError
from pulsar_barycenter.broker.namespaces.split_boundaries import write_split
from pulsar_barycenter.broker.ownership.channel.machine.bundle_states import BundleStates, TermRecord
from pulsar_barycenter.broker.ownership.channel.machine.own_life import OwnLife
from pulsar_barycenter.broker.ownership.channel.machine.settling import Settling
from pulsar_barycenter.broker.ownership.channel.machine.steps import NextStep, RequestNotes, offer
from pulsar_barycenter.broker.ownership.channel.machine.taking import Taking
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.broker.ownership.contract import WriteBoundaries
from pulsar_barycenter.broker.ownership.holdings import Holding, HoldingState
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.cluster_logs.request_ids import current_request_id
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.duties import Role, role_of
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.metadata.errors import BadVersionError, LockBusyError, MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle, BundleRange
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.errors import InvalidNameError

log = structlog.get_logger(__name__)

_CHECK_AGAIN_S: Final = 0.25


class PendingSplit(NamedTuple):
    """A split for which a request on this broker waits: `children` are the new bundles, `write_boundaries` writes them
    into the namespace, and `done` gets the result.
    """

    children: list[Bundle]
    write_boundaries: WriteBoundaries
    done: asyncio.Future[None]


class Splitting:
    def __init__(
        self,
        store: MetadataStore,
        terms: LocalTerms[TermRecord],
        records: OwnershipRecords,
        states: BundleStates,
        life: OwnLife,
        taking: Taking,
        settling: Settling,
        notes: RequestNotes,
    ) -> None:
        self._store = store
        self._terms = terms
        self._records = records
        self._states = states
        self._life = life
        self._taking = taking
        self._settling = settling
        self._notes = notes
        self._splits: dict[Bundle, PendingSplit] = {}

    # ---- the request ----

    async def request(
        self, parent: Bundle, children: list[Bundle], write_boundaries: WriteBoundaries, *, within_s: float
    ) -> None:
        """Split a bundle that this broker serves, and wait until it is split.

        Raises:
            BundleNotAcquiredError: this broker does not serve the parent, or lost it in between; or the split did not
                end within `within_s` seconds, and continues in the background.
            BadVersionError: `write_boundaries` found that the namespace has changed; the parent is not split.
            ChannelUnavailableError: the ownership records cannot be written now.
        """
        record = self._records.get(parent)
        is_served = self._terms.holdings.serving(parent) is not None
        if record is None or self._states.role(parent) is not Role.OWNER or not is_served:
            raise BundleNotAcquiredError(parent, "this broker does not serve the bundle, so it cannot split it")
        if parent in self._splits:
            raise BundleNotAcquiredError(parent, "the bundle is being split already")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda future: future.cancelled() or future.exception())  # the caller may have left
        self._splits[parent] = PendingSplit(children, write_boundaries, done)
        try:
            ranges = [str(child.range) for child in children]
            after = events.splitting(record, ranges, self._now_ms(), request_id=current_request_id())
            if not await self._records.put(parent, record, after):
                raise BundleNotAcquiredError(parent, "the ownership of the bundle changed meanwhile: try again")
            await self._until_split(parent, done, within_s)
        finally:
            del self._splits[parent]
            done.cancel()

    async def _until_split(self, parent: Bundle, done: asyncio.Future[None], within_s: float) -> None:
        """Wait for the end of a split that began on this broker.
        Raises:
            BundleNotAcquiredError: the split did not end within `within_s` seconds, or another broker got the bundle,
                for example after this broker lost its session. In both cases the split may still be completed.
            LookupFailedError, MetadataError: the split failed.
        """

        def is_pending() -> bool:
            if done.done():
                return False
            if self._states.role(parent) is not Role.SPLITTER and not self._settling.is_at(parent):
                raise BundleNotAcquiredError(
                    parent,
                    "another broker got the bundle during the split, and it is not known whether that broker completes "
                    "the split: read the bundles of the namespace",
                )
            return True

        done.add_done_callback(lambda _: self._terms.changes.notify(parent))
        failure = "the bundle was not split in time; the split continues"
        await self._terms.wait_while(
            parent, is_pending, within_s=within_s, look_every_s=_CHECK_AGAIN_S, failure=failure
        )
        await done

    # ---- the duty ----

    async def carry_out(self, parent: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Carry out a split that began on this broker, or on a lost broker; return the next step."""
        holding, children = self._terms.holdings.get(parent), _children_of(parent, record)
        pending = self._pending(parent, children)
        if not self._life.has_begun or not children:
            return NextStep.WAIT
        if self._states.guard.lacks(parent):
            try:
                await self._states.guard.number(parent, is_child=lambda: True)
            except LockBusyError:
                return await self._parent_is_locked(parent, record)
        if holding is not None:
            holding.splitting = True
        self._states.children.update(children)
        try:
            for child in children:
                if not await self._own_child(child, 0 if holding is None else holding.won.epoch):
                    return NextStep.RETRY
            boundaries = await self._write_boundaries(parent, record, holding, children, pending)
        except (LookupFailedError, MetadataError) as error:
            return await self._failed(parent, record, children, error)
        else:
            self._replace_by_children(parent, children, boundaries)
        finally:
            self._states.children.difference_update(children)
            if holding is not None:
                holding.splitting = False
        for child in children:
            self._settling.soon(child)
        step = await offer(self._records, parent, record, events.deleted(record, self._now_ms()))
        if pending is not None and not pending.done.done():
            pending.done.set_result(None)
        return step

    async def _parent_is_locked(self, parent: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Abandon a split if a broker that owns bundles by locks acquired the parent before the boundaries were
        written: that broker keeps the parent. Return the next step.
        """
        if await self._states.is_owned_by_lock(parent) and await self._states.is_current(parent):
            log.info(
                "bundle_split_given_up",
                bundle=str(parent),
                reason="a broker that owns bundles by locks has acquired the parent",
            )
            step = await self._taking.free(parent, record)
            pending = self._splits.get(parent)
            if pending is not None and not pending.done.done() and self._records.get(parent) is not record:
                pending.done.set_exception(
                    BundleNotAcquiredError(parent, "a broker that owns bundles by locks has acquired the bundle")
                )
            return step
        return NextStep.RETRY

    def _pending(self, parent: Bundle, children: list[Bundle]) -> PendingSplit | None:
        """Return the split into these children for which a request on this broker waits; None if there is none."""
        pending = self._splits.get(parent)
        return pending if pending is not None and pending.children == children else None

    async def _own_child(self, child: Bundle, above: int) -> bool:
        """Write into the record of a new bundle of a split that this broker owns it, under an epoch higher than
        `above`, that of the parent's term. Return True after that.

        Return False if another broker changed the record meanwhile. Return True without a change if a broker that owns
        bundles by locks has acquired the new bundle: this is possible only after the boundaries were written, so that
        broker keeps it.
        """
        record = self._records.get(child)
        if self._is_ours(child, record, above) and not self._states.guard.lacks(child):
            return True
        try:
            epoch = await self._taking.term_number(child)
        except LockBusyError:
            if await self._states.is_owned_by_lock(child):
                return True
            raise
        me = self._terms.broker_id
        return await self._records.put(child, record, events.claimed(record, me, self._now_ms(), epoch))

    def _is_ours(self, child: Bundle, record: ServiceUnitStateData | None, above: int = 0) -> bool:
        is_owner = role_of(record, self._terms.broker_id) is Role.OWNER
        return is_owner and self._life.may_serve(child, record, above)

    async def _write_boundaries(
        self,
        parent: Bundle,
        record: ServiceUnitStateData,
        holding: Holding[TermRecord] | None,
        children: list[Bundle],
        pending: PendingSplit | None,
    ) -> NamespaceBundles:
        """Write the boundaries of a split into the namespace; return the namespace's new bundles. If a request on this
        broker waits (`pending`), its function writes them. Otherwise this is done on behalf of the broker that began
        the split.
        """

        def check() -> None:
            is_lost = pending is not None and (holding is None or not self._terms.holdings.is_serving(holding))
            if is_lost or self._records.get(parent) is not record:
                raise BundleNotAcquiredError(parent, "the bundle was lost during the split")

        if pending is not None:
            return await pending.write_boundaries(check)
        before = await self._terms.bundles.fresh(parent.namespace)
        if set(children) <= set(before.bundles) or parent not in set(before.bundles):
            return before  # the broker that began the split wrote them
        after, _ = before.split(parent, [child.range.lower for child in children[1:]])
        return await write_split(self._store, self._terms.bundles, before, after, check=check)

    def _replace_by_children(self, parent: Bundle, children: list[Bundle], boundaries: NamespaceBundles) -> None:
        """After the boundaries were written, replace the parent in one step: cache the new boundaries, begin the
        children's terms, move the topics to them, and end the parent's term.

        If this broker did not serve the parent any more, the children's terms do not begin: another broker may have
        served the parent under a higher epoch. Now no broker can serve the parent any more, so this broker will take
        new epochs for the children.
        """
        holdings = self._terms.holdings
        holding = holdings.get(parent)
        was_serving = holding is not None and holdings.is_serving(holding)
        if not was_serving:
            for child in children:
                record = self._records.get(child)
                if record is not None and role_of(record, self._terms.broker_id) is Role.OWNER:
                    self._life.raise_floor(child, record.epoch or 0)
        self._terms.bundles.accept(boundaries)
        if holding is None:
            return
        if holding.state is HoldingState.SERVING:
            holdings.unload(holding)
        for child in children if was_serving else ():
            record = self._records.get(child)
            if record is not None and self._is_ours(child, record) and child not in holdings:
                self._notes.reasons[child] = f"split of {parent}"
                self._taking.activate(child, record)
        if was_serving:
            self._terms.topics.refresh_bundles()
        holdings.end(holding, "split")
        if was_serving:
            holdings.forget(holding)

    async def _failed(
        self, parent: Bundle, record: ServiceUnitStateData, children: list[Bundle], error: Exception
    ) -> NextStep:
        """If the boundaries were certainly not written, cancel the split and continue to serve the parent. Otherwise
        try the split again. Return the next step.
        """
        holdings = self._terms.holdings
        pending, holding = self._pending(parent, children), holdings.get(parent)
        step = NextStep.RETRY
        if isinstance(error, BadVersionError) and holding is not None and holdings.is_serving(holding):
            for child in children:
                with suppress(LookupFailedError):
                    await self._records.put(child, self._records.get(child), None)
            taken_back = events.claimed(record, self._terms.broker_id, self._now_ms(), holding.won.epoch)
            step = await offer(self._records, parent, record, taken_back)
        elif holding is not None and not holding.is_ended and not isinstance(error, LookupFailedError):
            holdings.end(holding, "the outcome of the bundle's split is unknown")
        if pending is not None and not pending.done.done():
            pending.done.set_exception(error)
        log.info("bundle_split_failed", bundle=str(parent), reason=str(error))
        return step

    def _now_ms(self) -> int:
        return self._terms.clock.now_ms()


def _children_of(parent: Bundle, record: ServiceUnitStateData) -> list[Bundle]:
    """Return the children of `parent` in a split record, in order; [] if they do not cover exactly the range of the
    parent.
    """
    try:
        ranges = sorted(
            map(BundleRange.parse, record.split_service_unit_to_dest_broker or ()), key=lambda range_: range_.lower
        )
    except InvalidNameError:
        return []
    edges = [range_.lower for range_ in ranges] + [range_.upper for range_ in ranges[-1:]]
    joined = all(left.upper == right.lower for left, right in pairwise(ranges))
    if len(ranges) < 2 or not joined or (edges[0], edges[-1]) != (parent.range.lower, parent.range.upper):
        return []
    return [Bundle(parent.namespace, range_) for range_ in ranges]
