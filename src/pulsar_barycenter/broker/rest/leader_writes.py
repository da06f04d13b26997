"""What brokers have written by the leader where `leaderOnlyMetadataWrites=true`: Barycenter's own resource.

    POST /barycenter/v1/leader-writes

takes and returns JSON of `metadata.leader_writes.write_requests`. A request carries a secret that only those know who
can read the metadata store; one without it is not done.
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
            raise RestError(409, "leaderOnlyMetadataWrites is not true at this broker") from None
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise RestError(400, "The body is no request to write by the leader") from None
        return web.Response(body=answer, content_type="application/json")
