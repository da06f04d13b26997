"""Answers the commands of Pulsar 5's clients (their V5 API) about topics that are made of segments.

Such a client opens each topic with SCALABLE_TOPIC_LOOKUP, also ordinary topics. The answer for those is a layout with
one segment for each partition, which names the ordinary topic of that segment; the client then attaches to these topics
by ordinary commands. The layout of an ordinary topic never changes, so the broker keeps no session and pushes nothing.
Topics of the domains `topic` and `segment` are not served (`naming.topic`), and a namespace has none of them.

Source: Pulsar's `ServerCnx`, `DagWatchSession` and its PIP-475.
"""

from typing import Final

from pulsar_barycenter.broker.errors import NotAllowedError, TopicNotFoundError
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.broker.wire.lookup_requests import wait_writable
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

_HASHES: Final = 0x10000
"""The number of hashes of keys; each segment has a range of them."""


def segments_of(topic: TopicName, partitions: int) -> list[api.SegmentInfoProto]:
    """Return a topic's layout for clients that know topics of segments: one segment for each partition, or one for the
    topic if it has no partitions.

    The hash ranges of the segments are inclusive and together cover all hashes. But clients do not choose a partition
    by them: they choose partitions of such a topic in the same way as older clients.
    """
    names = [topic.partition(index) for index in range(partitions)] or [topic]
    width = _HASHES // len(names)
    return [
        api.SegmentInfoProto(
            segment_id=number,
            hash_start=min(number * width, _HASHES - 1),
            hash_end=_HASHES - 1 if number == len(names) - 1 else max((number + 1) * width - 1, 0),
            state=api.ACTIVE,
            created_at_epoch=0,
            created_at_ms=0,
            legacy_topic_name=str(name),
        )
        for number, name in enumerate(names)
    ]


async def look_up(connection: Connection, request: api.CommandScalableTopicLookup) -> None:
    """Answer SCALABLE_TOPIC_LOOKUP with the layout of an ordinary topic; see `segments_of`.

    The topic need not exist: when the client attaches to it, the broker checks whether it exists or may be created.

    Raises:
        NotAllowedError: the name is that of one partition of a topic.
        UnservedDomainError: the topic is of the domain `topic` or `segment`.
    """
    topic = TopicName.parse(request.topic)
    if topic.is_partition:
        raise NotAllowedError(
            f"{topic} is a partition, which has no layout of segments. Open the topic {topic.partitioned_name} instead"
        )
    # One at a time, and only when the client has read earlier answers: a short request may have a long one.
    async with connection.listing:
        await wait_writable(connection)
        try:
            partitions = await connection.services.lookup.partitions(topic, auto_create=False)
        except TopicNotFoundError:
            partitions = 0
        segments = segments_of(topic, partitions)
        connection.send(commands.scalable_topic_layout(request.session_id, str(topic), segments))


def close_session(
    connection: Connection, request: api.CommandScalableTopicClose | api.CommandWatchScalableTopicsClose
) -> None:
    """Do nothing, because the broker keeps no session of the client. It has nothing to report in one: the layout of an
    ordinary topic never changes, and the list of topics of segments is always empty.
    """


async def subscribe(connection: Connection, request: api.CommandScalableTopicSubscribe) -> None:
    """Refuse SCALABLE_TOPIC_SUBSCRIBE, with which a client requests some of a topic's segments for a consumer of a
    group.

    Raises:
        NotAllowedError: the topic is an ordinary one, which has no segments to divide among consumers.
        UnservedDomainError: the topic is of the domain `topic` or `segment`.
    """
    topic = TopicName.parse(request.topic)
    raise NotAllowedError(
        f"{topic} has no segments to share out among consumers, because it is an ordinary topic. "
        "Use a queue consumer or a checkpoint consumer without a group"
    )


def unsubscribe(connection: Connection, request: api.CommandScalableTopicUnsubscribe) -> None:
    """Answer SCALABLE_TOPIC_UNSUBSCRIBE with success: no client is subscribed, so there is nothing to do."""
    connection.send(commands.success(request.request_id))


def watch_namespace(connection: Connection, request: api.CommandWatchScalableTopics) -> None:
    """Answer WATCH_SCALABLE_TOPICS with an empty list: no namespace has a topic of segments."""
    connection.send(commands.no_scalable_topics(request.watch_id))
