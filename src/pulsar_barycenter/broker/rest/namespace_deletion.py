"""Deleting a namespace with its topics, bundles and records.

The order is Pulsar's (reference 3.7): marked as deleted, so that no topic comes into being any more; topics, the
topics of the brokers themselves last; bundles given up by their owners; records. A topic that slipped in before the
mark was seen everywhere makes the last step find something: then all is repeated.

Source: Pulsar's `NamespacesBase.internalDeleteNamespaceAsync`.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog
from msgspec.structs import replace

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.namespaces.policies import Policies
from pulsar_barycenter.broker.namespaces.records import delete_tree
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import topic_path
from pulsar_barycenter.broker.rest.partition_owners import CONCURRENT_REQUESTS
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.metadata.errors import HasChildrenError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import DOMAINS, TopicName, is_system_topic

log = structlog.get_logger(__name__)

ATTEMPTS: Final = 5
_TOPIC_POLICIES: Final = "__change_events"


async def delete_namespace(services: BrokerServices, namespace: NamespaceName, *, force: bool) -> None:
    """Delete `namespace`; with `force` its topics as well, clients and subscriptions or not.

    Raises:
        RestError: 404 there is none; 409 it has topics and is not forced, or topics keep coming; 412 several
            clusters share it.
        AdminRequestError: the owner of a topic or bundle refused.
    """
    await _require_deletable(services, namespace, force=force)
    await services.resources.namespaces.update(str(namespace), _marked)
    for attempt in range(ATTEMPTS):
        try:
            await _delete_topics(services, namespace, force=force)
            await _give_up_bundles(services, namespace, force=force)
            await _delete_records(services, namespace)
        except HasChildrenError as error:
            log.info("namespace_not_empty_yet", namespace=str(namespace), attempt=attempt + 1, reason=str(error))
        else:
            log.info("namespace_deleted", namespace=str(namespace), force=force)
            return
    raise RestError(409, f"Cannot delete non empty namespace {namespace}: topics keep being created. Try again.")


def _marked(policies: Policies) -> Policies:
    return replace(policies, deleted=True)


async def _require_deletable(services: BrokerServices, namespace: NamespaceName, *, force: bool) -> None:
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
        topics = [topic for topic in await _all_topics(services, namespace) if not is_system_topic(topic)]
        if topics:
            raise RestError(
                409,
                f"Cannot delete non empty namespace {namespace}: it has {len(topics)} topics, such as {topics[0]}. "
                "Delete them first, or use force=true.",
            )


async def _all_topics(services: BrokerServices, namespace: NamespaceName) -> list[TopicName]:
    resources = services.resources
    return [*await resources.persistent_topics(namespace), *await resources.partitioned_topics_of(namespace)]


async def _delete_topics(services: BrokerServices, namespace: NamespaceName, *, force: bool) -> None:
    resources = services.resources
    topics = await resources.persistent_topics(namespace)
    partitioned = await resources.partitioned_topics_of(namespace)
    for of_system in (False, True):
        chosen = [topic for topic in topics if is_system_topic(topic) is of_system and not _keeps_policies(topic)]
        await _delete_all(services, chosen, force=force or of_system)
        for topic in partitioned:
            if is_system_topic(topic) is of_system:
                await delete_tree(resources.store, f"{resources.partitioned_topics.root}/{topic.persistence_name}")
    await _delete_all(services, filter(_keeps_policies, topics), force=True)


def _keeps_policies(topic: TopicName) -> bool:
    return topic.partitioned_name.local_name == _TOPIC_POLICIES


async def _delete_all(services: BrokerServices, topics: Iterable[TopicName], *, force: bool) -> None:
    limit = asyncio.Semaphore(CONCURRENT_REQUESTS)
    params = {"force": "true" if force else "false"}

    async def delete(topic: TopicName) -> None:
        async with limit:
            try:
                await services.admin.call("DELETE", services.web_url, topic_path(topic), params=params)
            except AdminRequestError as error:
                if error.status != 404:  # somebody else was faster
                    raise

    await asyncio.gather(*(delete(topic) for topic in topics))


async def _give_up_bundles(services: BrokerServices, namespace: NamespaceName, *, force: bool) -> None:
    bundles = await services.control.namespaces.bundles_of_now(namespace)
    limit = asyncio.Semaphore(CONCURRENT_REQUESTS)
    params = {"force": "true" if force else "false"}

    async def give_up(bundle: Bundle) -> None:
        async with limit:
            if await services.control.lookup.lookup_bundle(bundle, read_only=True) is None:
                return
            path = f"/admin/v2/namespaces/{bundle}"
            await services.admin.call("DELETE", services.web_url, path, params=params)

    await asyncio.gather(*(give_up(bundle) for bundle in bundles.bundles))


async def _delete_records(services: BrokerServices, namespace: NamespaceName) -> None:
    """Delete what is stored; a topic that came into being meanwhile is found as HasChildrenError."""
    resources = services.resources
    store = resources.store
    if await resources.persistent_topics(namespace):
        raise HasChildrenError(f"/managed-ledgers/{namespace}")
    for domain in DOMAINS:
        await delete_tree(store, f"/managed-ledgers/{namespace}/{domain}")
        await delete_tree(store, f"/admin/partitioned-topics/{namespace}/{domain}")
    for root in ("/admin/partitioned-topics", "/managed-ledgers", "/admin/policies", "/admin/local-policies"):
        await delete_tree(store, f"{root}/{namespace}")
    await delete_tree(store, f"/loadbalance/bundle-data/{namespace}")
    services.control.bundles.invalidate(namespace)
