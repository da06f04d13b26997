"""Answers requests about partitioned topics: shows the number of partitions, creates, enlarges and deletes them.

Source: Pulsar's `PersistentTopics` and `PersistentTopicsBase`.
"""

from collections.abc import Iterable
from typing import Annotated, TypeAlias

import msgspec
import structlog
from aiohttp import web
from msgspec import UNSET
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.indispensable import why_topic_stays
from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from pulsar_barycenter.broker.namespaces.resources import most_partitions, partitioned_topic_name
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import (
    require_dispensable,
    require_namespace,
    require_writable_policies,
    topic_path,
)
from pulsar_barycenter.broker.rest.partition_owners import PartitionOwners, tried
from pulsar_barycenter.broker.rest.requests import (
    decoded,
    flag,
    json_response,
    no_content,
    topic_of,
)
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.topics import require_room
from pulsar_barycenter.metadata.errors import AlreadyExistsError
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

_MAX_INT64 = 2**63 - 1

Partitions: TypeAlias = Annotated[int, msgspec.Meta(ge=-_MAX_INT64, le=_MAX_INT64)]


class WithProperties(msgspec.Struct):
    partitions: int
    properties: dict[str, str] | None = None


class PartitionedTopics:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources
        self._owners = PartitionOwners(services)

    async def partitions(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        auto_create = flag(request, "checkAllowAutoCreation")
        found = await self._resources.partitioned_metadata(topic)
        if found is None:
            count = await self._resources.partitions(topic, auto_create=auto_create)
            if not count and not await self._is_known(topic, by_use=auto_create):
                raise RestError(404, f"Topic {topic} not found")
            found = PartitionedTopicMetadata(count)
        return json_response(replace(found, properties=found.properties or {}, change=UNSET))

    async def _is_known(self, topic: TopicName, *, by_use: bool) -> bool:
        if await self._resources.topic_exists(topic):
            return True
        return by_use and (not topic.is_persistent or await self._resources.may_create(topic))

    async def create_partitioned(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        await require_writable_policies(self._services)
        wanted = await _partitions_wanted(request)
        if topic.is_partition:
            raise RestError(412, f"Partitioned topic name must not contain a partition suffix: {topic.local_name}")
        self._require_count(wanted.partitions)
        await self._services.changes.settle(topic)
        await self._require_unused(topic, wanted.partitions)
        await require_room(self._services, topic, wanted.partitions)
        record = PartitionedTopicMetadata(wanted.partitions, False, wanted.properties or {})
        try:
            await self._resources.partitioned_topics.create(partitioned_topic_name(topic), record)
        except AlreadyExistsError:
            raise RestError(409, f"Partitioned topic already exists: {topic}") from None
        await self._create_parts(topic, range(wanted.partitions))
        return no_content()

    def _require_count(self, count: int) -> None:
        if count <= 0:
            raise RestError(406, f"Number of partitions should be more than 0, not {count}")
        limit = most_partitions(self._services.config)
        if count > limit:
            raise RestError(406, f"Number of partitions should be less than or equal to {limit}, not {count}")

    async def _require_unused(self, topic: TopicName, count: int) -> None:
        if await self._resources.partitioned_metadata(topic, fresh=True) is not None:
            raise RestError(409, f"Partitioned topic already exists: {topic}")
        if not topic.is_persistent:
            return
        if await self._resources.topic_exists(topic):
            raise RestError(409, f"This topic already exists: {topic}")
        for existing in await self._resources.persistent_topics(topic.namespace):
            if existing.partition_index >= count and existing.partitioned_name == topic:
                raise RestError(
                    409,
                    f"Topic {existing} already exists, but {topic} would have only {count_of(count, 'partition')}: "
                    "delete the existing topic, or request more partitions",
                )

    async def _create_parts(self, topic: TopicName, indexes: Iterable[int]) -> None:
        """Create the topics of the partitions with these indexes. If one cannot be created, only log this: the
        partition is then created when a client first uses it.

        Source: Pulsar, too, creates the partitions together with the partitioned topic. Its request
        `createMissedPartitions` creates those that are missing.
        """
        if topic.is_persistent:
            parts = [topic.partition(index) for index in indexes]
            for part, error in await tried(lambda part: self._owners.call("PUT", topic_path(part)), parts):
                if error.status != 409:
                    log.info("partition_not_created_ahead", topic=str(part), reason=error.reason)

    async def update_partitioned(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        await require_writable_policies(self._services)
        body = await _partitions_wanted(request)
        if body.properties:
            raise RestError(
                400, "properties cannot be changed together with the number of partitions: send only the number"
            )
        wanted = body.partitions
        now = await self._require_partitioned(topic)
        if wanted <= now.partitions:
            raise RestError(
                406, f"Number of partitions should be more than the existing {now.partitions}, not {wanted}"
            )
        self._require_count(wanted)
        await require_room(self._services, topic, wanted - now.partitions)
        await self._services.changes.enlarge(topic, wanted)
        return no_content()

    async def create_missed_partitions(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        now = await self._require_partitioned(topic)
        await self._create_parts(topic, range(now.partitions))
        return no_content()

    async def delete_partitioned(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        require_dispensable(why_topic_stays(topic))
        await require_namespace(self._services, topic.namespace)
        await require_writable_policies(self._services)
        if topic.is_partition:
            raise RestError(
                412,
                f"{topic} is a partition, not a partitioned topic: "
                f"delete the partitioned topic {topic.partitioned_name.local_name} instead",
            )
        await self._require_partitioned(topic)
        await self._services.changes.delete(topic, force=flag(request, "force"))
        return no_content()

    async def _require_partitioned(self, topic: TopicName) -> PartitionedTopicMetadata:
        found = await self._resources.partitioned_metadata(topic, fresh=True)
        if found is not None:
            return found
        if await self._resources.topic_exists(topic):
            raise RestError(409, f"Topic {topic} is not a partitioned topic")
        raise RestError(404, f"Partitioned topic not found: {topic}")


async def _partitions_wanted(request: web.Request) -> WithProperties:
    body = await request.read()
    if not body.strip():
        raise RestError(406, "Number of partitions is missing: send it as the body, such as 4")
    wanted: int | str | WithProperties = decoded(body, int | str | WithProperties)
    if isinstance(wanted, str):  # Pulsar reads a number in quotes, and clients send it
        wanted = msgspec.convert(wanted, Partitions, strict=False)
    return WithProperties(wanted) if isinstance(wanted, int) else wanted
