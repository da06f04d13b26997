"""Unsuitable servers: one that is too old, and one that no longer leads and has not noticed."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from grpc import aio

from pulsar_barycenter.metadata.errors import StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.oxia import oxia_api_pb2 as api
from pulsar_barycenter.metadata.oxia.layout import PARTITION_HASH
from pulsar_barycenter.metadata.oxia.oxia_api_pb2_grpc import OxiaClientServicer, add_OxiaClientServicer_to_server
from pulsar_barycenter.metadata.oxia.oxia_connection import shard_of
from pulsar_barycenter.metadata.oxia.oxia_settings import read_settings
from pulsar_barycenter.metadata.oxia.oxia_store import OxiaStore
from pulsar_barycenter.metadata.store import SessionEvent
from support.metadata_backends import Heard


class Imitation(OxiaClientServicer):
    """Claims to lead, grants one session and keeps it alive; it accepts writes while it `takes` them."""

    def __init__(self, *, knows_overrides=True):
        self.endpoint = ""
        self.takes = True
        self.kept_alive = 0
        self._knows_overrides = knows_overrides
        self._told = asyncio.Event()

    async def GetShardAssignments(self, request, context):  # as the API has it
        every = api.Int32HashRange(min_hash_inclusive=0, max_hash_inclusive=0xFFFFFFFF)
        shard = api.ShardAssignment(shard=3, leader=self.endpoint, int32_hash_range=every)
        yield api.ShardAssignments(namespaces={request.namespace: api.NamespaceShardsAssignment(assignments=[shard])})

    async def CreateSession(self, request, context):
        assert (request.shard, request.session_timeout_ms) == (3, 2_000)
        return api.CreateSessionResponse(session_id=7)

    async def KeepAlive(self, request, context):
        self.kept_alive += 1
        return api.KeepAliveResponse()

    async def CloseSession(self, request, context):
        return api.CloseSessionResponse()

    async def WriteStream(self, requests, context):
        async for request in requests:
            if not self.takes:
                await self._told.wait()  # as one that waits for others to take it, too
            (put,) = request.puts
            version_id = put.override_version_id if self._knows_overrides else 1
            yield api.WriteResponse(puts=[api.PutResponse(version=api.Version(version_id=version_id))])

    async def GetNotifications(self, request, context):
        yield api.NotificationBatch(shard=3, offset=10)
        await self._told.wait()


@asynccontextmanager
async def serving(imitation):
    server = aio.server()
    add_OxiaClientServicer_to_server(imitation, server)
    imitation.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield f"//{imitation.endpoint}"
    finally:
        await server.stop(None)


async def test_a_server_that_cannot_mark_keys_is_refused_before_anything_is_written():
    async with serving(Imitation(knows_overrides=False)) as url:
        with pytest.raises(StoreRefusedError, match=r"Oxia 0\.16 or newer is needed"):
            await OxiaStore.open(read_settings(url), session_timeout_ms=1)


async def test_a_server_that_only_thinks_that_it_leads_keeps_no_session():
    """It answers keep-alives, because it has not noticed; no other server accepts its writes."""
    imitation = Imitation()
    async with serving(imitation) as url:
        store = await OxiaStore.open(read_settings(url), session_timeout_ms=2_000, operation_timeout_s=1)
        events = Heard.session_events(store)
        imitation.takes = False
        await events.until_heard(SessionEvent.SESSION_LOST)
        assert events.told[:2] == [SessionEvent.CONNECTION_LOST, SessionEvent.SESSION_LOST]
        assert imitation.kept_alive > 0
        assert store.session_is_overdue
        with pytest.raises(StoreUnavailableError):
            await store._next_number("/key")
        await store.close()


def test_the_shard_of_our_keys_is_the_one_that_has_their_hash():
    def assigned(*bounds):
        shards = [
            api.ShardAssignment(
                shard=number, int32_hash_range=api.Int32HashRange(min_hash_inclusive=low, max_hash_inclusive=high)
            )
            for number, (low, high) in enumerate(bounds)
        ]
        return api.ShardAssignments(namespaces={"default": api.NamespaceShardsAssignment(assignments=shards)})

    for bounds, number in (
        (((0, PARTITION_HASH - 1), (PARTITION_HASH, 0xFFFFFFFF)), 1),
        (((0, PARTITION_HASH), (PARTITION_HASH + 1, 0xFFFFFFFF)), 0),
    ):
        assert shard_of(assigned(*bounds), "default").shard == number
    assert shard_of(assigned(), "default") is None
    assert shard_of(assigned((0, 0xFFFFFFFF)), "another") is None
