"""Answers requests that terminate topics: they accept no message any more. Source: Pulsar's `PersistentTopicsBase`."""

from typing import Any, Final

from aiohttp import web

from pulsar_barycenter.broker.errors import NotAllowedError
from pulsar_barycenter.broker.rest.messages import message_id
from pulsar_barycenter.broker.rest.ownership import topic_path
from pulsar_barycenter.broker.rest.partition_owners import gather
from pulsar_barycenter.broker.rest.persistent_topics import PersistentTopics
from pulsar_barycenter.broker.rest.requests import json_response, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.naming.topic import TopicName, is_system_topic

_WHAT: Final = "Termination"


class Termination:
    def __init__(self, services: BrokerServices) -> None:
        self._topics = PersistentTopics(services)
        self._owners = self._topics.owners

    async def terminate(self, request: web.Request) -> web.Response:
        """Terminate a topic, and answer with the id of its last message. If the topic was terminated before, the answer
        is the same.
        """
        _require_no_system_topic(topic_of(request))
        topic = await self._topics.without_partitions(request, _WHAT)
        return json_response(message_id(topic, await topic.terminate()))

    async def terminate_partitions(self, request: web.Request) -> web.Response:
        """Terminate all partitions of a topic. If this fails for one of them, others may be terminated; the client can
        send the request again to complete it.
        """
        topic = await self._topics.named(request, _WHAT)
        _require_no_system_topic(topic)
        parts = await self._owners.partitions(topic)
        if not parts:
            raise NotAllowedError(
                f"Termination of a non-partitioned topic is not allowed using partitioned-terminate: {topic} has no "
                "partitions, use terminate"
            )

        async def terminated(part: TopicName) -> Any:
            return await self._owners.call("POST", f"{topic_path(part)}/terminate")

        found = await gather(terminated, parts)
        return json_response({str(part.partition_index): last for part, last in zip(parts, found, strict=True)})


def _require_no_system_topic(topic: TopicName) -> None:
    if is_system_topic(topic):
        raise NotAllowedError(f"Termination of a system topic is not allowed: brokers write to {topic}")
