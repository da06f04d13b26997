"""Records that other programs wrote into a location of ownership records: damaged, newer, or not records at all."""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitStateData, encode_record
from pulsar_barycenter.naming.bundle import Bundle
from support.ownership_places import BUNDLE, OTHER, Place, Play, owned


def newer(record: ServiceUnitStateData) -> bytes:
    """Return a record with fields that a later version of Pulsar may add."""
    fields = msgspec.json.decode(encode_record(record))
    return msgspec.json.encode({**fields, "leaseMillis": 30_000, "labels": {"zone": "b"}})


def test_fields_that_are_not_known_hinder_nobody(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view = await place.view()
        record = events.assigning(None, "a:1", 1)
        await place.write(str(BUNDLE), newer(record))
        await place.until_read(record, BUNDLE, view)
        assert await view.replace(BUNDLE, events.owned(record, 2, 7))

    play(scenario)


DAMAGED = {
    "half a document": b'{"state":"Owned","dstBr',
    "no document": b"\xff\x00\xfe",
    "another type": b'{"state":"Owned","dstBroker":"b:1","versionId":"one"}',
    "a number beyond its bound": b'{"state":"Owned","dstBroker":"b:1","versionId":9223372036854775808}',
    "a name beyond its bound": b'{"state":"Owned","dstBroker":"' + b"b" * 3000 + b'"}',
    "a state that is not known": b'{"state":"Upgrading","dstBroker":"b:1","versionId":2}',
    "owned by nobody": b'{"state":"Owned","versionId":2}',
    "a list": b"[]",
}


@pytest.mark.parametrize("document", DAMAGED.values(), ids=DAMAGED)
def test_what_cannot_be_read_is_told_once_and_hinders_nobody_elsewhere(play: Play, document: bytes) -> None:
    async def scenario(place: Place) -> None:
        with capture_logs() as logs:
            view = await place.view()
            for _ in range(3):
                await place.write(str(BUNDLE), document)
                record = await owned(view, OTHER)
                await place.disturb()
                await asyncio.sleep(12)
                assert view.get(OTHER) == record
                assert view.get(BUNDLE) is None
                assert await view.replace(OTHER, None)
            assert BUNDLE not in view.records.bundles()
            assert view.told(BUNDLE) == []
            assert [log["event"] for log in logs].count("ownership_record_ignored") == 1
        late = await place.view()
        assert late.get(BUNDLE) is None

    play(scenario)


def test_a_good_record_in_place_of_a_damaged_one_is_taken(play: Play) -> None:
    async def scenario(place: Place) -> None:
        view = await place.view()
        await place.write(str(BUNDLE), b"{")
        await asyncio.sleep(1)
        record = events.assigning(None, "a:1", 1)
        await place.write(str(BUNDLE), encode_record(record))
        await place.until_read(record, BUNDLE, view)
        assert await view.replace(BUNDLE, events.owned(record, 2, 7))

    play(scenario)


FOREIGN_KEYS = ["public/default/nothing", "public/default/0x00000000_0x0", "a/b/c/0x00000000_", "public/default", "x"]


@pytest.mark.parametrize("key", FOREIGN_KEYS)
def test_a_key_that_is_no_bundle_is_told_at_most_once_and_ignored(play: Play, key: str) -> None:
    async def scenario(place: Place) -> None:
        with capture_logs() as logs:
            view = await place.view()
            for turn in range(3):
                await place.write(key, encode_record(events.assigning(None, f"b{turn}:1", 1)))
                await asyncio.sleep(12)
            record = await owned(view)
            later = await place.view()
            for each in (view, later):
                assert each.records.items() == [(BUNDLE, record)]
            assert [log["event"] for log in logs].count("ownership_record_ignored") <= 2  # once by either

    play(scenario)


def test_bundles_of_namespaces_with_a_cluster_in_their_name_have_records_too(play: Play) -> None:
    async def scenario(place: Place) -> None:
        bundle = Bundle.parse("tenant/cluster/namespace/0x00000000_0xffffffff")
        view = await place.view()
        record = await owned(view, bundle)
        assert (await place.view()).records.items() == [(bundle, record)]

    play(scenario)
