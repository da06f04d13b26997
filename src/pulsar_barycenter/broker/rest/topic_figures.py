"""Answers requests for the stats of topics: stats, internal stats, and the sums over partitions.

Source: Pulsar's `PersistentTopicsBase` and `PartitionedTopicStatsImpl`.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aiohttp import web

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.errors import NotAllowedError
from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_namespace, require_topic_here, topic_path
from pulsar_barycenter.broker.rest.partition_owners import CONCURRENT_REQUESTS
from pulsar_barycenter.broker.rest.requests import flag, json_response, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.stored_topics import stored_topic
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics.backlog_age import exact_publish_time
from pulsar_barycenter.broker.topics.persistent_topic import PersistentTopic
from pulsar_barycenter.broker.topics.stats import timestamp
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.naming.topic import TopicName

_MEAN: Final = "averageMsgSize"
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_NOT_ADDED: Final = frozenset(
    {
        "lastOffloadLedgerId",
        "lastOffloadSuccessTimeStamp",
        "lastOffloadFailureTimeStamp",
        "oldestBacklogMessageAgeSeconds",
        "lastExpireTimestamp",
        "lastConsumedFlowTimestamp",
        "lastConsumedTimestamp",
        "lastAckedTimestamp",
        "lastMarkDeleteAdvancedTimestamp",
        "lastCompactionSucceedTimestamp",
        "lastCompactionFailedTimestamp",
        "lastCompactionDurationTimeInMills",
    }
)
"""Names of values that are not summed: a partitioned topic has the largest value of its partitions."""
_EARLIEST: Final = frozenset({"earliestMsgPublishTimeInBacklogs", "earliestMsgPublishTimeInBacklog"})
"""Names of times of which a partitioned topic has the earliest one of its partitions. A partition with the time 0 has
no such time and is not compared; the result is 0 if all partitions have 0.
"""
_OF_EACH_PARTITION: Final = ("getEarliestTimeInBacklog",)
"""Names of query parameters that are also sent to the owners of partitions."""


class TopicFigures:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources

    async def stats(self, request: web.Request) -> web.Response:
        topic = await self._loaded(request)
        stats = self._services.registry.topic_stats(topic, owner_broker=self._services.urls.broker_id)
        if flag(request, "getEarliestTimeInBacklog") and isinstance(topic, PersistentTopic):
            await _add_earliest_times(stats, topic)
        if flag(request, "excludePublishers"):
            stats["publishers"] = []
        if flag(request, "excludeConsumers"):
            for subscription in stats["subscriptions"].values():
                subscription["consumers"] = []
        return json_response(stats)

    async def internal_stats(self, request: web.Request) -> web.Response:
        return json_response(_internal(await self._persistent(request)))

    async def internal_info(self, request: web.Request) -> web.Response:
        return json_response(await stored_topic(await self._persistent(request), self._resources.store))

    async def partitioned_stats(self, request: web.Request) -> web.Response:
        topic, metadata = await self._partitioned(request)
        asked = {name: "true" for name in _OF_EACH_PARTITION if flag(request, name)}
        parts = await self._of_partitions(topic, metadata.partitions, "stats", asked)
        total = sum_stats(parts.values())
        total["metadata"] = {"partitions": metadata.partitions, "deleted": metadata.deleted}
        total["partitions"] = parts if flag(request, "perPartition", default=True) else {}
        return json_response(total)

    async def partitioned_internal_stats(self, request: web.Request) -> web.Response:
        topic, metadata = await self._partitioned(request)
        parts = await self._of_partitions(topic, metadata.partitions, "internalStats")
        return json_response({"metadata": {"partitions": metadata.partitions}, "partitions": parts})

    async def _loaded(self, request: web.Request) -> Topic:
        name = topic_of(request)
        await require_namespace(self._services, name.namespace)
        if not name.is_partition and await self._resources.partitioned_metadata(name) is not None:
            raise RestError(404, f"Topic not found: {name} is partitioned. Request its partitioned-stats instead.")
        await require_topic_here(request, self._services, name)
        if name.is_persistent:
            return await self._services.registry.get_or_create(name, create=False)
        loaded = self._services.registry.get_loaded(name)
        if loaded is None:
            raise RestError(404, f"Topic {name} not found")
        return loaded

    async def _persistent(self, request: web.Request) -> PersistentTopic:
        topic = await self._loaded(request)
        if not isinstance(topic, PersistentTopic):
            raise NotAllowedError(f"Topic {topic.name} is not persistent, so it has no internal stats")
        return topic

    async def _partitioned(self, request: web.Request) -> tuple[TopicName, PartitionedTopicMetadata]:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        metadata = await self._resources.partitioned_metadata(topic)
        if metadata is None:
            raise RestError(404, f"Partitioned topic not found: {topic}")
        return topic, metadata

    async def _of_partitions(
        self, topic: TopicName, count: int, what: str, params: dict[str, str] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Request stats of all partitions from their owners, and return them by the name of the partition. Partitions
        that do not exist are left out. `count` is the number of partitions. `what` is the last segment of the path,
        such as "stats".
        """
        limit = asyncio.Semaphore(CONCURRENT_REQUESTS)

        async def ask(part: TopicName) -> dict[str, Any] | None:
            async with limit:
                try:
                    answer: dict[str, Any] = await self._services.admin.call(
                        "GET", self._services.web_url, f"{topic_path(part)}/{what}", params=params
                    )
                except AdminRequestError as error:
                    if error.status != 404:
                        raise
                    return None
                return answer

        parts = [topic.partition(index) for index in range(count)]
        answers = await asyncio.gather(*(ask(part) for part in parts))
        return {str(part): answer for part, answer in zip(parts, answers, strict=True) if answer is not None}


async def _add_earliest_times(stats: dict[str, Any], topic: PersistentTopic) -> None:
    """Add to each subscription in `stats` the publish time (ms since 1970) of the oldest message in its backlog, and to
    `stats` the earliest of these times. A time is 0 if there is no backlog.
    """
    times = []
    for name, shown in stats["subscriptions"].items():
        subscription = topic.subscriptions.get(name)
        if subscription is not None:
            shown["earliestMsgPublishTimeInBacklog"] = time_ms = await exact_publish_time(subscription)
            times += [time_ms] if time_ms else []
    stats["earliestMsgPublishTimeInBacklogs"] = min(times, default=0)


def sum_stats(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the stats of a partitioned topic, computed from those of its partitions. Values are summed; the mean
    message size is the mean of the partitions' values; subscriptions of the same name are merged.

    The partitions' lists of publishers are merged by index, because a client opens one producer for each partition in
    the same order.
    """
    all_parts = list(parts)
    total: dict[str, Any] = {}
    for part in all_parts:
        _add(total, part)
    total.setdefault("publishers", [])
    total.setdefault("subscriptions", {})
    if all_parts and _MEAN in total:
        total[_MEAN] /= len(all_parts)
    total.pop("ownerBroker", None)
    return total


def _add(total: dict[str, Any], part: dict[str, Any]) -> None:
    for name, value in part.items():
        known = total.get(name)
        if isinstance(value, dict):
            _add(total.setdefault(name, {}), value) if isinstance(known, dict | None) else None
        elif isinstance(value, list):
            _add_lists(total.setdefault(name, []), value)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            total[name] = known or value
        elif name in _EARLIEST:
            total[name] = min(known or value, value or known or 0)
        elif name in _NOT_ADDED:
            total[name] = value if known is None else max(known, value)
        else:
            total[name] = (known or 0) + value


def _add_lists(total: list[Any], part: list[Any]) -> None:
    for index, item in enumerate(part):
        if index == len(total):
            total.append({})
        if isinstance(item, dict):
            _add(total[index], item)


def _internal(topic: PersistentTopic) -> dict[str, Any]:
    ledger = topic.ledger
    stats = ledger.stats
    current = stats.ledgers[-1] if stats.ledgers else None
    compacted = ledger.compacted.current
    return {
        "entriesAddedCounter": topic.in_rates.messages,
        "numberOfEntries": stats.entries,
        "totalSize": stats.size,
        "currentLedgerEntries": current.entries if current else 0,
        "currentLedgerSize": current.size if current else 0,
        "lastLedgerCreatedTimestamp": timestamp(current.created_at_ms if current else 0),
        "lastLedgerCreationFailureTimestamp": None,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": topic.pending,
        "lastConfirmedEntry": str(ledger.last_position),
        "state": "LedgerOpened" if current is not None and current.is_open else "ClosedLedger",
        "ledgers": [
            {
                "ledgerId": segment.ledger_id,
                "entries": segment.entries,
                "size": segment.size,
                "offloaded": False,
                "metadata": None,
                "underReplicated": False,
            }
            for segment in stats.ledgers
        ],
        "cursors": {name: _cursor(subscription) for name, subscription in topic.subscriptions.items()},
        "schemaLedgers": [],
        "compactedLedger": {
            "ledgerId": -1 if compacted is None else compacted.segment.ledger_id,
            "entries": -1 if compacted is None else compacted.segment.entries,
            "size": -1 if compacted is None else compacted.segment.size,
            "offloaded": False,
            "underReplicated": False,
        },
        "properties": dict(ledger.properties),
        "epoch": ledger.epoch,
    }


def _cursor(subscription: PersistentSubscription) -> dict[str, Any]:
    cursor = subscription.cursor
    ranges = cursor.acked_ranges
    return {
        "markDeletePosition": str(cursor.mark_delete),
        "readPosition": str(cursor.first_unacked),
        "waitingReadOp": False,
        "pendingReadOps": 0,
        "messagesConsumedCounter": 0,
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": "["
        + ",".join(f"({ledger}:{first - 1}..{ledger}:{last}]" for ledger, first, last in ranges)
        + "]",
        "lastLedgerSwitchTimestamp": timestamp(cursor.opened_at_ms),
        "state": "Open",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": cursor.backlog_entries,
        "totalNonContiguousDeletedMessagesRange": len(ranges),
        "properties": _numbers(cursor.properties),
    }


def _numbers(properties: Mapping[str, str]) -> dict[str, int]:
    """Return those properties whose values are numbers. Others are left out, because Pulsar's clients expect a number
    for each property in this answer.
    """
    return {name: int(value) for name, value in properties.items() if _NUMBER.fullmatch(value)}
