"""Clears backlogs and deletes subscriptions of namespaces and bundles, trims and truncates topics, counts backlogs.

A request for a namespace is carried out for each bundle by the bundle's owner. The owner loads topics that are not in
memory. The topics and subscriptions of brokers themselves are left out, because applications do not use them.
Source: Pulsar's `NamespacesBase` and `PersistentTopicsBase`. Difference: there only topics in memory are cleared.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import quote, unquote_plus

from aiohttp import web

from pulsar_barycenter.broker.errors import TopicNotFoundError
from pulsar_barycenter.broker.namespaces.indispensable import why_subscription_stays
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import (
    current_bundle,
    require_bundle_here,
    require_dispensable,
    require_namespace,
    topic_path,
)
from pulsar_barycenter.broker.rest.partition_owners import CONCURRENT_REQUESTS, repeatable
from pulsar_barycenter.broker.rest.persistent_topics import PersistentTopics, subscription_in
from pulsar_barycenter.broker.rest.requests import (
    body_of,
    json_response,
    namespace_of,
    no_content,
    subscription_of,
    topic_of,
)
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.subscriptions import ResetCursorData
from pulsar_barycenter.broker.subscriptions.cursor_moves import clear_backlog
from pulsar_barycenter.broker.topics.limits import BROKERS_CURSORS, require_free_subscription
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.ledger.managed.unacked import Stretch
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName, check_local_name, is_system_topic

_CLEAR: Final = "clearBacklog"


class Backlogs:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._registry = services.registry
        self._topics = PersistentTopics(services)
        self._owners = self._topics.owners

    # ---- clear ----

    async def clear_namespace(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        only = _named_subscription(request)
        await require_namespace(self._services, namespace)
        await self._of_bundles(namespace, f"{_CLEAR}/{quote(only, safe='')}" if only else _CLEAR, "cleared")
        return no_content()

    async def clear_bundle(self, request: web.Request) -> web.Response:
        only = _named_subscription(request)
        await _all_of(lambda topic: self._clear(topic, only), await self._topics_of_bundle(request))
        return no_content()

    async def _of_bundles(self, namespace: NamespaceName, what: str, done: str) -> None:
        """Send a POST request for each bundle that has topics to the owner of that bundle. `what` is the last part of
        the path, after the bundle. `done` is the past participle for error messages, such as "cleared". Errors are
        those of `repeatable`.
        """
        bundles = (await self._services.control.namespaces.bundles_of_now(namespace)).bundles
        topics = await self._of_applications(namespace)
        used = [bundle for bundle in bundles if any(map(bundle.contains, topics))]
        await repeatable(
            lambda bundle: self._owners.call("POST", f"/admin/v2/namespaces/{namespace}/{bundle.range}/{what}"),
            used,
            what=done,
        )

    async def _topics_of_bundle(self, request: web.Request) -> list[TopicName]:
        """Return all persistent topics, except system topics, in the bundle that the path of the request names. Check
        before that this broker owns the bundle.

        Raises:
            RedirectError: another broker owns the bundle and has to answer.
        """
        namespace = namespace_of(request)
        await require_namespace(self._services, namespace)
        bundle = await current_bundle(self._services, namespace, request.match_info["range"])
        await require_bundle_here(request, self._services, bundle)
        return await self._of_applications(namespace, bundle)

    async def _of_applications(self, namespace: NamespaceName, bundle: Bundle | None = None) -> list[TopicName]:
        names = await self._services.resources.topics_of_namespace(namespace, "PERSISTENT")
        topics = [topic for topic in map(TopicName.parse, names) if not is_system_topic(topic)]
        return topics if bundle is None else [topic for topic in topics if bundle.contains(topic)]

    async def _clear(self, topic: TopicName, only: str) -> None:
        loaded = await self._loaded(topic)
        for name, subscription in list(loaded.subscriptions.items()) if loaded is not None else ():
            if name not in BROKERS_CURSORS and only in ("", name):
                await clear_backlog(subscription)

    async def _loaded(self, topic: TopicName) -> PersistentTopic | None:
        """Return a topic whose bundle this broker owns; load it if necessary. None if the topic was deleted meanwhile.

        Raises:
            TopicFencedError: the topic is being closed.
        """
        try:
            loaded = await self._registry.get_or_create(topic, create=False)
        except TopicNotFoundError:
            return None
        assert isinstance(loaded, PersistentTopic), "the name is that of a persistent topic"
        loaded.check_open()
        return loaded

    # ---- unsubscribe ----

    async def unsubscribe_namespace(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        name = _named_subscription(request)
        await require_namespace(self._services, namespace)
        await self._of_bundles(namespace, f"unsubscribe/{quote(name, safe='')}", "unsubscribed")
        return no_content()

    async def unsubscribe_bundle(self, request: web.Request) -> web.Response:
        name = _named_subscription(request)
        await _all_of(lambda topic: self._unsubscribe(topic, name), await self._topics_of_bundle(request))
        return no_content()

    async def _unsubscribe(self, topic: TopicName, name: str) -> None:
        loaded = await self._loaded(topic)
        if loaded is None or name not in loaded.subscriptions:
            return
        require_dispensable(why_subscription_stays(topic, name))
        await loaded.delete_subscription(name, force=False)

    # ---- trim ----

    async def trim(self, request: web.Request) -> web.Response:
        """Start to delete those ledgers of a topic that every cursor has consumed and no retention keeps. Of a
        partitioned topic, do so for each partition. The answer does not wait for the deletion.
        """
        if not topic_of(request).is_persistent:
            raise RestError(405, "Trim is not allowed: a non-persistent topic stores nothing")
        topic = await self._topics.named(request, "Trim")
        parts = await self._owners.partitions(topic)
        if parts:
            await repeatable(lambda part: self._owners.call("POST", f"{topic_path(part)}/trim"), parts, what="trimmed")
            return no_content()
        (await self._topics.here(request, topic)).ledger.trim()
        return no_content()

    # ---- truncate ----

    async def truncate(self, request: web.Request) -> web.Response:
        if not topic_of(request).is_persistent:
            raise RestError(412, "Truncate is not supported: a non-persistent topic stores nothing")
        topic = await self._topics.named(request, "Truncate")
        parts = await self._owners.partitions(topic)
        if parts:
            await repeatable(
                lambda part: self._owners.call("DELETE", f"{topic_path(part)}/truncate"), parts, what="truncated"
            )
            return no_content()
        await (await self._topics.here(request, topic)).truncate()
        return no_content()

    # ---- analyze ----

    async def analyze(self, request: web.Request) -> web.Response:
        """Count the entries and messages that a subscription has not acknowledged. If the body has a message id, count
        only from that message on (inclusive). The counts are exact, because the message counts of all these entries are
        read.
        """
        wanted = await body_of(request, ResetCursorData) or ResetCursorData(ledger_id=-1)
        topic = await self._topics.without_partitions(request, "Analyze backlog")
        subscription = subscription_in(topic, subscription_of(request))
        start = Position(wanted.ledger_id, wanted.entry_id) if wanted.ledger_id >= 0 else EARLIEST
        stretches = [late for stretch in subscription.cursor.unacked() for late in _from(stretch, start)]
        messages = [await topic.ledger.messages_in(stretch) for stretch in stretches]
        return json_response(_analysis(stretches, sum(messages)))


def _from(stretch: Stretch, start: Position) -> Iterable[Stretch]:
    """Return the part of a stretch (consecutive entries of one ledger) that begins at `start` (inclusive): one stretch,
    or none if all its entries are before `start`.
    """
    ledger_id = stretch.segment.ledger_id
    if ledger_id < start.ledger_id:
        return ()
    first = max(stretch.first, start.entry_id) if ledger_id == start.ledger_id else stretch.first
    return (stretch._replace(first=first),) if first < stretch.stop else ()


def _analysis(stretches: list[Stretch], messages: int) -> dict[str, Any]:
    """Return the fields of Pulsar's `AnalyzeSubscriptionBacklogResult` for a backlog. `stretches` are its entries in
    order, `messages` is the number of messages in them. No entry counts as rejected or rescheduled by a filter, because
    this broker has no entry filters.
    """
    entries = sum(stretch.entries for stretch in stretches)
    ends = {}
    if stretches:
        first, last = stretches[0], stretches[-1]
        ends = {
            "firstMessageId": str(Position(first.segment.ledger_id, first.first)),
            "lastMessageId": str(Position(last.segment.ledger_id, last.stop - 1)),
        }
    return {
        "entries": entries,
        "messages": messages,
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": messages,
        "filterRescheduledMessages": 0,
        "aborted": False,
        **ends,
    }


def _named_subscription(request: web.Request) -> str:
    """Return the subscription at the end of the path, "" if there is none.

    Raises:
        InvalidNameError: the name is not valid.
        NotAllowedError: the name is that of a subscription of the broker itself.
    """
    if "subscription" not in request.match_info:
        return ""
    name = unquote_plus(request.rel_url.raw_path.rpartition("/")[2])
    check_local_name("subscription", name)
    require_free_subscription(name)
    return name


async def _all_of(work: Callable[[TopicName], Awaitable[None]], topics: Iterable[TopicName]) -> None:
    """Call `work` for all topics, several at the same time, even if it fails for some. When all calls have ended, raise
    the error of the first failed topic in the order of `topics`.
    """
    gate = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def one(topic: TopicName) -> None:
        async with gate:
            await work(topic)

    for error in await asyncio.gather(*map(one, topics), return_exceptions=True):
        if isinstance(error, BaseException):
            raise error
