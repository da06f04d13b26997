"""Decides which brokers may run in the same cluster, by the ways in which they own bundles.

| this broker owns by     | another one owns by     | allowed                                               |
|-------------------------|-------------------------|-------------------------------------------------------|
| locks                   | locks                   | yes                                                   |
| records                 | records                 | yes: all follow the key that names the records' place |
| records and locks       | locks                   | yes: the locks show both which one serves (TermLocks) |
| records alone           | locks                   | no: two brokers would serve one bundle                |

The ownership records are in one place (a topic or the metadata store) for all brokers, which a key of the metadata
store names. A broker that is configured for the other place starts only while a syncer is configured, which moves the
records.

A broker publishes in its registration how it owns bundles. It reads the registrations of the others before it joins,
and again after it is registered itself, so that of two brokers that start at the same time at least one sees the other.
"""

from typing import Final, NamedTuple

import msgspec

from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT, Registration, owns_by_records
from pulsar_barycenter.broker.ownership.channel.places.place import read_place
from pulsar_barycenter.broker.start_errors import MixedOwnershipError, RecordsElsewhereError
from pulsar_barycenter.load.reports.extensible_reports import BrokerLookupData
from pulsar_barycenter.metadata.store import MetadataStore

PLACE: Final = "barycenter.ownership.place"
LOCKS: Final = "barycenter.ownership.locks"
"""Names of properties in the registration of a broker that owns bundles by records."""


class OwnershipMode(NamedTuple):
    """How a broker owns bundles; `place` is the place of its ownership records (topic or metadata store), "" if the
    broker owns by locks and has no records.
    """

    place: str
    holds_locks: bool

    def properties(self) -> dict[str, str]:
        """Return the properties with which a broker that owns bundles by records registers: in which place its records
        are, and whether its terms also need locks.
        """
        return {PLACE: self.place, LOCKS: str(self.holds_locks).lower()}

    def fits(self, other: "OwnershipMode") -> bool:
        """Return whether a broker of this mode and a broker of the mode `other` may run in one cluster at the same
        time.
        """
        if self.place and other.place:
            return True
        return self.holds_locks and other.holds_locks


BY_LOCKS: Final = OwnershipMode("", holds_locks=True)


async def refuse_mixed_ownership(
    store: MetadataStore, registration: Registration, mine: OwnershipMode, me: str, class_name: str, *, is_synced: bool
) -> None:
    """Check that this broker may run together with the registered brokers, and that the ownership records are in the
    place (topic or metadata store) of `mine`. `is_synced`: a syncer moves the records, so their place is not checked.

    Raises:
        RecordsElsewhereError: this broker's configuration does not name the place in which the records are.
        MixedOwnershipError: this broker must not run together with another one.
        MetadataError: the store did not answer.
    """
    if mine.place and not is_synced:
        found = await read_place(store)
        if found is not None and found.place.place.value != mine.place:
            raise RecordsElsewhereError(found.place.place.value, mine.place)
    others = {}
    for broker in sorted(await registration.refresh() - {me}):
        stored = await store.get(f"{BROKERS_ROOT}/{broker}")
        report = await registration.read(broker)
        if stored is None or report is None or report.load_manager_class_name is None:
            continue
        theirs = BY_LOCKS
        if owns_by_records(report):
            properties = msgspec.json.decode(stored.value, type=BrokerLookupData).properties
            theirs = OwnershipMode(properties.get(PLACE, mine.place or PLACE), properties.get(LOCKS) == "true")
        if not mine.fits(theirs):
            others[broker] = f"{report.load_manager_class_name}, {theirs.place or 'locks'}"
    if others:
        raise MixedOwnershipError(class_name, others)
