"""Deletes a namespace with its topics, bundles and records.

The order is Pulsar's (reference 3.7). First the namespace's record is marked as deleted, so that no topic is created
any more. Then the topics are deleted, system topics last; then owners release the bundles; then the records are
deleted. A topic that was created before all brokers saw the mark makes the last step fail, and all steps are repeated.

If a deletion without `force` finds a topic of a user, it removes the mark again; nothing has changed then. A deletion
that could not be completed, because a broker did not answer, stays in a list in the metadata store; the leader repeats
it, and so does the next request.

Source: Pulsar's `NamespacesBase.internalDeleteNamespaceAsync`.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import quote, unquote

import msgspec
import structlog
from msgspec.structs import replace

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.namespaces.indispensable import why_namespace_stays
from pulsar_barycenter.broker.namespaces.policies import Policies
from pulsar_barycenter.broker.namespaces.records import delete_tree
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_dispensable, topic_path
from pulsar_barycenter.broker.rest.partition_owners import gather
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.schemas.schema_records import SCHEMAS_ROOT
from pulsar_barycenter.metadata.errors import HasChildrenError, MetadataError, NotFoundError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import DOMAINS, TopicName, is_change_events, is_system_topic

log = structlog.get_logger(__name__)

ATTEMPTS: Final = 5
DELETIONS_ROOT: Final = "/barycenter/namespace-deletions"
"""The path below which each namespace that is being deleted has a key, whose value is a `_Deletion`."""


class _Deletion(msgspec.Struct, frozen=True):
    """The record of a namespace deletion that has begun. `broker` is the id of the broker that carries it out, or
    _ABANDONED if that broker failed, so that the leader has to repeat the deletion.
    """

    force: bool
    broker: str


_ABANDONED: Final = ""


async def delete_namespace(services: BrokerServices, namespace: NamespaceName, *, force: bool) -> None:
    """Delete `namespace`; with `force` also its topics, even if they have clients or subscriptions.

    Raises:
        RestError: 404, the namespace does not exist; 409, it has topics and `force` is not set, or in each of ATTEMPTS
            attempts clients created new topics; 412, several clusters share it, or brokers need it.
        AdminRequestError: the owner of a topic or bundle did not delete the topic or release the bundle. Some topics
            may be deleted. The leader repeats the deletion later.
    """
    await require_deletable(services, namespace, force=force)
    await _list(services, namespace, _Deletion(force, services.urls.broker_id))
    services.deleting.add(namespace)
    try:
        await services.resources.namespaces.update(str(namespace), _marked)
        await _delete(services, namespace, force=force)
    except (RestError, AdminRequestError, MetadataError):
        with suppress(MetadataError):
            if await _is_marked(services, namespace):
                await _list(services, namespace, _Deletion(force, _ABANDONED))
        raise
    finally:
        services.deleting.discard(namespace)


async def _delete(services: BrokerServices, namespace: NamespaceName, *, force: bool) -> None:
    """Delete a namespace whose policies are marked as deleted. Before each step, check that the mark is still there. If
    it is missing, another broker has completed the deletion: skip the step, without an error.
    """
    for attempt in range(ATTEMPTS):
        try:
            if not force:
                await _require_no_topics_still(services, namespace)
            for step in (_delete_topics, _release_bundles, _delete_records):
                if await _is_marked(services, namespace):
                    await step(services, namespace)
        except HasChildrenError as error:
            log.info("namespace_not_empty_yet", namespace=str(namespace), attempt=attempt + 1, reason=str(error))
        else:
            await _unlist(services, namespace)
            log.info("namespace_deleted", namespace=str(namespace), force=force)
            return
    raise RestError(
        409,
        f"Cannot delete non empty namespace {namespace}: clients created topics "
        "during each attempt to delete it. Stop these clients, then try again.",
    )


async def complete_deletions(services: BrokerServices) -> int:
    """Repeat each deletion of a namespace that failed, or whose broker is not active any more. Return the number of
    deletions that were tried, including those that failed again.
    """
    store, own = services.resources.store, services.urls.broker_id
    tried = 0
    for name in await store.children(DELETIONS_ROOT):
        namespace = NamespaceName.parse(unquote(name))
        record = await store.get(_entry(namespace))
        if record is None:
            continue
        deletion = msgspec.json.decode(record.value, type=_Deletion)
        if namespace in services.deleting or deletion.broker in services.control.registration.brokers - {own}:
            continue
        if not await _is_marked(services, namespace):
            if await services.resources.namespaces.get_fresh(str(namespace)) is None:
                await _forget_bundles(services, namespace)  # the last step, which possibly has not run
            await _unlist(services, namespace)
            continue
        tried += 1
        try:
            await delete_namespace(services, namespace, force=deletion.force)
        except (RestError, AdminRequestError, MetadataError) as error:
            log.warning("namespace_deletion_not_completed", namespace=str(namespace), reason=str(error))
    return tried


async def _is_marked(services: BrokerServices, namespace: NamespaceName) -> bool:
    policies = await services.resources.namespaces.get_fresh(str(namespace))
    return policies is not None and policies.deleted


def _entry(namespace: NamespaceName) -> str:
    return f"{DELETIONS_ROOT}/{quote(str(namespace), safe='')}"


async def _list(services: BrokerServices, namespace: NamespaceName, deletion: _Deletion) -> None:
    await services.resources.store.put(_entry(namespace), msgspec.json.encode(deletion))


async def _unlist(services: BrokerServices, namespace: NamespaceName) -> None:
    with suppress(NotFoundError):
        await services.resources.store.delete(_entry(namespace))


async def _require_no_topics_still(services: BrokerServices, namespace: NamespaceName) -> None:
    """Check again, after the namespace was marked as deleted, that it has no topics. A client may have created one at a
    broker that did not know the mark yet.

    If there is a topic, the namespace is not deleted: this removes the mark and raises RestError 409.
    """
    try:
        await _require_no_topics(services, namespace)
    except RestError:
        await services.resources.namespaces.update(str(namespace), _unmarked)
        await _unlist(services, namespace)
        raise


def _marked(policies: Policies) -> Policies:
    return replace(policies, deleted=True)


def _unmarked(policies: Policies) -> Policies:
    return replace(policies, deleted=False)


async def require_deletable(services: BrokerServices, namespace: NamespaceName, *, force: bool) -> None:
    """Check that a namespace can be deleted; this changes nothing.

    Raises:
        RestError: for the same reasons as in `delete_namespace`.
    """
    require_dispensable(why_namespace_stays(namespace))
    policies = await services.resources.namespaces.get_fresh(str(namespace))
    if policies is None:
        raise RestError(404, f"Namespace {namespace} does not exist")
    others = [cluster for cluster in policies.replication_clusters if cluster != services.config.cluster_name]
    if others:
        raise RestError(
            412,
            f"Cannot delete the global namespace {namespace}. There are still replication clusters configured: "
            + ", ".join(others),
        )
    if not force:
        await _require_no_topics(services, namespace)


async def _require_no_topics(services: BrokerServices, namespace: NamespaceName) -> None:
    topics = [topic for topic in await _all_topics(services, namespace) if not is_system_topic(topic)]
    if topics:
        raise RestError(
            409,
            f"Cannot delete non empty namespace {namespace}: it has {count_of(len(topics), 'topic')}, such as "
            f"{topics[0]}. Delete all topics first, or use force=true.",
        )


async def _all_topics(services: BrokerServices, namespace: NamespaceName) -> list[TopicName]:
    resources = services.resources
    return [*await resources.persistent_topics(namespace), *await resources.partitioned_topics_of(namespace)]


async def _delete_topics(services: BrokerServices, namespace: NamespaceName) -> None:
    """Delete all topics of a namespace, the topics with the policies last. In a deletion without `force` there are only
    system topics, because the absence of other topics was checked before.
    """
    resources = services.resources
    topics = await resources.persistent_topics(namespace)
    partitioned = await resources.partitioned_topics_of(namespace)
    for of_system in (False, True):
        chosen = [topic for topic in topics if is_system_topic(topic) is of_system and not is_change_events(topic)]
        await _delete_all(services, chosen)
        for topic in partitioned:
            if is_system_topic(topic) is of_system:
                await delete_tree(resources.store, f"{resources.partitioned_topics.root}/{topic.persistence_name}")
    await _delete_all(services, filter(is_change_events, topics))


async def _delete_all(services: BrokerServices, topics: Iterable[TopicName]) -> None:
    await gather(
        lambda topic: services.admin.call("DELETE", services.web_url, topic_path(topic), params={"force": "true"}),
        topics,
        missing=[404],  # another request was faster
    )


async def _release_bundles(services: BrokerServices, namespace: NamespaceName) -> None:
    bundles = await services.control.namespaces.bundles_of_now(namespace)
    params = {"force": "true"}  # _delete_records finds a topic that was created in between

    async def release(bundle: Bundle) -> None:
        if await services.control.lookup.lookup_bundle(bundle, read_only=True) is not None:
            path = f"/admin/v2/namespaces/{bundle}"
            await services.admin.call("DELETE", services.web_url, path, params=params)

    await gather(release, bundles.bundles)


async def _delete_records(services: BrokerServices, namespace: NamespaceName) -> None:
    """Delete all records of the namespace in the metadata store.

    Raises:
        HasChildrenError: a client has created a topic since the topics were deleted. Some records may be deleted
            already.
    """
    resources = services.resources
    store = resources.store
    if await resources.persistent_topics(namespace):
        raise HasChildrenError(f"/managed-ledgers/{namespace}")
    for domain in DOMAINS:
        await delete_tree(store, f"/managed-ledgers/{namespace}/{domain}")
        await delete_tree(store, f"/admin/partitioned-topics/{namespace}/{domain}")
    for root in ("/admin/partitioned-topics", "/managed-ledgers", SCHEMAS_ROOT, "/admin/policies"):
        await delete_tree(store, f"{root}/{namespace}")
    await _forget_bundles(services, namespace)


async def _forget_bundles(services: BrokerServices, namespace: NamespaceName) -> None:
    """Delete the records of a namespace's bundles. Delete the policies of the namespace before this call: while they
    exist, each look-up creates the records of the bundles again.
    """
    for root in ("/admin/local-policies", "/loadbalance/bundle-data"):
        await delete_tree(services.resources.store, f"{root}/{namespace}")
    services.control.bundles.invalidate(namespace)
