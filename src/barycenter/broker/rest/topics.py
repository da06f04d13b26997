"""Topics: lists, creation, partitions, unload, deletion, subscriptions. Figures are in `topic_figures`.

What concerns one topic runs on its owner; what concerns a partitioned topic asks the owner of each partition.

Source: Pulsar's `PersistentTopics`, `NonPersistentTopics` and `PersistentTopicsBase`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Annotated, Any, TypeAlias

import msgspec
from aiohttp import web
from msgspec.structs import replace

from barycenter.admin.errors import AdminRequestError
from barycenter.broker.errors import NotAllowedError
from barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from barycenter.broker.namespaces.resources import most_partitions, partitioned_topic_name
from barycenter.broker.rest.errors import RestError
from barycenter.broker.rest.leader_requests import by_leader
from barycenter.broker.rest.namespace_deletion import CONCURRENT_REQUESTS
from barycenter.broker.rest.openapi import FLAG, TEXT, takes
from barycenter.broker.rest.ownership import (
    current_bundle,
    go_on_if_local,
    require_namespace,
    require_topic_here,
    require_writable_policies,
    subscription_path,
    topic_path,
)
from barycenter.broker.rest.requests import (
    body_of,
    decoded,
    flag,
    json_response,
    namespace_of,
    no_content,
    subscription_of,
    topic_of,
)
from barycenter.broker.rest.services import BrokerServices
from barycenter.broker.rest.topic_grants import forget_grants
from barycenter.broker.topics.persistent_topic import LATEST, PersistentTopic
from barycenter.ledger.managed.compacted_topic import COMPACTION_CURSOR
from barycenter.ledger.position import EARLIEST, Position
from barycenter.metadata.errors import AlreadyExistsError, NotFoundError
from barycenter.naming.namespace import NamespaceName
from barycenter.naming.topic import TopicName, is_system_topic

DOMAIN = "/admin/v2/{domain:persistent|non-persistent}/{tenant}/{namespace}"
TOPIC = DOMAIN + "/{topic:[^/]+}"
_LAST = 2**63 - 1


class _MessageId(msgspec.Struct, rename="camel"):
    ledger_id: int
    entry_id: int


Partitions: TypeAlias = Annotated[int, msgspec.Meta(ge=-_LAST, le=_LAST)]


class WithProperties(msgspec.Struct):
    partitions: int
    properties: dict[str, str] | None = None


class Topics:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources
        self._registry = services.registry

    def routes(self) -> list[web.RouteDef]:
        subscription = TOPIC + "/subscription/{subscription:[^/]+}"
        return [
            web.get(DOMAIN, self.names),
            web.get(DOMAIN + "/partitioned", self.partitioned_names),
            web.get("/admin/v2/non-persistent/{tenant}/{namespace}/{range:0[xX].*}", self.names_in_bundle),
            web.put(TOPIC, self.create),
            web.delete(TOPIC, self.delete),
            web.put(TOPIC + "/unload", self.unload),
            web.get(TOPIC + "/partitions", self.partitions),
            web.put(TOPIC + "/partitions", self.create_partitioned),
            web.post(TOPIC + "/partitions", self.update_partitioned),
            web.delete(TOPIC + "/partitions", self.delete_partitioned),
            web.post(TOPIC + "/createMissedPartitions", self.create_missed_partitions),
            web.get(TOPIC + "/subscriptions", self.subscriptions),
            web.put(subscription, self.create_subscription),
            web.delete(subscription, self.delete_subscription),
        ]

    # ---- lists ----

    @takes(bundle=TEXT, includeSystemTopic=FLAG)
    async def names(self, request: web.Request) -> web.Response:
        """List topics, partitions one by one; `bundle` shows those of one range."""
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        if request.match_info["domain"] == "persistent":
            names = await self._resources.topics_of_namespace(namespace, "PERSISTENT")
        else:
            names = await self._non_persistent_names(namespace)
        topics = [TopicName.parse(name) for name in names]
        wanted = request.rel_url.query.get("bundle")
        if wanted:
            bundle = await current_bundle(self._services, namespace, wanted)
            topics = [topic for topic in topics if bundle.contains(topic)]
        return json_response(_shown(topics, include_system=flag(request, "includeSystemTopic")))

    async def _non_persistent_names(self, namespace: NamespaceName) -> list[str]:
        """Ask the owner of each bundle: only it has its non-persistent topics, in memory."""
        bundles = await self._services.control.namespaces.bundles_of_now(namespace)
        found = await self._gather(
            lambda range_text: self._services.admin.call(
                "GET", self._services.web_url, f"/admin/v2/non-persistent/{namespace}/{range_text}"
            ),
            [str(bundle.range) for bundle in bundles.bundles],
        )
        return sorted(name for names in found for name in names or ())

    async def names_in_bundle(self, request: web.Request) -> web.Response:
        """List the non-persistent topics that the owner of a bundle has in memory."""
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        bundle = await current_bundle(self._services, namespace, request.match_info["range"])
        answer = await self._services.control.lookup.lookup_bundle(bundle, read_only=True)
        if answer is None:
            return no_content()
        go_on_if_local(request, self._services, answer, f"ServiceUnit:{bundle}")
        loaded = self._registry.topics_of_bundle(bundle)
        return json_response(sorted(str(topic) for topic in loaded if not topic.is_persistent))

    @takes(includeSystemTopic=FLAG)
    async def partitioned_names(self, request: web.Request) -> web.Response:
        """List the partitioned topics by their base names."""
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        topics = await self._resources.partitioned_topics_of(namespace, request.match_info["domain"])
        return json_response(_shown(topics, include_system=flag(request, "includeSystemTopic")))

    # ---- one topic ----

    @takes(dict[str, str], authoritative=FLAG)
    async def create(self, request: web.Request) -> web.Response:
        """Create a topic on its owner; the body may give properties."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        properties = await body_of(request, dict[str, str])
        await self._require_legal_partition(topic)
        if await self._resources.partitioned_metadata(topic) is not None or await self._resources.topic_exists(topic):
            raise RestError(409, f"This topic already exists: {topic}")
        await self._require_room(topic, 1)
        await require_topic_here(request, self._services, topic)
        if self._registry.get_loaded(topic) is not None:
            raise RestError(409, f"This topic already exists: {topic}")
        created = await self._registry.create(topic)
        if properties and isinstance(created, PersistentTopic):
            await created.ledger.set_properties(properties)
        return no_content()

    async def _require_legal_partition(self, topic: TopicName) -> None:
        if not topic.is_partition:
            return
        base = await self._resources.partitioned_metadata(topic.partitioned_name, fresh=True)
        if base is None or topic.partition_index >= base.partitions:
            raise RestError(
                412,
                f"Topic name {topic} contains a partition suffix, and {topic.partitioned_name} is no partitioned "
                "topic with such a partition. Create or enlarge the partitioned topic, or take another name.",
            )

    async def _require_room(self, topic: TopicName, new: int) -> None:
        policies = await self._resources.namespaces.get(str(topic.namespace))
        if policies is None or is_system_topic(topic) or not topic.is_persistent:
            return
        if policies.deleted:
            raise RestError(412, f"Namespace {topic.namespace} is being deleted")
        if not await self._resources.has_room_for_topics(topic.namespace, policies, new):
            raise RestError(412, f"Exceed maximum number of topics in namespace {topic.namespace}")

    @takes(force=FLAG, authoritative=FLAG)
    async def delete(self, request: web.Request) -> web.Response:
        """Delete a topic; with `force` in spite of clients and subscriptions."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        if await self._resources.partitioned_metadata(topic) is not None:
            raise RestError(409, f"{topic} is a partitioned topic: delete it at …/{topic.local_name}/partitions")
        await require_topic_here(request, self._services, topic)
        await self._registry.delete_topic(topic, force=flag(request, "force"))
        await forget_grants(self._resources, topic)
        return no_content()

    @takes(authoritative=FLAG)
    async def unload(self, request: web.Request) -> web.Response:
        """Close the topic, or each partition; ownership stays, and the next use loads it again."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        if await self._partition_count(topic):
            await self._of_partitions(
                topic, lambda part: self._call("PUT", f"{topic_path(part)}/unload"), missing=[404]
            )
            return no_content()
        await require_topic_here(request, self._services, topic)
        if not await self._registry.close_topic(topic) and not await self._resources.topic_exists(topic):
            raise RestError(404, f"Topic {topic} not found")
        return no_content()

    # ---- partitioned topics ----

    @takes(checkAllowAutoCreation=FLAG)
    async def partitions(self, request: web.Request) -> web.Response:
        """Show the number of partitions; `checkAllowAutoCreation` may make the topic a partitioned one."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        auto_create = flag(request, "checkAllowAutoCreation")
        found = await self._resources.partitioned_metadata(topic)
        if found is None:
            count = await self._resources.partitions(topic, auto_create=auto_create)
            if not count and not await self._is_known(topic, by_use=auto_create):
                raise RestError(404, f"Topic {topic} not found")
            found = PartitionedTopicMetadata(count)
        return json_response(replace(found, properties=found.properties or {}))

    async def _is_known(self, topic: TopicName, *, by_use: bool) -> bool:
        if await self._resources.topic_exists(topic):
            return True
        return by_use and (not topic.is_persistent or await self._resources.may_create(topic))

    @by_leader
    @takes(Partitions | WithProperties)
    async def create_partitioned(self, request: web.Request) -> web.Response:
        """Create a partitioned topic; the body is the number of partitions."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        await require_writable_policies(self._services)
        wanted = await _partitions_wanted(request)
        if topic.is_partition:
            raise RestError(412, f"Partitioned topic name must not contain a partition suffix: {topic.local_name}")
        self._require_count(wanted.partitions)
        await self._require_unused(topic, wanted.partitions)
        await self._require_room(topic, wanted.partitions)
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
                raise RestError(409, f"{existing} already exists, although {topic} is to have {count} partitions")

    async def _create_parts(self, topic: TopicName, indexes: Iterable[int]) -> None:
        """Create partition topics, as far as possible: `createMissedPartitions` makes up for the rest."""
        if topic.is_persistent:
            parts = [topic.partition(index) for index in indexes]
            await self._gather(
                lambda part: self._call("PUT", topic_path(part)), parts, missing=(404, 409, 412, 500, 503)
            )

    @by_leader
    @takes(Partitions | WithProperties)
    async def update_partitioned(self, request: web.Request) -> web.Response:
        """Add partitions; each new one gets the subscriptions of partition 0."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        await require_writable_policies(self._services)
        wanted = (await _partitions_wanted(request)).partitions
        now = await self._require_partitioned(topic)
        if wanted <= now.partitions:
            raise RestError(
                406, f"Number of partitions should be more than the existing {now.partitions}, not {wanted}"
            )
        self._require_count(wanted)
        await self._require_room(topic, wanted - now.partitions)
        await self._resources.partitioned_topics.update(
            partitioned_topic_name(topic), lambda found: replace(found, partitions=max(wanted, found.partitions))
        )
        new = range(now.partitions, wanted)
        await self._create_parts(topic, new)
        if topic.is_persistent:
            await self._copy_subscriptions(topic, new)
        return no_content()

    async def _copy_subscriptions(self, topic: TopicName, indexes: Iterable[int]) -> None:
        first = await self._gather(
            lambda part: self._call("GET", f"{topic_path(part)}/subscriptions"), [topic.partition(0)], missing=[404]
        )
        names = [name for name in first[0] or () if name != COMPACTION_CURSOR]
        paths = [subscription_path(topic.partition(index), name) for index in indexes for name in names]
        earliest = {"ledgerId": -1, "entryId": -1}
        await self._gather(lambda path: self._call("PUT", path, earliest), paths, missing=[409])

    async def create_missed_partitions(self, request: web.Request) -> web.Response:
        """Create the partitions that are missing."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        now = await self._require_partitioned(topic)
        await self._create_parts(topic, range(now.partitions))
        return no_content()

    @by_leader
    @takes(force=FLAG)
    async def delete_partitioned(self, request: web.Request) -> web.Response:
        """Delete a partitioned topic with its partitions."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        await require_writable_policies(self._services)
        if topic.is_partition:
            raise RestError(412, f"{topic} is one partition: delete {topic.partitioned_name.local_name} instead")
        await self._require_partitioned(topic)
        name = partitioned_topic_name(topic)
        records = self._resources.partitioned_topics
        await records.update(name, lambda found: replace(found, deleted=True))
        force = "true" if flag(request, "force") else "false"
        try:
            await self._of_partitions(
                topic, lambda part: self._call("DELETE", topic_path(part), params={"force": force}), missing=[404]
            )
        except AdminRequestError:
            await records.update(name, lambda found: replace(found, deleted=False))
            raise
        with suppress(NotFoundError):  # somebody else deleted it at the same time
            await records.delete(name)
        await forget_grants(self._resources, topic)
        return no_content()

    async def _require_partitioned(self, topic: TopicName) -> PartitionedTopicMetadata:
        found = await self._resources.partitioned_metadata(topic, fresh=True)
        if found is not None:
            return found
        if await self._resources.topic_exists(topic):
            raise RestError(409, f"Topic {topic} is not a partitioned topic")
        raise RestError(404, f"Partitioned topic not found: {topic}")

    # ---- subscriptions ----

    @takes(authoritative=FLAG)
    async def subscriptions(self, request: web.Request) -> web.Response:
        """List the subscriptions; of a partitioned topic those of all partitions."""
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        if await self._partition_count(topic):
            found = await self._of_partitions(
                topic, lambda part: self._call("GET", f"{topic_path(part)}/subscriptions"), missing=[404]
            )
            return json_response(sorted({name for names in found for name in names or ()}))
        await require_topic_here(request, self._services, topic)
        loaded = await self._registry.get_or_create(topic, create=False)
        return json_response(sorted(self._registry.topic_stats(loaded)["subscriptions"]))

    @takes(_MessageId | str, authoritative=FLAG)
    async def create_subscription(self, request: web.Request) -> web.Response:
        """Create a subscription at a message id, at "earliest" or "latest"."""
        topic = topic_of(request)
        name = subscription_of(request)
        await require_namespace(self._services, topic.namespace)
        if not topic.is_persistent:
            raise NotAllowedError("Create subscription on non-persistent topic can only be done through client")
        body = await request.read()
        if await self._partition_count(topic):
            value = msgspec.Raw(body) if body.strip() else None
            await self._of_partitions(topic, lambda part: self._call("PUT", subscription_path(part, name), value))
            return no_content()
        position = _position(body)
        await require_topic_here(request, self._services, topic)
        loaded = await self._registry.get_or_create(topic, create=True)
        assert isinstance(loaded, PersistentTopic)
        async with loaded.lock:
            if name in loaded.subscriptions:
                raise RestError(409, f"Subscription {name!r} already exists for topic {topic}")
            await loaded.create_subscription(name, position)
        return no_content()

    @takes(force=FLAG, authoritative=FLAG)
    async def delete_subscription(self, request: web.Request) -> web.Response:
        """Delete a subscription; with `force` in spite of consumers."""
        topic = topic_of(request)
        name = subscription_of(request)
        force = flag(request, "force")
        await require_namespace(self._services, topic.namespace)
        if await self._partition_count(topic):
            params = {"force": "true" if force else "false"}
            await self._of_partitions(
                topic, lambda part: self._call("DELETE", subscription_path(part, name), params=params), missing=[404]
            )
            return no_content()
        await require_topic_here(request, self._services, topic)
        loaded = await self._registry.get_or_create(topic, create=False)
        await loaded.delete_subscription(name, force=force)
        return no_content()

    # ---- asking the owners of partitions ----

    async def _partition_count(self, topic: TopicName) -> int:
        found = None if topic.is_partition else await self._resources.partitioned_metadata(topic)
        return 0 if found is None else found.partitions

    async def _call(self, method: str, path: str, body: Any = None, *, params: dict[str, str] | None = None) -> Any:
        return await self._services.admin.call(method, self._services.web_url, path, params=params, body=body)

    async def _of_partitions(
        self, topic: TopicName, ask: Callable[[TopicName], Awaitable[Any]], *, missing: Iterable[int] = ()
    ) -> list[Any]:
        count = await self._partition_count(topic)
        return await self._gather(ask, [topic.partition(index) for index in range(count)], missing=missing)

    async def _gather(
        self, ask: Callable[[Any], Awaitable[Any]], about: Iterable[Any], *, missing: Iterable[int] = ()
    ) -> list[Any]:
        """Ask about each, some at a time; a refusal with a status in `missing` counts as the answer None."""
        limit = asyncio.Semaphore(CONCURRENT_REQUESTS)
        forgiven = frozenset(missing)

        async def one(item: Any) -> Any:
            async with limit:
                try:
                    return await ask(item)
                except AdminRequestError as error:
                    if error.status not in forgiven:
                        raise
                    return None

        return list(await asyncio.gather(*(one(item) for item in about)))


def _shown(topics: Iterable[TopicName], *, include_system: bool) -> list[str]:
    return sorted(str(topic) for topic in topics if include_system or not is_system_topic(topic))


async def _partitions_wanted(request: web.Request) -> WithProperties:
    body = await request.read()
    if not body.strip():
        raise RestError(406, "Number of partitions is missing: send it as the body, such as 4")
    wanted: int | WithProperties = decoded(body, int | WithProperties)
    return WithProperties(wanted) if isinstance(wanted, int) else wanted


def _position(body: bytes) -> Position:
    """Return where a subscription starts: a message id as JSON, "earliest" or "latest"; nothing is the end."""
    if not body.strip() or body.strip() == b"null":
        return LATEST
    wanted: _MessageId | str = decoded(body, _MessageId | str)
    if isinstance(wanted, str):
        if wanted not in ("earliest", "latest"):
            raise RestError(400, f'A position is "earliest", "latest" or a message id, not {wanted!r}')
        return EARLIEST if wanted == "earliest" else LATEST
    if wanted.ledger_id >= _LAST:
        return LATEST
    return EARLIEST if wanted.ledger_id < 0 else Position(wanted.ledger_id, wanted.entry_id)
