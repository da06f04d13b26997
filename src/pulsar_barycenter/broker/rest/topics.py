"""Answers requests about topics: lists, creates, unloads and deletes them. Stats of topics are in `topic_figures`.

The owner of a topic answers requests about it. A request about a partitioned topic is sent to the owners of all its
partitions.

Source: Pulsar's `PersistentTopics`, `NonPersistentTopics` and `PersistentTopicsBase`.
"""

from collections.abc import Iterable

from aiohttp import web

from pulsar_barycenter.broker.authorization.topic_grants import forget_grants
from pulsar_barycenter.broker.namespaces.indispensable import why_topic_stays
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import (
    current_bundle,
    go_on_if_local,
    require_dispensable,
    require_namespace,
    require_topic_here,
    topic_path,
)
from pulsar_barycenter.broker.rest.partition_owners import PartitionOwners, gather, repeatable
from pulsar_barycenter.broker.rest.requests import (
    body_of,
    flag,
    json_response,
    namespace_of,
    no_content,
    topic_of,
)
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.topic_properties import require_no_shadow
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName, is_system_topic


class Topics:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources
        self._registry = services.registry
        self._owners = PartitionOwners(services)

    # ---- lists ----

    async def names(self, request: web.Request) -> web.Response:
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
        """Return the names of a namespace's non-persistent topics, sorted. They are requested from the owners of all
        bundles, because these topics exist only in their owners' memory.
        """
        bundles = await self._services.control.namespaces.bundles_of_now(namespace)
        found = await gather(
            lambda range_text: self._services.admin.call(
                "GET", self._services.web_url, f"/admin/v2/non-persistent/{namespace}/{range_text}"
            ),
            [str(bundle.range) for bundle in bundles.bundles],
        )
        return sorted(name for names in found for name in names or ())

    async def names_in_bundle(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        bundle = await current_bundle(self._services, namespace, request.match_info["range"])
        answer = await self._services.control.lookup.lookup_bundle(bundle, read_only=True)
        if answer is None:
            return no_content()
        go_on_if_local(request, self._services, answer, f"ServiceUnit:{bundle}")
        loaded = self._registry.topics_of_bundle(bundle)
        return json_response(sorted(str(topic) for topic in loaded if not topic.is_persistent))

    async def partitioned_names(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        topics = await self._resources.partitioned_topics_of(namespace, request.match_info["domain"])
        return json_response(_shown(topics, include_system=flag(request, "includeSystemTopic")))

    # ---- one topic ----

    async def create(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        properties = await body_of(request, dict[str, str])
        require_no_shadow(properties or {})
        if properties and not topic.is_persistent:
            raise RestError(400, f"{topic} is not persistent, so properties cannot be stored: send no body")
        await self._require_legal_partition(topic)
        if await self._resources.partitioned_metadata(topic) is not None or await self._resources.topic_exists(topic):
            raise RestError(409, f"This topic already exists: {topic}")
        await require_room(self._services, topic, 1)
        await require_topic_here(request, self._services, topic)
        if self._registry.get_loaded(topic) is not None:
            raise RestError(409, f"This topic already exists: {topic}")
        created = await self._registry.create(topic)
        if properties and isinstance(created, PersistentTopic):
            await created.ledger.update_properties(properties)
        return no_content()

    async def _require_legal_partition(self, topic: TopicName) -> None:
        if not topic.is_partition:
            return
        base = await self._resources.partitioned_metadata(topic.partitioned_name, fresh=True)
        if base is None or topic.partition_index >= base.partitions:
            raise RestError(
                412,
                f"Topic name {topic} has a partition suffix, and there is no partitioned topic "
                f"{topic.partitioned_name} with this partition. Create the partitioned topic, "
                "add partitions to the existing topic, or use another name.",
            )

    async def delete(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        require_dispensable(why_topic_stays(topic))
        await require_namespace(self._services, topic.namespace)
        if await self._resources.partitioned_metadata(topic) is not None:
            raise RestError(
                409,
                f"{topic} is a partitioned topic: delete it at …/{topic.local_name}/partitions, or by:"
                f" barycenter admin topics delete-partitioned-topic {topic}",
            )
        await require_topic_here(request, self._services, topic)
        await self._registry.delete_topic(topic, force=flag(request, "force"))
        await forget_grants(self._resources, topic)
        return no_content()

    async def unload(self, request: web.Request) -> web.Response:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        if await self._owners.partition_count(topic):
            await repeatable(
                lambda part: self._owners.call("PUT", f"{topic_path(part)}/unload"),
                await self._owners.partitions(topic),
                what="unloaded",
                missing=[404],
            )
            return no_content()
        await require_topic_here(request, self._services, topic)
        if not await self._registry.close_topic(topic) and not await self._resources.topic_exists(topic):
            raise RestError(404, f"Topic {topic} not found")
        return no_content()


async def require_room(services: BrokerServices, topic: TopicName, new: int) -> None:
    """Check that the topic's namespace may get `new` more topics or partitions.

    Raises:
        RestError: 412, the namespace is being deleted, or would have more topics than it may have.
    """
    policies = await services.resources.namespaces.get(str(topic.namespace))
    if policies is None or is_system_topic(topic) or not topic.is_persistent:
        return
    if policies.deleted:
        raise RestError(412, f"Namespace {topic.namespace} is being deleted")
    if not await services.resources.has_room_for_topics(topic.namespace, policies, new):
        raise RestError(
            412,
            f"Exceed maximum number of topics in namespace {topic.namespace}: delete topics, or raise "
            "maxTopicsPerNamespace",
        )


def _shown(topics: Iterable[TopicName], *, include_system: bool) -> list[str]:
    return sorted(str(topic) for topic in topics if include_system or not is_system_topic(topic))
