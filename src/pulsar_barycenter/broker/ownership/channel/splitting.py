"""Splits of bundles by the records of the ownership channel, carried out by the owner or by whoever took his place.

    Splitting(parent) ▸ Owned(child) for each ▸ the boundaries are written ▸ parent out, children in ▸ Deleted(parent)

No topic is closed. Whoever dies on the way leaves a record that says Splitting: the leader names another broker in it,
which finds out from the boundaries how far it came. A split whose boundaries were certainly not written is taken back:
the parent's term goes on. Where there are locks (`term_locks`), the parent's is held until the parts have theirs.

Source: Pulsar's `ServiceUnitStateChannelImpl.splitServiceUnit`. Different: there a split that fails stays as it is, and
is tried again when the leader finds it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError, LookupFailedError
from pulsar_barycenter.broker.namespaces.split_boundaries import write_split
from pulsar_barycenter.broker.ownership.channel.settling import Settling
from pulsar_barycenter.broker.ownership.channel.steps import NextStep
from pulsar_barycenter.broker.ownership.contract import WriteBoundaries
from pulsar_barycenter.broker.ownership.holdings import HoldingState
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.duties import Role, role_of
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.metadata.errors import BadVersionError, LockBusyError, MetadataError
from pulsar_barycenter.naming.bundle import Bundle, BundleRange
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.errors import InvalidNameError

log = structlog.get_logger(__name__)


class PendingSplit(NamedTuple):
    """A split that somebody here asked for and waits for."""

    children: list[Bundle]
    write_boundaries: WriteBoundaries
    done: asyncio.Future[None]


class Splitting(Settling):
    """The part of `ChannelOwnership` that splits."""

    _splits: dict[Bundle, PendingSplit]

    async def _split(self, parent: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Carry a split out that was begun, here or by a broker that is lost."""
        holding, children = self._holdings.get(parent), _children_of(parent, record)
        pending = self._pending(parent, children)
        if self._since is None or not children:
            return NextStep.WAIT
        if self._locks is not None and not self._is_locked(parent):
            try:
                await self._locks.number(parent, is_child=True)
            except LockBusyError:
                return await self._parent_is_locked(parent, record)

        def check() -> None:
            is_lost = pending is not None and (holding is None or not self._holdings.is_serving(holding))
            if is_lost or self._records.get(parent) is not record:
                raise BundleNotAcquiredError(parent, "it was lost during the split")

        if holding is not None:
            holding.splitting = True
        self._children.update(children)
        try:
            for child in children:
                if not await self._own_child(child, 0 if holding is None else holding.won.epoch):
                    return NextStep.RETRY
            if pending is None:
                boundaries = await self._write_boundaries(parent, children, check)
            else:
                boundaries = await pending.write_boundaries(check)
        except (LookupFailedError, MetadataError) as error:
            return await self._split_failed(parent, record, children, error)
        else:
            self._replace_by_children(parent, children, boundaries)
        finally:
            self._children.difference_update(children)
            if holding is not None:
                holding.splitting = False
        for child in children:
            self._settle_soon(child)
        step = await self._offer(parent, record, events.deleted(record, self._clock.now_ms()))
        if pending is not None and not pending.done.done():
            pending.done.set_result(None)
        return step

    async def _parent_is_locked(self, parent: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Give a split up whose parent went to a broker that owns by locks, before the boundaries were written."""
        if await self._is_owned_by_lock(parent) and await self._is_current(parent):
            log.info("bundle_split_given_up", bundle=str(parent), reason="a broker that owns by locks has the parent")
            step = await self._offer(parent, record, self._override(record, None, 0))
            pending = self._splits.get(parent)
            if pending is not None and not pending.done.done() and self._records.get(parent) is not record:
                pending.done.set_exception(BundleNotAcquiredError(parent, "a broker that owns by locks has it"))
            return step
        return NextStep.RETRY

    def _pending(self, parent: Bundle, children: list[Bundle]) -> PendingSplit | None:
        """Return the split into these children that somebody here waits for."""
        pending = self._splits.get(parent)
        return pending if pending is not None and pending.children == children else None

    async def _own_child(self, child: Bundle, above: int) -> bool:
        """Have the record of a child say that this broker owns it, by a number above that of the parent's term; False:
        another's record is in the way.

        Who owns one by its lock alone could take it only since the boundaries stand, so it is left to him.
        """
        record = self._records.get(child)
        is_ours = role_of(record, self._broker_id) is Role.OWNER and self._is_numbered(child, record, above)
        if is_ours and (self._locks is None or self._is_locked(child)):
            return True
        try:
            epoch = await self._term_number(child)
        except LockBusyError:
            if await self._is_owned_by_lock(child):
                return True
            raise
        return await self._records.put(
            child, record, events.claimed(record, self._broker_id, self._clock.now_ms(), epoch)
        )

    async def _write_boundaries(
        self, parent: Bundle, children: list[Bundle], check: Callable[[], None]
    ) -> NamespaceBundles:
        """Write the boundaries of a split that another broker began, unless he did."""
        before = await self._bundles.fresh(parent.namespace)
        if set(children) <= set(before.bundles) or parent not in set(before.bundles):
            return before
        after, _ = before.split(parent, [child.range.lower for child in children[1:]])
        return await write_split(self._store, self._bundles, before, after, check=check)

    def _replace_by_children(self, parent: Bundle, children: list[Bundle], boundaries: NamespaceBundles) -> None:
        """One step: new boundaries, parent out, children in, topics to the terms of their new bundles.

        Where the parent was not served here until now, children are numbered anew before they are served: from now on
        nobody can serve the parent, but somebody may have.
        """
        holding = self._holdings.get(parent)
        was_serving = holding is not None and self._holdings.is_serving(holding)
        if not was_serving:
            for child in children:
                record = self._records.get(child)
                if record is not None and role_of(record, self._broker_id) is Role.OWNER:
                    self._too_low[child] = record.epoch or 0
        self._bundles.accept(boundaries)
        if holding is None:
            return
        if holding.state is HoldingState.SERVING:
            self._holdings.unload(holding)
        for child in children if was_serving else ():
            record = self._records.get(child)
            is_ours = role_of(record, self._broker_id) is Role.OWNER and self._is_numbered(child, record)
            if record is not None and is_ours and child not in self._holdings:
                self._reasons[child] = f"split of {parent}"
                self._activate(child, record)
        if was_serving and self._topics is not None:
            self._topics.refresh_bundles()
        self._holdings.end(holding, "split")
        if was_serving:
            self._holdings.forget(holding)

    async def _split_failed(
        self, parent: Bundle, record: ServiceUnitStateData, children: list[Bundle], error: Exception
    ) -> NextStep:
        """Go on with the parent if it is certain that nothing was written; else the split is gone on with."""
        pending, holding = self._pending(parent, children), self._holdings.get(parent)
        step = NextStep.RETRY
        if isinstance(error, BadVersionError) and holding is not None and self._holdings.is_serving(holding):
            for child in children:
                with suppress(LookupFailedError):
                    await self._records.put(child, self._records.get(child), None)
            taken_back = events.claimed(record, self._broker_id, self._clock.now_ms(), holding.won.epoch)
            step = await self._offer(parent, record, taken_back)
        elif holding is not None and not holding.is_ended and not isinstance(error, LookupFailedError):
            self._holdings.end(holding, "the outcome of its split is unknown")
        if pending is not None and not pending.done.done():
            pending.done.set_exception(error)
        log.info("bundle_split_failed", bundle=str(parent), reason=str(error))
        return step


def _children_of(parent: Bundle, record: ServiceUnitStateData) -> list[Bundle]:
    """Return the children that a record names, in order; none if they do not make up the parent."""
    try:
        ranges = sorted(
            map(BundleRange.parse, record.split_service_unit_to_dest_broker or ()), key=lambda each: each.lower
        )
    except InvalidNameError:
        return []
    edges = [each.lower for each in ranges] + [each.upper for each in ranges[-1:]]
    joined = all(one.upper == other.lower for one, other in pairwise(ranges))
    if len(ranges) < 2 or not joined or (edges[0], edges[-1]) != (parent.range.lower, parent.range.upper):
        return []
    return [Bundle(parent.namespace, each) for each in ranges]
