"""Answers requests about schemas of topics: shows, adds, checks and deletes versions. Every broker answers for every
topic.

Definitions are texts; that of a KEY_VALUE schema is an object with `key` and `value`.
Source: Pulsar's `SchemasResource`, where only the owner of the topic answers.
"""

from typing import Any

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.ownership import require_namespace
from pulsar_barycenter.broker.rest.principals import PRINCIPAL
from pulsar_barycenter.broker.rest.requests import decoded, flag, json_response, topic_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.schemas.bounds import MAX_SCHEMA_BYTES
from pulsar_barycenter.broker.schemas.errors import IncompatibleSchemaError, SchemaNotFoundError
from pulsar_barycenter.broker.schemas.key_value import from_json, to_json
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.broker.schemas.schema import Schema, SchemaType, StoredSchema, type_of_name
from pulsar_barycenter.naming.topic import TopicName

_LONGEST_VERSION = 19
"""The maximum number of digits of a schema version, which has 63 bits."""


class PostSchemaPayload(msgspec.Struct):
    """A schema in the body of a request: the name of its type, its definition, and its properties."""

    type: str
    schema: str | None = None
    properties: dict[str, str] | None = None


class Schemas:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._schemas = services.registry.schemas

    async def latest(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        return json_response(_shown(_found(topic, await self._schemas.latest(topic))))

    async def version(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        digits = request.match_info["version"]
        version = int(digits) if len(digits) <= _LONGEST_VERSION else -1
        return json_response(_shown(_found(topic, await self._schemas.version(topic, version))))

    async def versions(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        return json_response({"getSchemaResponses": [_shown(stored) for stored in await self._schemas.versions(topic)]})

    async def metadata(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        stored = await self._schemas.versions(topic)
        if not stored:
            raise RestError(404, f"Topic {topic} has no schema")
        index = [{"ledgerId": -1, "entryId": -1, "version": found.version} for found in stored]
        return json_response({"info": index[-1], "index": index})

    async def add(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        schema = await _received(request)
        if schema.type is SchemaType.BYTES:
            raise RestError(406, "Do not upload a BYTES schema, because it's the default schema type")
        rules = SchemaRules((await self._services.resources.schema_rules(topic)).strategy)
        version = await self._schemas.add(topic, schema, rules, user=_user(request))
        return json_response({"version": {"version": version}})

    async def delete(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        version = await self._schemas.delete(topic, force=flag(request, "force"), user=_user(request))
        return json_response({"version": version})

    async def check(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        schema = await _received(request)
        strategy = (await self._services.resources.schema_rules(topic)).strategy
        verdict: dict[str, Any] = {"compatibility": True, "schemaCompatibilityStrategy": strategy}
        try:
            await self._schemas.require_compatible(topic, schema, strategy)
        except IncompatibleSchemaError as error:
            verdict |= {"compatibility": False, "reason": str(error)}
        return json_response(verdict, status=202)

    async def find(self, request: web.Request) -> web.Response:
        topic = await self._topic(request)
        return json_response({"version": await self._schemas.version_of(topic, await _received(request))})

    async def _topic(self, request: web.Request) -> TopicName:
        topic = topic_of(request)
        await require_namespace(self._services, topic.namespace)
        return topic


async def _received(request: web.Request) -> Schema:
    """Return the schema in the body of a request.

    Raises:
        RestError: 400, the body has no schema, or its schema is too long.
        InvalidSchemaError: the type of the schema is not known, or it is KEY_VALUE and the definition does not have a
            key part and a value part.
    """
    data = await request.read()
    if not data.strip():
        raise RestError(
            400, 'The body is empty: send a schema such as {"type": "AVRO", "schema": "…", "properties": {}}'
        )
    payload: PostSchemaPayload = decoded(data, PostSchemaPayload, max_text=MAX_SCHEMA_BYTES)
    kind, definition = type_of_name(payload.type), payload.schema or ""
    encoded = from_json(definition) if kind is SchemaType.KEY_VALUE else definition.encode()
    return Schema(kind, encoded, payload.properties or {})


def _user(request: web.Request) -> str:
    principal: Principal = request[PRINCIPAL]
    return principal.client_role


def _found(topic: TopicName, stored: StoredSchema | None) -> StoredSchema:
    if stored is None:
        raise SchemaNotFoundError(
            f"Schema not found: topic {topic} has no schema, or its schema does not have the requested version"
        )
    return stored


def _shown(stored: StoredSchema) -> dict[str, Any]:
    schema = stored.schema
    is_pair = schema.type is SchemaType.KEY_VALUE
    return {
        "version": stored.version,
        "type": schema.type.name,
        "timestamp": stored.timestamp_ms,
        "data": to_json(schema.data) if is_pair else schema.data.decode(errors="replace"),
        "properties": dict(schema.properties),
    }
