"""Builders for commands that clients send and brokers do not: the rest of
`pulsar_barycenter.protocol.client_commands`."""

from collections.abc import Sequence

from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import TYPE, command_frame


def partitioned_metadata(request_id: int, topic: str, *, auto_create: bool | None = None) -> bytes:
    return command_frame(
        TYPE.PARTITIONED_METADATA, topic=topic, request_id=request_id, metadata_auto_creation_enabled=auto_create
    )


def lookup(request_id: int, topic: str, *, authoritative: bool = False, listener: str = "") -> bytes:
    return command_frame(
        TYPE.LOOKUP,
        topic=topic,
        request_id=request_id,
        authoritative=authoritative,
        advertised_listener_name=listener,
    )


def redeliver(consumer_id: int, message_ids: Sequence[api.MessageIdData] = (), *, epoch: int | None = None) -> bytes:
    """Request unacknowledged messages again: those of `message_ids`, or all if there are none."""
    return command_frame(
        TYPE.REDELIVER_UNACKNOWLEDGED_MESSAGES,
        consumer_id=consumer_id,
        message_ids=list(message_ids),
        consumer_epoch=epoch,
    )


def unsubscribe(request_id: int, consumer_id: int, *, force: bool | None = None) -> bytes:
    return command_frame(TYPE.UNSUBSCRIBE, consumer_id=consumer_id, request_id=request_id, force=force)


def seek(
    request_id: int,
    consumer_id: int,
    *,
    position: api.MessageIdData | None = None,
    publish_time_ms: int | None = None,
) -> bytes:
    """Move the subscription so that `position`, or the first entry published at or after the time, comes next."""
    return command_frame(
        TYPE.SEEK,
        consumer_id=consumer_id,
        request_id=request_id,
        message_id=position,
        message_publish_time=publish_time_ms,
    )


def get_topics_of_namespace(
    request_id: int,
    namespace: str,
    mode: api.CommandGetTopicsOfNamespace.Mode.ValueType = api.CommandGetTopicsOfNamespace.PERSISTENT,
) -> bytes:
    return command_frame(TYPE.GET_TOPICS_OF_NAMESPACE, request_id=request_id, namespace=namespace, mode=mode)


def get_schema(request_id: int, topic: str, *, schema_version: bytes | None = None) -> bytes:
    return command_frame(TYPE.GET_SCHEMA, request_id=request_id, topic=topic, schema_version=schema_version)


def consumer_stats(request_id: int, consumer_id: int) -> bytes:
    return command_frame(TYPE.CONSUMER_STATS, request_id=request_id, consumer_id=consumer_id)
