"""Starts compactions, reports their status, and sets the threshold of a namespace for automatic compaction.

The status of a partitioned topic combines its partitions: running if a partition is being compacted; otherwise failed
if the last compaction of a partition failed.
Source: Pulsar's `PersistentTopics` and `Namespaces`. Pulsar has no status of a partitioned topic.
"""

from typing import Annotated, Any, Final

import msgspec
from aiohttp import web
from msgspec.structs import replace

from pulsar_barycenter.broker.errors import CompactionRunningError, NotAllowedError
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import (
    require_namespace,
    require_topic_here,
    require_writable_policies,
    topic_path,
)
from pulsar_barycenter.broker.rest.partition_owners import PartitionOwners, gather, repeatable
from pulsar_barycenter.broker.rest.requests import body_of, json_response, namespace_of, no_content, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.naming.topic import TopicName

_MAX_INT64: Final = 2**63 - 1

Bytes = Annotated[int, msgspec.Meta(ge=-_MAX_INT64, le=_MAX_INT64)]


class Compaction:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources
        self._owners = PartitionOwners(services)

    # ---- topics ----

    async def trigger(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        parts = await self._owners.partitions(topic)
        if not parts:
            await (await self._here(request, topic)).compact()
            return no_content()
        if _together(await gather(self._status_of, parts))["status"] == "RUNNING":
            raise CompactionRunningError(topic)
        await repeatable(  # a compaction that started by itself in between is as good
            lambda part: self._owners.call("PUT", _path(part)), parts, what="queued for compaction", missing=[409]
        )
        return no_content()

    async def status(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        if parts := await self._owners.partitions(topic):
            return json_response(_together(await gather(self._status_of, parts)))
        last = (await self._here(request, topic)).compactions
        return json_response({"status": last.status, "lastError": last.last_error})

    async def _here(self, request: web.Request, topic: TopicName) -> PersistentTopic:
        await require_topic_here(request, self._services, topic)
        loaded = await self._services.registry.get_or_create(topic, create=False)
        if not isinstance(loaded, PersistentTopic):
            raise NotAllowedError(f"Topic {topic} is not persistent, so it cannot be compacted")
        return loaded

    async def _status_of(self, part: TopicName) -> Any:
        return await self._owners.call("GET", _path(part))

    # ---- namespaces ----

    async def threshold(self, request: web.Request) -> web.Response:
        policies = await self._resources.namespaces.get(str(namespace := namespace_of(request)))
        if policies is None:
            raise RestError(404, f"Namespace {namespace} does not exist")
        return no_content() if policies.compaction_threshold is None else json_response(policies.compaction_threshold)

    async def set_threshold(self, request: web.Request) -> web.Response:
        threshold = await body_of(request, Bytes)
        if threshold is None or threshold < 0:
            raise RestError(412, "compactionThreshold must be 0 or more")
        return await self._set(request, threshold)

    async def delete_threshold(self, request: web.Request) -> web.Response:
        return await self._set(request, None)

    async def _set(self, request: web.Request, threshold: int | None) -> web.Response:
        namespace = namespace_of(request)
        await require_writable_policies(self._services)
        if await self._resources.namespaces.get(str(namespace)) is None:
            raise RestError(404, f"Namespace {namespace} does not exist")
        await self._resources.namespaces.update(
            str(namespace), lambda found: replace(found, compaction_threshold=threshold)
        )
        return no_content()


def _path(part: TopicName) -> str:
    return f"{topic_path(part)}/compaction"


def _together(parts: list[dict[str, str]]) -> dict[str, str]:
    for status in ("RUNNING", "ERROR", "SUCCESS"):
        found = [part for part in parts if part["status"] == status]
        if found:
            return {"status": status, "lastError": "; ".join(part["lastError"] for part in found if part["lastError"])}
    return {"status": "NOT_RUN", "lastError": ""}
