"""Does what the state of each bundle requires of this broker (its duty), and checks the bundle again until nothing is
required.

This code does not depend on the content of an event. After each change of an ownership record, the session, a boundary
or a term, the bundle is checked: its present state determines the duty. One task for each bundle does this, and all
bundles are checked periodically. So it does not matter which changes a broker missed.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError
from pulsar_barycenter.broker.ownership.channel.machine.bundle_states import BundleStates, TermRecord
from pulsar_barycenter.broker.ownership.channel.machine.giving import Giving
from pulsar_barycenter.broker.ownership.channel.machine.steps import Action, NextStep
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.cluster_logs.request_ids import serving
from pulsar_barycenter.load.service_units.duties import Duty
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle

log = structlog.get_logger(__name__)

_RETRY_S: Final = 0.2
_MAX_RETRY_S: Final = 3.0
_SWEEP_S: Final = 5.0
"""The interval in seconds at which all bundles are checked, even without a notification."""


class Settling:
    """Finds out which duty (next step) the state of a bundle requires of this broker, and does it. `actions` has the
    function for each duty.

    The duty LET_GO is not in `actions`, because its function also accepts a bundle without an ownership record.
    """

    def __init__(
        self, terms: LocalTerms[TermRecord], records: OwnershipRecords, states: BundleStates, giving: Giving
    ) -> None:
        self._terms = terms
        self._records = records
        self._states = states
        self._giving = giving
        self.actions: Mapping[Duty, Action] = {}
        self._at_work: dict[Bundle, asyncio.Task[None]] = {}
        self._due: set[Bundle] = set()
        """Bundles that changed while they were being checked; only used for membership."""
        self._is_stopped = False

    def start(self) -> None:
        self._terms.tasks.start(self._sweep(), "ownership sweep")

    def stop(self) -> None:
        """Check no more bundles."""
        self._is_stopped = True

    def is_at(self, bundle: Bundle) -> bool:
        """Return whether this broker is doing a duty of the bundle now."""
        return bundle in self._at_work

    def soon(self, bundle: Bundle) -> None:
        """Check the bundle in the background, and do its duty. If its state requires nothing, nothing is started. If it
        is being checked already, it is checked again afterwards.
        """
        if bundle in self._at_work:
            self._due.add(bundle)
        elif not self._is_stopped and self._terms.has_identity and self._states.duty(bundle) is not Duty.NOTHING:
            self._at_work[bundle] = self._terms.tasks.start(self._settle(bundle), f"settle {bundle}")

    def all_soon(self) -> None:
        """Schedule a check of every bundle that has an ownership record, or for which this broker has a term or a
        lock.
        """
        bundles = (*self._records.bundles(), *self._terms.holdings.bundles(), *self._states.guard.bundles())
        for bundle in dict.fromkeys(bundles):
            self.soon(bundle)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.all_soon()

    async def _settle(self, bundle: Bundle) -> None:
        pause_s = _RETRY_S
        try:
            while (duty := self._states.duty(bundle)) is not Duty.NOTHING:
                self._due.discard(bundle)
                step = await self._attend(duty, bundle)
                if step is NextStep.LOOK or bundle in self._due:
                    pause_s = _RETRY_S
                elif step is NextStep.WAIT:
                    return
                else:
                    await self._terms.changes.wait(bundle, pause_s)
                    pause_s = min(pause_s * 2, _MAX_RETRY_S)
        finally:
            self._due.discard(bundle)
            del self._at_work[bundle]

    async def _attend(self, duty: Duty, bundle: Bundle) -> NextStep:
        """Do the duty `duty` of this broker for a bundle; return the next step. If it fails, this is logged, and the
        result is RETRY: do it again later.
        """
        record = self._records.get(bundle)
        try:
            with serving(_request_of(duty, record)):
                if duty is Duty.LET_GO or record is None:
                    return await self._giving.let_go(bundle, record)
                return await self.actions[duty](bundle, record)
        except (LookupFailedError, MetadataError) as error:
            log.info("ownership_duty_not_done", bundle=str(bundle), duty=duty.name, reason=str(error))
            return NextStep.RETRY


def _request_of(duty: Duty, record: ServiceUnitStateData | None) -> str:
    """Return the id of the request that caused a duty, for log lines; "" if the change that the request began has
    ended.
    """
    has_ended = record is None or duty in (Duty.LET_GO, Duty.CLAIM_AGAIN)
    return "" if has_ended or record is None else record.request_id or ""
