"""Racks of bookies and the groups on which namespaces have their ledgers: Pulsar's paths, bodies and codes."""

from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.namespaces.bookie_racks import RACKS
from pulsar_barycenter.broker.rest import bookies
from pulsar_barycenter.naming.topic import TopicName
from support.rest_cluster import rest_cluster

INFO = "/admin/v2/bookies/racks-info"
AFFINITY = "/admin/v2/namespaces/public/ns/persistence/bookieAffinity"
ONE = {"rack": "/r1", "hostname": "one"}
GROUPS = {"bookkeeperAffinityGroupPrimary": "west, east", "bookkeeperAffinityGroupSecondary": "rest"}
NOT_VALID: tuple[tuple[int, str, str, Any], ...] = (
    (412, "b:1", "", {"rack": "/r"}),
    (412, "b:1", "a b", {"rack": "/r"}),
    (412, "b" * 300, "g", {"rack": "/r"}),
    (412, "b:1", "g", {"rack": "/region/r"}),
    (412, "b:1", "g", {"rack": "/" + "r" * 300}),
    (400, "b:1", "g", None),
    (400, "b:1", "g", {"rack": "/"}),
    (400, "b:1", "g", {"hostname": "one"}),
    (400, "b:1", "g", {"rack": "/r", "weight": 3}),
)
"""The status of the answer, the bookie, its group, and the body."""


async def test_bookies_get_racks_in_one_group_each() -> None:
    async with rest_cluster() as cluster:
        assert (await cluster.expect(200, "GET", "/admin/v2/bookies/all")).json == {"bookies": []}
        assert (await cluster.expect(200, "GET", INFO)).json == {}
        await cluster.expect(404, "GET", f"{INFO}/b:1")
        await cluster.expect(204, "POST", f"{INFO}/b:1", ONE, group="west")
        await cluster.expect(204, "POST", f"{INFO}/b:2", {"rack": "/r2"}, group="west")
        assert (await cluster.expect(200, "GET", f"{INFO}/b:1")).json == ONE
        await cluster.expect(204, "POST", f"{INFO}/b:1", ONE, group="east")
        placed = {"west": {"b:2": {"rack": "/r2"}}, "east": {"b:1": ONE}}
        assert (await cluster.expect(200, "GET", INFO)).json == placed
        record = await cluster.store.get(RACKS)
        assert record is not None
        assert msgspec.json.decode(record.value) == placed, "where Pulsar's brokers look for it"
        await cluster.expect(204, "DELETE", f"{INFO}/b:2")
        assert (await cluster.expect(200, "GET", INFO)).json == {"east": {"b:1": ONE}}
        assert "not found: b:2" in (await cluster.expect(404, "DELETE", f"{INFO}/b:2")).reason


async def test_what_others_wrote_of_bookies_is_kept() -> None:
    async with rest_cluster() as cluster:
        others = {"west": {"b:9": {"rack": "/r", "zone": "z"}}, "empty": {}}
        await cluster.store.put(RACKS, msgspec.json.encode(others))
        await cluster.expect(204, "POST", f"{INFO}/b:1", ONE, group="east")
        await cluster.expect(204, "DELETE", f"{INFO}/b:1")
        assert (await cluster.expect(200, "GET", INFO)).json == others
        await cluster.store.put(RACKS, b"[]")
        await cluster.expect(500, "POST", f"{INFO}/b:1", ONE, group="east")
        record = await cluster.store.get(RACKS)
        assert record is not None
        assert record.value == b"[]", "a record that cannot be read is not replaced"


async def test_what_is_not_valid_is_refused_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        for status, bookie, group, body in NOT_VALID:
            await cluster.expect(status, "POST", f"{INFO}/{bookie}", body, group=group)
        assert (await cluster.expect(200, "GET", INFO)).json == {}
        for wrong in (None, {}, {"bookkeeperAffinityGroupPrimary": " ,"}, {"bookkeeperAffinityGroupPrimary": "a b"}):
            await cluster.expect(412, "POST", AFFINITY, wrong)
        await cluster.expect(412, "POST", AFFINITY, {"bookkeeperAffinityGroupPrimary": "g," * 101})
        await cluster.expect(204, "GET", AFFINITY)
        monkeypatch.setattr(bookies, "MOST_BOOKIES", 1)
        await cluster.expect(204, "POST", f"{INFO}/b:1", ONE, group="g")
        assert "At most 1 bookies" in (await cluster.expect(412, "POST", f"{INFO}/b:2", ONE, group="g")).reason
        await cluster.expect(204, "POST", f"{INFO}/b:1", ONE, group="h")


async def test_a_namespace_has_groups_of_bookies_that_its_topics_follow() -> None:
    async with rest_cluster() as cluster:
        await cluster.create_namespace()
        topic, resources = TopicName.parse("persistent://public/ns/t"), cluster.brokers[0].resources
        await cluster.expect(204, "GET", AFFINITY)
        assert (await resources.bookies(topic)).primary == ()
        await cluster.expect(204, "POST", AFFINITY, GROUPS)
        assert (await cluster.expect(200, "GET", AFFINITY)).json == GROUPS
        found = await resources.bookies(topic)
        assert (found.primary, found.secondary) == (("west", "east"), ("rest",))
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ns/0x00000000_0x40000000/split")
        assert (await cluster.expect(200, "GET", AFFINITY)).json == GROUPS, "a split keeps them"
        await cluster.expect(204, "DELETE", AFFINITY)
        await cluster.expect(204, "GET", AFFINITY)
        await cluster.expect(404, "POST", AFFINITY.replace("ns/p", "none/p"), GROUPS)
        await cluster.expect(404, "GET", AFFINITY.replace("ns/p", "none/p"))
