"""The state of each bundle for this broker: its role in the bundle's ownership record, and what it has of the bundle.

`DUTIES` has what the broker has to do in each state. This module changes nothing.
"""

from typing import Final, NamedTuple

from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.namespaces.boundaries import needs_no_record
from pulsar_barycenter.broker.ownership.channel.machine.own_life import OwnLife
from pulsar_barycenter.broker.ownership.channel.machine.term_guard import RecordsAlone, TermGuard
from pulsar_barycenter.broker.ownership.channel.records import OwnershipRecords
from pulsar_barycenter.broker.ownership.local_terms import LocalTerms
from pulsar_barycenter.load.service_units.duties import Duty, Held, Role, duty_of, role_of
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, ServiceUnitStateData
from pulsar_barycenter.naming.bundle import Bundle

_WITHOUT_LOCK: Final = frozenset({Role.NONE, Role.EXPECTANT, Role.PREDECESSOR})


class TermRecord(NamedTuple):
    """The epoch and the version that the ownership record of a bundle had when a term began."""

    epoch: int
    version_id: int


class BundleStates:
    """The state of each bundle on this broker, from three sources: the ownership record of the bundle, the term that
    this broker has of it, and its lock.

    `guard` knows whether a term needs a lock in addition to a record, which is so while some brokers own bundles by
    locks. It is replaced when the broker starts, because this is not known before.
    """

    def __init__(self, terms: LocalTerms[TermRecord], records: OwnershipRecords, life: OwnLife) -> None:
        self._terms = terms
        self._records = records
        self._life = life
        self.guard: TermGuard = RecordsAlone(life.number)
        self.children: set[Bundle] = set()
        """Bundles that a split here is making and that are not served yet."""

    def role(self, bundle: Bundle) -> Role:
        """Return what the bundle's ownership record makes this broker: for example its owner, or its next owner. The
        record counts even if this broker wrote it before its present session.
        """
        return role_of(self._records.get(bundle), self._terms.broker_id)

    def duty(self, bundle: Bundle) -> Duty:
        record = self._records.get(bundle)
        role = self.role(bundle)
        if role is Role.OWNER and not self._life.may_serve(bundle, record):
            role = Role.OWNER_WITHOUT_NUMBER
        held = self._held(bundle, record)
        is_unused = held is Held.NOTHING and role in _WITHOUT_LOCK and bundle not in self.children
        if is_unused and self.guard.holds(bundle):
            return Duty.LET_GO
        return duty_of(role, held)

    def _held(self, bundle: Bundle, record: ServiceUnitStateData | None) -> Held:
        holding = self._terms.holdings.get(bundle)
        if holding is None:
            return Held.NOTHING
        if holding.keeps_clients:
            return Held.CLOSED
        is_of_record = record is not None and record.epoch == holding.won.epoch
        if record is None or record.state is not ServiceUnitState.OWNED or not is_of_record:
            return Held.OUTDATED
        return Held.ENDED if holding.is_ended else Held.SERVING

    def is_to_be(self, bundle: Bundle) -> bool:
        """Return whether the bundle is one of the new bundles of a split that is in progress, on this or another
        broker. Such a bundle does not exist yet: it is no bundle of its namespace until the boundaries are written.
        """
        return bundle in self.children or self._splitter_of(bundle) is not None

    def is_split_elsewhere(self, bundle: Bundle) -> bool:
        """Return whether the bundle is one of the new bundles of a split that is in progress on another broker."""
        return self._splitter_of(bundle) not in (None, self._terms.broker_id)

    def _splitter_of(self, bundle: Bundle) -> str | None:
        """Return the broker that is splitting the parent of this bundle now, according to the ownership records; None
        if there is no such split.
        """
        for other, record in self._records.items():
            if (
                record.state is ServiceUnitState.SPLITTING
                and other.namespace == bundle.namespace
                and str(bundle.range) in (record.split_service_unit_to_dest_broker or ())
            ):
                return record.source_broker
        return None

    async def is_current(self, bundle: Bundle) -> bool:
        """Read the boundaries of the namespace from the store, and return whether the bundle is one of its bundles.

        Raises:
            MetadataError: the store did not answer.
        """
        bundles = await self._terms.bundles.fresh(bundle.namespace)
        exists = bundles.version is not None or needs_no_record(bundle.namespace)
        return exists and bundles.find_hash(bundle.range.lower) == bundle

    async def is_owned_by_lock(self, bundle: Bundle) -> bool:
        """Return whether a broker that owns bundles by locks, without ownership records, serves the bundle.

        Raises:
            MetadataError: the store did not answer.
        """
        return isinstance(await self.guard.owner(bundle), Owner)
