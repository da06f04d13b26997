"""The records of each change follow each other."""

import pytest

from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.conflicts import conflict
from pulsar_barycenter.load.service_units.service_unit_state import (
    FIRST_VERSION,
    GREATEST_VERSION,
    LEAST_VERSION,
    MOST_TOPICS,
    TOPICS_LENGTH,
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    decode_record,
    encode_record,
)

S = ServiceUnitState


@pytest.mark.parametrize("storage", StorageType)
def test_a_bundle_goes_through_all_of_its_changes(storage: StorageType) -> None:
    assigned = events.assigning(None, "a", 1)
    owned = events.owned(assigned, 2, 7)
    going = events.releasing(owned, "b", 3)
    handed = events.handed_over(going, 4)
    moved = events.owned(handed, 5, 8)
    leaving = events.releasing(moved, None, 6)
    free = events.freed(leaving, 7)
    again = events.assigning(free, "c", 8)
    mine = events.owned(again, 9, 9)
    claimed = events.claimed(mine, "c", 10, 10)
    parting = events.splitting(claimed, ["0x00000000_0x80000000", "0x80000000_0xffffffff"], 11)
    gone = events.deleted(parting, 12)
    records = [assigned, owned, going, handed, moved, leaving, free, again, mine, claimed, parting, gone]
    before = None
    for number, record in enumerate(records, FIRST_VERSION):
        assert conflict(before, record, storage) is None
        assert (record.version_id, record.timestamp) == (number, number)
        before = record
    assert [(one.state, one.dst_broker, one.source_broker) for one in records] == [
        (S.ASSIGNING, "a", None),
        (S.OWNED, "a", None),
        (S.RELEASING, "b", "a"),
        (S.ASSIGNING, "b", "a"),
        (S.OWNED, "b", "a"),
        (S.RELEASING, None, "b"),
        (S.FREE, None, "b"),
        (S.ASSIGNING, "c", None),
        (S.OWNED, "c", None),
        (S.OWNED, "c", None),
        (S.SPLITTING, None, "c"),
        (S.DELETED, None, "c"),
    ]
    assert [one.epoch for one in records if one.state is S.OWNED] == [7, 8, 9, 10]
    assert [one.force for one in records] == [one is claimed for one in records]
    assert parting.split_service_unit_to_dest_broker == {"0x00000000_0x80000000": None, "0x80000000_0xffffffff": None}


def test_who_hands_over_names_as_many_topics_as_a_record_may() -> None:
    going = events.releasing(events.owned(events.assigning(None, "a", 1), 2, 7), "b", 3)
    assert events.handed_over(going, 4).topics is None
    assert events.handed_over(going, 4, ["t"]).topics == ("t",)
    short = [f"t{number}" for number in range(MOST_TOPICS + 1)]
    assert events.handed_over(going, 4, short).topics == tuple(short[:-1])
    long = ["x" * (TOPICS_LENGTH // 2), "y" * (TOPICS_LENGTH // 2), "z"]
    assert events.handed_over(going, 4, long).topics == tuple(long[:-1])
    handed = events.handed_over(going, 4, short)
    assert decode_record(encode_record(handed)) == handed
    assert events.owned(handed, 5, 8).topics is None


@pytest.mark.parametrize("storage", StorageType)
def test_a_child_is_claimed_before_anybody_has_it(storage: StorageType) -> None:
    claim = events.claimed(None, "a", 1, 7)
    assert conflict(None, claim, storage) is None
    assert conflict(claim, events.claimed(None, "b", 2, 8), storage) is not None


def test_an_owner_that_goes_hands_over_by_force() -> None:
    owned = ServiceUnitStateData(S.OWNED, "a", "z", version_id=GREATEST_VERSION)
    going = events.releasing(owned, "b", 3, force=True)
    assert going == ServiceUnitStateData(S.RELEASING, "b", "a", None, True, 3, LEAST_VERSION)
    assert conflict(owned, going, StorageType.METADATA_STORE) is None


@pytest.mark.parametrize("nobody", ["", "b"])
def test_a_change_that_somebody_else_began_can_be_ended(nobody: str) -> None:
    """Where ours names no broker there may be an empty name, or another broker's."""
    parting = ServiceUnitStateData(S.SPLITTING, nobody, "a", {}, version_id=4)
    leaving = ServiceUnitStateData(S.RELEASING, "", "a", version_id=4)
    for storage in StorageType:
        assert conflict(parting, events.deleted(parting, 1), storage) is None
        assert conflict(leaving, events.freed(leaving, 1), storage) is None
