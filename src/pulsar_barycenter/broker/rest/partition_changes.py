"""Answers requests of other brokers to the owner of a partition, when a partitioned topic is changed. This resource is
Barycenter's own.

    POST /barycenter/v1/partition-changes

takes and returns JSON of `partition_changes`. The request has only the id of the change; the owner reads the change
itself from the metadata store.
"""

from aiohttp import web

from pulsar_barycenter.broker.partition_changes.partition_owner import PartRequest
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_topic_here
from pulsar_barycenter.broker.rest.requests import body_of, json_response
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.naming.topic import TopicName


class PartitionChanges:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def answer(self, request: web.Request) -> web.Response:
        wanted = await body_of(request, PartRequest)
        if wanted is None:
            raise RestError(400, "Send the partition, the id of the change and the step as the JSON body")
        part = TopicName.parse(wanted.topic)
        if not part.is_partition:
            raise RestError(412, f"{part} is not a partition of a topic")
        await require_topic_here(request, self._services, part)
        return json_response(await self._services.partition_owner.answer(part, wanted))
