"""The record of a bundle's ownership: its JSON, what it refuses, and the brokers that it names."""

import json

import msgspec
import pytest

from pulsar_barycenter.load.service_units.service_unit_state import (
    FIRST_VERSION,
    GREATEST_VERSION,
    LEAST_VERSION,
    MOST_CHILDREN,
    MOST_TOPICS,
    NAME_LENGTH,
    TRANSITIONS,
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    decode_record,
    encode_record,
    next_version,
    state_of,
)

S = ServiceUnitState


def owned(version: int = FIRST_VERSION) -> ServiceUnitStateData:
    return ServiceUnitStateData(S.OWNED, dst_broker="a:1", version_id=version)


def test_a_record_is_written_with_pulsars_names_and_read_again() -> None:
    record = ServiceUnitStateData(
        S.SPLITTING,
        source_broker="a:1",
        split_service_unit_to_dest_broker={"0x00000000_0x80000000": None, "0x80000000_0xffffffff": "b:1"},
        force=True,
        timestamp=1_700_000_000_000,
        version_id=7,
        epoch=9,
        topics=("persistent://a/b/c",),
    )
    document = encode_record(record)
    assert json.loads(document) == {
        "state": "Splitting",
        "sourceBroker": "a:1",
        "splitServiceUnitToDestBroker": {"0x00000000_0x80000000": None, "0x80000000_0xffffffff": "b:1"},
        "force": True,
        "timestamp": 1_700_000_000_000,
        "versionId": 7,
        "epoch": 9,
        "topics": ["persistent://a/b/c"],
    }
    assert decode_record(document) == record


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults() -> None:
    record = decode_record(b'{"state": "Owned", "dstBroker": "a:1", "colour": "red"}')
    assert record == owned()
    assert not record.force
    assert record.epoch is None


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("brokers", [{}, {"dstBroker": ""}, {"dstBroker": " ", "sourceBroker": "\t"}])
def test_only_a_free_bundle_names_no_broker(state: ServiceUnitState, brokers: dict[str, str]) -> None:
    """As in Pulsar, whose leader frees what was being assigned without naming anybody."""
    document = json.dumps({"state": state, **brokers}).encode()
    if state is S.FREE:
        assert decode_record(document).state is S.FREE
    else:
        with pytest.raises(msgspec.DecodeError):
            decode_record(document)


@pytest.mark.parametrize("field", ["versionId", "timestamp", "epoch"])
def test_numbers_are_bounded_by_64_bits(field: str) -> None:
    """Beyond them a record that was read could not be written again."""
    for number in (LEAST_VERSION, GREATEST_VERSION):
        record = decode_record(f'{{"state": "Owned", "dstBroker": "a:1", "{field}": {number}}}'.encode())
        assert decode_record(encode_record(record)) == record
    for number in (LEAST_VERSION - 1, GREATEST_VERSION + 1, 10**40):
        with pytest.raises(msgspec.DecodeError):
            decode_record(f'{{"state": "Owned", "dstBroker": "a:1", "{field}": {number}}}'.encode())


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"dstBroker": "a:1"}',
        b'{"state": null, "dstBroker": "a:1"}',
        b'{"state": "Lost", "dstBroker": "a:1"}',
        b'{"state": "Owned", "dstBroker": 1}',
        b'{"state": "Owned", "dstBroker": "a:1", "force": "yes"}',
        b'{"state": "Owned", "dstBroker": "a:1", "versionId": 1.5}',
        json.dumps({"state": "Owned", "dstBroker": "a" * (NAME_LENGTH + 1)}).encode(),
        json.dumps(
            {
                "state": "Splitting",
                "sourceBroker": "a:1",
                "splitServiceUnitToDestBroker": {str(child): None for child in range(MOST_CHILDREN + 1)},
            }
        ).encode(),
        json.dumps({"state": "Assigning", "dstBroker": "a:1", "topics": ["t"] * (MOST_TOPICS + 1)}).encode(),
        json.dumps({"state": "Assigning", "dstBroker": "a:1", "topics": ["t" * (NAME_LENGTH + 1)]}).encode(),
        b'{"state": "Assigning", "dstBroker": "a:1", "topics": "t"}',
    ],
)
def test_what_is_no_record_is_refused(document: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_record(document)


def test_versions_go_around() -> None:
    assert next_version(None) == FIRST_VERSION
    assert next_version(owned(4)) == 5
    assert next_version(owned(GREATEST_VERSION)) == LEAST_VERSION


def test_no_record_is_init() -> None:
    assert state_of(None) is S.INIT
    assert state_of(owned()) is S.OWNED


def test_states_are_at_rest_active_or_in_flight() -> None:
    assert {state for state in S if state.is_in_flight} == {S.ASSIGNING, S.RELEASING, S.SPLITTING}
    assert {state for state in S if state.is_active} == {S.OWNED, S.ASSIGNING, S.RELEASING, S.SPLITTING}


@pytest.mark.parametrize("storage", StorageType)
def test_every_state_has_its_row_and_leads_back_to_ownership(storage: StorageType) -> None:
    """From every state Owned can be reached; from Deleted through a tombstone, after which it may begin again."""
    table = TRANSITIONS[storage]
    assert set(table) == set(S)
    for state in S:
        reached, frontier = {state}, [state]
        while frontier:
            for following in table[frontier.pop()] - reached:
                reached.add(following)
                frontier.append(following)
        assert S.OWNED in reached


@pytest.mark.parametrize(
    ("state", "destination", "source", "owner"),
    [
        (S.OWNED, "b", "a", "b"),
        (S.ASSIGNING, "b", "a", "b"),
        (S.RELEASING, "b", "a", "b"),
        (S.RELEASING, None, "a", None),
        (S.RELEASING, "", "a", None),
        (S.SPLITTING, None, "a", "a"),
        (S.FREE, None, "a", None),
        (S.DELETED, None, "a", None),
    ],
)
def test_the_owner_is_who_has_it_or_is_about_to(
    state: ServiceUnitState, destination: str | None, source: str | None, owner: str | None
) -> None:
    record = ServiceUnitStateData(state, dst_broker=destination, source_broker=source)
    assert record.owner == owner
    assert record.is_transfer == bool(destination and source)
