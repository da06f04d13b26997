"""Which brokers may run beside each other, by the way in which they keep ownership.

| this broker owns by     | beside one that owns by | allowed                                             |
|-------------------------|-------------------------|-----------------------------------------------------|
| locks                   | locks                   | yes                                                 |
| records                 | records                 | yes: all follow the key that says where these are   |
| records and locks       | locks                   | yes: the locks say for both who serves (TermLocks)  |
| records alone           | locks                   | no: two brokers would serve one bundle              |

The records are in one place for all brokers, the one that a key of the metadata store names. A broker that is
configured for the other place starts only while a syncer is set, which moves them.

A broker says how it keeps ownership in its registration. It looks at the others' before it joins, and again once it is
registered itself, so that of two that start at once one sees the other.
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
"""Properties of the registration of a broker that owns by records."""


class OwnershipMode(NamedTuple):
    """How a broker keeps ownership; `place` is that of its records, empty if it owns by locks alone."""

    place: str
    holds_locks: bool

    def properties(self) -> dict[str, str]:
        """Return what a broker that owns by records says of it in its registration."""
        return {PLACE: self.place, LOCKS: str(self.holds_locks).lower()}

    def fits(self, other: "OwnershipMode") -> bool:
        """Tell whether both may run in one cluster."""
        if self.place and other.place:
            return True
        return self.holds_locks and other.holds_locks


BY_LOCKS: Final = OwnershipMode("", holds_locks=True)


async def refuse_mixed_ownership(
    store: MetadataStore, registration: Registration, mine: OwnershipMode, me: str, class_name: str, *, is_synced: bool
) -> None:
    """Look at the other registered brokers, and at where the records are; `is_synced` tells whether they are moved.

    Raises:
        RecordsElsewhereError: the records are in the place that this broker is not configured for.
        MixedOwnershipError: one of them keeps ownership so that this broker may not run beside it.
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
            said = msgspec.json.decode(stored.value, type=BrokerLookupData).properties
            theirs = OwnershipMode(said.get(PLACE, mine.place or PLACE), said.get(LOCKS) == "true")
        if not mine.fits(theirs):
            others[broker] = f"{report.load_manager_class_name}, {theirs.place or 'locks'}"
    if others:
        raise MixedOwnershipError(class_name, others)
