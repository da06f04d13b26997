"""The duties (what an ownership record requires of this broker) that end its term as owner of a bundle: it closes the
bundle's topics, then writes this into the ownership record.

**Clients of a transfer** stay connected while their topics are closed, if `loadBalancerMultiPhaseBundleUnload` is set.
They get the address of the next owner when the record says that the next owner owns the bundle.

Source: Pulsar's `ServiceUnitStateChannelImpl` (handleReleaseEvent, handleFreeEvent).
"""

import asyncio
from collections.abc import Callable

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.ownership.channel.machine.bundle_states import BundleStates, TermRecord
from pulsar_barycenter.broker.ownership.channel.machine.record_brokers import RecordBrokers
from pulsar_barycenter.broker.ownership.channel.machine.steps import NextStep, RequestNotes, offer
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.broker.ownership.holdings import Holding, HoldingState
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)


class Giving:
    """The steps with which this broker ends its terms: it hands over, releases or loses bundles. `keeps_clients`
    returns whether the clients of a transferred bundle stay connected until they are sent to the next owner.
    """

    def __init__(
        self,
        terms: LocalTerms[TermRecord],
        records: OwnershipRecords,
        states: BundleStates,
        brokers: RecordBrokers,
        notes: RequestNotes,
        keeps_clients: Callable[[], bool],
    ) -> None:
        self._terms = terms
        self._records = records
        self._states = states
        self._brokers = brokers
        self._notes = notes
        self._keeps_clients = keeps_clients

    async def hand_over(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Close the topics of a bundle that this broker has to transfer, and then write into its record that the bundle
        is assigned to the next owner, which `record` names. Return the next step.
        """
        holding = self._terms.holdings.get(bundle)
        if holding is not None and not holding.keeps_clients:
            keeps = self._keeps_clients()
            closed = await self._close(bundle, holding, f"transfer to {record.dst_broker}", keeps_clients=keeps)
            self._notes.topics_closed[bundle] = closed
            self._notes.reasons.pop(bundle, None)
            if keeps:
                holding.keeps_clients = True
            else:
                self._terms.holdings.forget(holding)
        await self._states.guard.give_back(bundle)
        written = self._terms.topics.written(bundle)
        after = events.handed_over(record, self._terms.clock.now_ms(), written)
        return await offer(self._records, bundle, record, after)

    async def give_up(self, bundle: Bundle, record: ServiceUnitStateData) -> NextStep:
        """Close the topics of a bundle that this broker has to release, and then write into its record that it has no
        owner. Return the next step.
        """
        holding = self._terms.holdings.get(bundle)
        if holding is not None:
            if holding.keeps_clients:
                await self.drop(bundle, holding, "no broker takes over the bundle", None)
            else:
                reason = self._notes.reasons.pop(bundle, "unload")
                closed = await self._close(bundle, holding, reason, keeps_clients=False)
                self._notes.topics_closed[bundle] = closed
                self._terms.holdings.forget(holding)
        await self._states.guard.give_back(bundle)
        return await offer(self._records, bundle, record, events.freed(record, self._terms.clock.now_ms()))

    async def let_go(self, bundle: Bundle, record: ServiceUnitStateData | None) -> NextStep:
        """End this broker's term of a bundle, because the record does not name it as the owner any more, and release
        the lock. First the term ends, then the topics are closed. Return the next step.
        """
        holding = self._terms.holdings.get(bundle)
        if holding is not None:
            owner = self._other_owner(record)
            await self.drop(
                bundle,
                holding,
                "another broker owns the bundle" if owner is not None else "the bundle is not owned by this broker",
                owner,
            )
            self._terms.report_lost(bundle)
        await self._states.guard.give_back(bundle)
        return NextStep.LOOK

    def _other_owner(self, record: ServiceUnitStateData | None) -> Owner | None:
        if record is None or record.state is not ServiceUnitState.OWNED or record.dst_broker == self._terms.broker_id:
            return None
        return self._brokers.get(record.dst_broker or "")

    async def drop(self, bundle: Bundle, holding: Holding[TermRecord], reason: str, owner: Owner | None) -> None:
        """End a term, and remove `holding`, the object for it. `owner` is the new owner, None if it is not known.

        If the topics are already closed for a transfer, or `owner` is known, the clients are sent to `owner`, or
        disconnected if it is None. Otherwise the topics are closed.
        """
        self._terms.holdings.end(holding, reason)
        if holding.keeps_clients or owner is not None:
            await self._terms.topics.finish_transfer(bundle, owner, reason)
        else:
            await self._terms.topics.close(bundle, reason)
        holding.keeps_clients = False
        self._terms.holdings.forget(holding)

    async def _close(self, bundle: Bundle, holding: Holding[TermRecord], reason: str, *, keeps_clients: bool) -> int:
        """Close the bundle's topics, and end the term; return the number of closed topics."""
        if holding.state is HoldingState.SERVING:
            self._terms.holdings.unload(holding)
        log.info("bundle_unloading", bundle=str(bundle), epoch=holding.term.epoch, reason=reason)
        began = asyncio.get_running_loop().time()
        topics = self._terms.topics
        closed = await (topics.begin_transfer(bundle, reason) if keeps_clients else topics.close(bundle, reason))
        self._terms.handovers.closed(bundle)
        self._terms.holdings.end(holding, reason)
        took_ms = round((asyncio.get_running_loop().time() - began) * 1000)
        log.info("bundle_unloaded", bundle=str(bundle), topics=closed, took_ms=took_ms, reason=reason)
        return closed
