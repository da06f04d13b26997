"""Carries out metadata writes that brokers send to the leader if `leaderOnlyMetadataWrites=true`. This resource is
Barycenter's own.

    POST /barycenter/v1/leader-writes

takes and returns JSON of `metadata.leader_writes.write_requests`. A request needs a secret from the metadata store, so
that only clients with access to the store can write.
"""

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.cluster.metadata_writing import NotWrittenByLeaderError
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.services import BrokerServices


class LeaderWritesResource:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def write(self, request: web.Request) -> web.Response:
        try:
            answer = await self._services.control.writing.answer_to(await request.read())
        except NotWrittenByLeaderError:
            raise RestError(
                409,
                "This broker accepts no metadata writes of other brokers, because leaderOnlyMetadataWrites is not true",
            ) from None
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise RestError(400, "The body is not a metadata write for the leader") from None
        return web.Response(body=answer, content_type="application/json")
