"""Moves the cursors of subscriptions: skips, clears and expires messages, and resets cursors.

A batch is one entry, and is skipped and expired as a whole; a reset may begin at a message within a batch.
Source: Pulsar's `PersistentTopicsBase`.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from aiohttp import web

from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import topic_path
from pulsar_barycenter.broker.rest.partition_owners import gather, repeatable
from pulsar_barycenter.broker.rest.persistent_topics import (
    MAX_INT32,
    MAX_INT64,
    PersistentTopics,
    movable_subscription_of,
    number_in_path,
    subscription_in,
)
from pulsar_barycenter.broker.rest.requests import body_of, json_response, no_content
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.subscriptions import ResetCursorData
from pulsar_barycenter.broker.subscriptions.cursor_moves import clear_backlog, expire, expire_through, skip
from pulsar_barycenter.broker.subscriptions.persistent_subscription import PersistentSubscription
from pulsar_barycenter.broker.topics.limits import BROKERS_CURSORS
from pulsar_barycenter.broker.topics.persistent_topic import LATEST, PersistentTopic
from pulsar_barycenter.ledger.managed.partial_acks import ALL
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol.frames import last_batch_index

_REPLICATED: Final = "replicatedSubscriptionStatus"


class Cursors:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._topics = PersistentTopics(services)
        self._owners = self._topics.owners

    # ---- skip ----

    async def skip(self, request: web.Request) -> web.Response:
        name = movable_subscription_of(request)
        entries = number_in_path(request, "count", at_most=MAX_INT32)
        topic = await self._topics.without_partitions(request, "Skip messages")
        await skip(subscription_in(topic, name), entries)
        return no_content()

    async def skip_all(self, request: web.Request) -> web.Response:
        name = movable_subscription_of(request)
        topic = await self._topics.named(request, "Skip messages")
        if await self._of_partitions(topic, lambda part: f"{_path(part, name)}/skip_all", "cleared"):
            return no_content()
        await clear_backlog(subscription_in(await self._topics.here(request, topic), name))
        return no_content()

    async def _of_partitions(self, topic: TopicName, path: Callable[[TopicName], str], what: str) -> bool:
        """If the topic is partitioned, send a POST request for each partition to the partition's owner, and return True
        when all have succeeded. If it is not partitioned, do nothing and return False.

        `path` returns the request's path for a partition. `what` is the past participle for error messages, such as
        "reset". Errors are those of `repeatable`.
        """
        parts = await self._owners.partitions(topic)
        await repeatable(lambda part: self._owners.call("POST", path(part)), parts, what=what)
        return bool(parts)

    # ---- expire ----

    async def expire(self, request: web.Request) -> web.Response:
        name = movable_subscription_of(request)
        seconds = number_in_path(request, "seconds", at_most=MAX_INT32)
        topic = await self._topics.named(request, "Expire messages")
        if await self._of_partitions(topic, lambda part: f"{_path(part, name)}/expireMessages/{seconds}", "expired"):
            return no_content()
        loaded = await self._topics.here(request, topic)
        await self._expire(loaded, subscription_in(loaded, name), seconds)
        return no_content()

    async def expire_all(self, request: web.Request) -> web.Response:
        """Expire messages of all subscriptions of the topic that clients created. If for one of them the request is
        refused (see `cursor_moves.expire`), the messages of the other subscriptions are expired nevertheless, and the
        answer is 409, as in Pulsar.
        """
        seconds = number_in_path(request, "seconds", at_most=MAX_INT32)
        topic = await self._topics.named(request, "Expire messages for all subscriptions")
        path = f"all_subscription/expireMessages/{seconds}"
        if await self._of_partitions(topic, lambda part: f"{topic_path(part)}/{path}", "expired"):
            return no_content()
        loaded = await self._topics.here(request, topic)
        refusals = []
        for subscription in list(loaded.subscriptions.values()):
            if subscription.name not in BROKERS_CURSORS:
                try:
                    await self._expire(loaded, subscription, seconds)
                except RestError as refusal:
                    refusals.append(refusal)
        if refusals:
            raise refusals[0]
        return no_content()

    async def _expire(self, topic: PersistentTopic, subscription: PersistentSubscription, seconds: int) -> None:
        # As in Pulsar, 0 seconds expire nothing: there, a TTL of 0 means that messages do not expire.
        before_ms = topic.clock.now_ms() - 1000 * seconds if seconds else 0
        if not await expire(subscription, before_ms):
            raise RestError(
                409,
                f"Expire message by timestamp not issued on topic {topic.name} for subscription {subscription.name}: "
                "the subscription has no backlog, or it has consumers, a small backlog and no message older than "
                f"{seconds} s. A request for a partitioned topic expires messages in each partition that does not "
                "refuse the request.",
            )

    async def expire_by_position(self, request: web.Request) -> web.Response:
        name = movable_subscription_of(request)
        wanted = await _message_id(request)
        what = "Expire message at position"
        topic = await self._topics.without_partitions(request, what)
        if wanted.excluded or wanted.is_excluded:
            raise RestError(
                400,
                "excluded is true, which is not supported: send the id of the last message to expire, without excluded",
            )
        if wanted.partition_index != topic.name.partition_index:
            raise RestError(
                412,
                f"Invalid parameter for expire message by position: partitionIndex is {wanted.partition_index}, but "
                f"the partition index of topic {topic.name} is {topic.name.partition_index}",
            )
        subscription = subscription_in(topic, name)
        position = Position(wanted.ledger_id, wanted.entry_id)
        if wanted.batch_index >= 0 and wanted.batch_index < await _last_index(topic, position):
            raise RestError(
                400,
                f"batchIndex is {wanted.batch_index}, which is within a batch: the whole batch is expired, or nothing "
                "of it. Leave batchIndex out, or send the id of the last message of a batch.",
            )
        if not await expire_through(subscription, position):
            raise RestError(
                409,
                f"Expire message by position not issued on topic {topic.name} for subscription {name}: the "
                f"subscription has no backlog, or {position} is after the last message, {topic.ledger.last_position}",
            )
        return no_content()

    # ---- reset ----

    async def reset_to_time(self, request: web.Request) -> web.Response:
        """Move the cursor to the first entry that was published at the timestamp or later; if there is none, to the end
        of the topic. Consumers are disconnected, and their clients connect again.
        """
        name = movable_subscription_of(request)
        time_ms = number_in_path(request, "timestamp", at_least=-MAX_INT64, at_most=MAX_INT64)
        topic = await self._topics.named(request, "Reset cursor")
        if await self._of_partitions(topic, lambda part: f"{_path(part, name)}/resetcursor/{time_ms}", "reset"):
            return no_content()
        loaded = await self._topics.here(request, topic)
        subscription = subscription_in(loaded, name)
        await subscription.seek(await loaded.position_at(time_ms))
        return no_content()

    async def reset_to_position(self, request: web.Request) -> web.Response:
        name = movable_subscription_of(request)
        wanted = await _message_id(request)
        topic = await self._topics.without_partitions(request, "Reset cursor at position")
        subscription = subscription_in(topic, name)
        await subscription.seek(*await _start(topic, wanted))
        return no_content()

    # ---- replicated subscriptions, which there are none of ----

    async def replicated(self, request: web.Request) -> web.Response:
        names = await self._with_subscription(request, "Get replicated subscription status")
        return json_response({str(name): False for name in names})

    async def set_replicated(self, request: web.Request) -> web.Response:
        if await body_of(request, bool) is None:
            raise RestError(
                400, "Send true or false as the body. Neither has an effect, because subscriptions are not replicated"
            )
        await self._with_subscription(request, "Set replicated subscription status")
        return no_content()

    async def _with_subscription(self, request: web.Request, what: str) -> list[TopicName]:
        """Return the partitions of the topic in the path, or the topic itself if it is not partitioned. `what` is the
        name of the operation for errors.

        Raises:
            SubscriptionNotFoundError, AdminRequestError: the topic, or one of its partitions, does not have the
                subscription in the path.
        """
        topic, name = await self._topics.named(request, what), movable_subscription_of(request)
        parts = await self._owners.partitions(topic)
        if parts:
            await gather(lambda part: self._owners.call("GET", f"{_path(part, name)}/{_REPLICATED}"), parts)
            return list(parts)
        subscription_in(await self._topics.here(request, topic), name)
        return [topic]


async def _message_id(request: web.Request) -> ResetCursorData:
    """Return the message id in the body of a request that moves a cursor.

    Raises:
        RestError: 400, the body is empty, or has the field `properties`, which belongs to a new subscription.
        msgspec.MsgspecError: the body is not a message id.
    """
    wanted = await body_of(request, ResetCursorData)
    if wanted is None:
        raise RestError(400, 'The body is empty: send a message id, such as {"ledgerId": 3, "entryId": 7}')
    if wanted.properties:
        raise RestError(400, "properties can only be set when a subscription is created: leave properties out")
    return wanted


async def _start(topic: PersistentTopic, wanted: ResetCursorData) -> tuple[Position, int]:
    """Return the first entry that is delivered after a reset to a message id, and the bit set of its messages that are
    delivered; ALL means all messages.
    """
    if wanted.ledger_id >= MAX_INT64:
        return LATEST, ALL
    if wanted.ledger_id < 0:
        return EARLIEST, ALL
    excluded = wanted.excluded or wanted.is_excluded
    position = Position(wanted.ledger_id, wanted.entry_id)
    after = Position(position.ledger_id, position.entry_id + 1)
    if wanted.batch_index < 0 or (last := await _last_index(topic, position)) < 0:
        return (after if excluded else position), ALL
    first = wanted.batch_index + excluded
    if first > last:
        return after, ALL
    return position, ALL if first == 0 else (1 << last + 1) - (1 << first)


async def _last_index(topic: PersistentTopic, position: Position) -> int:
    """Return the index of the last message in the batch at `position`; -1 if there is no entry, or the entry is not a
    batch.
    """
    entries = await topic.ledger.read(position, 1, 1)
    return last_batch_index(entries[0].data) if entries and entries[0].position == position else -1


def _path(topic: TopicName, subscription: str) -> str:
    return f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}"
