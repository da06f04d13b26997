"""Requests to write by the leader, as they come over the admin REST: from other brokers, and from whoever else."""

import pytest

from barycenter.broker.cluster.http_peers import LEADER_WRITES_PATH
from barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, LEADER_PATH
from barycenter.broker.cluster.writing_modes import refuse_who_writes_himself
from barycenter.broker.start_errors import MixedWritersError
from barycenter.metadata.leased.requests import Put, Request, encode
from barycenter.metadata.leased.values import leased
from support.rest_cluster import rest_cluster

MODE = {"leader_only_metadata_writes": "true"}
SESSION = "a" * 32


async def test_a_request_of_somebody_who_does_not_read_the_store_changes_nothing() -> None:
    async with rest_cluster(1, **MODE) as cluster:
        for body in (b"", b"{}", b"[" * 500, encode(Request("", 1, "short", 1, 1, Put("/key", b"")))):
            answer = await cluster.expect(400, "POST", LEADER_WRITES_PATH, body)
            assert answer.reason == "The body is no request to write by the leader"
        request = encode(Request("guessed", 1, SESSION, 1, 1, Put("/key", b"")))
        answer = await cluster.expect(200, "POST", LEADER_WRITES_PATH, request)
        assert (answer.json["type"], answer.json["kind"]) == ("failed", "not done")
        assert not await cluster.store.exists("/key")


async def test_a_broker_that_writes_itself_answers_none_and_does_not_start_beside_one_that_does_not() -> None:
    async with rest_cluster(1) as cluster:
        request = encode(Request("guessed", 1, SESSION, 1, 1, Put("/key", b"")))
        await cluster.expect(409, "POST", LEADER_WRITES_PATH, request)
        with pytest.raises(MixedWritersError, match="leaderOnlyMetadataWrites is true here"):
            await refuse_who_writes_himself(cluster.store, LEADER_PATH, within_s=0)
    async with rest_cluster(1, **MODE) as cluster:
        await refuse_who_writes_himself(cluster.store, LEADER_PATH, within_s=0)
        with pytest.raises(MixedWritersError, match="the leader at /loadbalance/leader"):
            await refuse_who_writes_himself(cluster.store, CHANNEL_LEADER_PATH, within_s=0)
        with pytest.raises(MixedWritersError, match="leaderOnlyMetadataWrites is false here"):
            await cluster.add()


async def test_after_an_orderly_stop_nothing_is_left_that_keeps_others_from_starting() -> None:
    async with rest_cluster(2, **MODE) as cluster:
        for broker in cluster.brokers:
            await broker.stop()
        cluster.brokers.clear()
        await cluster.add()


def test_what_is_leased_is_shown_as_it_is_stored() -> None:
    assert leased(SESSION, b"{}") == b'{"leasedTo":"%s"}\n{}' % SESSION.encode()
