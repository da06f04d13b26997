"""Answers requests about the properties of a topic: texts by name, which are stored in the record of the partitioned
topic or of the topic's ledgers.

Source: `updateProperties`, `getProperties` and `removeProperties` of Pulsar's `PersistentTopics`.
"""

from collections.abc import Mapping
from typing import Final

from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.errors import NotAllowedError
from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from pulsar_barycenter.broker.namespaces.resources import partitioned_topic_name
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.namespace_properties import Change, require_few_properties
from pulsar_barycenter.broker.rest.persistent_topics import PersistentTopics
from pulsar_barycenter.broker.rest.requests import body_of, json_response, no_content, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices

_WHAT: Final = "Properties"
_SHADOW_SOURCE: Final = "PULSAR.SHADOW_SOURCE"


def require_no_shadow(properties: Mapping[str, str]) -> None:
    """Check that the properties do not make the topic a shadow of another topic. Pulsar's tool requests this by a
    property.

    Raises:
        NotAllowedError: the properties request a shadow topic; 405.
    """
    if _SHADOW_SOURCE in properties:
        raise NotAllowedError(
            f"Shadow topics are disabled: messages of {properties[_SHADOW_SOURCE]} are not replicated to other topics. "
            "Leave out the property PULSAR.SHADOW_SOURCE"
        )


class TopicProperties:
    def __init__(self, services: BrokerServices) -> None:
        self._resources = services.resources
        self._topics = PersistentTopics(services)

    async def show(self, request: web.Request) -> web.Response:
        topic = await self._topics.named(request, _WHAT)
        found = await self._resources.partitioned_metadata(topic)
        if found is not None:
            return json_response(found.properties or {})
        return json_response((await self._topics.here(request, topic)).ledger.properties)

    async def add(self, request: web.Request) -> web.Response:
        added = await body_of(request, dict[str, str]) or {}
        require_no_shadow(added)
        return await self._change(request, lambda present: {**present, **added})

    async def remove(self, request: web.Request) -> web.Response:
        key = request.rel_url.query.get("key", "")
        if not key:
            raise RestError(400, "The parameter key is required: ?key=<name of the property>")
        return await self._change(
            request, lambda present: {name: value for name, value in present.items() if name != key}
        )

    async def _change(self, request: web.Request, change: Change) -> web.Response:
        """Store new properties of the topic in the path: the result of `change`, which is called with the stored ones.
        Return the answer 204.
        """
        topic = await self._topics.named(request, _WHAT)
        if await self._resources.partitioned_metadata(topic) is not None:
            await self._resources.partitioned_topics.update(
                partitioned_topic_name(topic_of(request)), lambda found: _with(found, change)
            )
            return no_content()
        ledger = (await self._topics.here(request, topic)).ledger
        properties = change(ledger.properties)
        require_few_properties(properties)
        await ledger.replace_properties(properties)
        return no_content()


def _with(found: PartitionedTopicMetadata, change: Change) -> PartitionedTopicMetadata:
    properties = change(found.properties or {})
    require_few_properties(properties)
    return replace(found, properties=properties)
