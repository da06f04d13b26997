"""Answers requests that any broker can answer: owners of topics, numbers of partitions, lists of topics, schemas.

GET_OR_CREATE_SCHEMA is here too, although this broker must serve the topic: producers send the command to the owner of
the topic.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from pulsar_barycenter.broker.cluster.lookup_answers import LookupAnswer, Owner, Redirect
from pulsar_barycenter.broker.schemas.errors import SchemaNotFoundError
from pulsar_barycenter.broker.schemas.schema import version_bytes, version_of_bytes
from pulsar_barycenter.broker.wire.admission.topic_schemas import received, sent
from pulsar_barycenter.broker.wire.bounds import TEXT_LENGTH
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.broker.wire.errors import error_text, lookup_error_code
from pulsar_barycenter.broker.wire.transaction_requests import require_no_coordinator
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

_MODES: Final = {0: "PERSISTENT", 1: "NON_PERSISTENT", 2: "ALL"}


def lookup(connection: Connection, request: api.CommandLookupTopic) -> Coroutine[Any, Any, None] | None:
    """Handle LOOKUP. If the owner of the topic's bundle is known, answer at once and return None; otherwise return a
    coroutine that looks it up and answers.
    """
    listener = request.advertised_listener_name
    answer: LookupAnswer | Exception
    try:
        topic = TopicName.parse(request.topic)
        connection.listener = listener[:TEXT_LENGTH]
        known = connection.services.lookup.lookup_cached(topic, listener or None)
        if known is None:
            return _look_up(connection, topic, request.request_id, listener or None, request.authoritative)
        answer = known
    except Exception as error:  # noqa: BLE001 (every error has an answer)
        answer = error
    connection.send(_frame(request.request_id, answer))
    return None


async def _look_up(
    connection: Connection, topic: TopicName, request_id: int, listener: str | None, authoritative: bool
) -> None:
    answer: LookupAnswer | Exception
    try:
        answer = await connection.services.lookup.lookup(topic, authoritative=authoritative, listener=listener)
    except Exception as error:  # noqa: BLE001 (every error has an answer)
        answer = error
    connection.send(_frame(request_id, answer))


def _frame(request_id: int, answer: LookupAnswer | Exception) -> bytes:
    """Return the frame of an answer to LOOKUP."""
    if isinstance(answer, Owner):
        return commands.lookup_connect(request_id, answer.broker_url or "", answer.broker_url_tls)
    if isinstance(answer, Redirect):
        url = answer.broker_url or ""
        return commands.lookup_redirect(request_id, url, answer.broker_url_tls, authoritative=answer.authoritative)
    return commands.lookup_failed(request_id, lookup_error_code(answer), error_text(answer))


async def partitions(connection: Connection, request: api.CommandPartitionedTopicMetadata) -> None:
    """Answer PARTITIONED_METADATA with the number of partitions, 0 if the topic is not partitioned."""
    request_id = request.request_id
    try:
        topic = TopicName.parse(request.topic)
        require_no_coordinator(topic)
        count = await connection.services.lookup.partitions(topic, auto_create=request.metadata_auto_creation_enabled)
    except Exception as error:  # noqa: BLE001 (every error has an answer)
        connection.send(commands.partitions_failed(request_id, lookup_error_code(error), error_text(error)))
        return
    connection.send(commands.partitions(request_id, count))


async def topics_of_namespace(connection: Connection, request: api.CommandGetTopicsOfNamespace) -> None:
    """Answer GET_TOPICS_OF_NAMESPACE with all topics of the namespace. The pattern in the request has no effect:
    clients apply it themselves.
    """
    request_id = request.request_id
    try:
        namespace = NamespaceName.parse(request.namespace)
        # One list at a time, and only when the client has read earlier answers: a short request may have a long one.
        async with connection.listing:
            await wait_writable(connection)
            topics = await connection.services.lookup.topics_of_namespace(namespace, _MODES[request.mode])
    except Exception as error:  # noqa: BLE001 (every error has an answer)
        connection.send(commands.error(request_id, lookup_error_code(error), error_text(error)))
        return
    connection.send(commands.topics_of_namespace_response(request_id, topics))


@dataclass(eq=False, slots=True)
class _Waiting:
    """A request that waits until the connection is writable. It is in the same queue as the dispatchers, so it has
    their method `dispatch`, which ends the wait.
    """

    woken: asyncio.Future[None]

    def dispatch(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


async def wait_writable(connection: Connection) -> None:
    """Wait until the connection is writable: the client has read enough of the earlier answers and messages."""
    while not connection.writable:
        waiting = _Waiting(asyncio.get_running_loop().create_future())
        connection.wake_when_writable(waiting)
        await waiting.woken


async def get_schema(connection: Connection, request: api.CommandGetSchema) -> None:
    """Answer GET_SCHEMA with the schema version that the request names, or with the latest version if it names none."""
    topic = TopicName.parse(request.topic)
    schemas = connection.services.registry.schemas
    # One at a time, and only when the client has read earlier answers: a short request may have a long one.
    async with connection.listing:
        await wait_writable(connection)
        if request.schema_version:
            found = await schemas.version(topic, version_of_bytes(request.schema_version))
        else:
            found = await schemas.latest(topic)
        if found is None:
            raise SchemaNotFoundError(f"Topic not found or no-schema {topic}")
        version = version_bytes(found.version)
        connection.send(commands.schema_response(request.request_id, sent(topic, found), version))


async def get_or_create_schema(connection: Connection, request: api.CommandGetOrCreateSchema) -> None:
    """Answer GET_OR_CREATE_SCHEMA with the version of the schema in the request. If the topic does not have this
    schema, and its rules allow it, add it first; if they do not allow it, the client gets an error.
    """
    services = connection.services
    schema = received(request.schema)
    topic = await services.registry.get_or_create(TopicName.parse(request.topic), create=False)
    version = await services.schemas.of_producer(topic, schema, connection.principal.client_role)
    connection.send(commands.create_schema_response(request.request_id, schema_version=version))


def refuse_watch(connection: Connection, request: api.CommandWatchTopicList | api.CommandWatchTopicListClose) -> None:
    """Refuse WATCH_TOPIC_LIST and WATCH_TOPIC_LIST_CLOSE. Clients do not normally send them, because this broker's
    CONNECTED does not say that it supports them.
    """
    connection.send(
        commands.error(request.request_id, api.NotAllowedError, "Topic watchers are not supported by this broker")
    )
