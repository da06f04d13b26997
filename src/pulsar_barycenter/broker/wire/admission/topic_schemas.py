"""Checks the schema with which a client attaches to a topic, and adds it to the topic's schemas where that is allowed.

| client                 | topic                                        | then                         |
|------------------------|----------------------------------------------|------------------------------|
| producer with a schema | any                                          | the schema is found or added |
| producer without one   | has a schema, and `schemaValidationEnforced` | refused                      |
| consumer with a schema | has none, no clients and no messages         | the schema is added          |
| consumer with a schema | any other                                    | it must be able to read      |
| consumer without one   | any                                          | attached                     |

Consumers that take the topic's schema (AUTO_CONSUME) do not count as clients here. A schema of the type NONE is a
schema as any other; the client for Go sends it for bytes. Java's client sends no schema for bytes.

Source: Pulsar's `ServerCnx.tryAddSchema`, `PersistentTopic.addSchemaIfIdleOrCheckCompatible`.
"""

from collections.abc import Mapping

from pulsar_barycenter.broker.schemas.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaNotFoundError,
)
from pulsar_barycenter.broker.schemas.schema import (
    CLIENT_SIDE,
    Schema,
    SchemaType,
    StoredSchema,
    type_of_number,
    version_bytes,
)
from pulsar_barycenter.broker.schemas.schema_registry import SchemaRegistry
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import pulsar_api_pb2 as api

NO_VERSION = b""
"""The schema version of a client without a schema."""


def received(message: api.Schema) -> Schema:
    """Return the schema in a command.

    Raises:
        InvalidSchemaError: its type is not known, or a property is not UTF-8.
    """
    properties: dict[str, str] = {}
    for pair in message.properties:
        if not all(isinstance(text, str) for text in (pair.key, pair.value)):
            raise InvalidSchemaError("a property of the schema is not UTF-8")
        properties[pair.key] = pair.value
    return Schema(type_of_number(message.type), message.schema_data, properties)


def sent(topic: TopicName, stored: StoredSchema) -> api.Schema:
    """Return the protocol message for a stored schema. The name in it is that of the topic, without domain and
    partition.
    """
    base = topic.partitioned_name
    schema = stored.schema
    return api.Schema(
        name=f"{base.namespace}/{base.encoded_local_name}",
        schema_data=schema.data,
        type=api.Schema.Type.ValueType(schema.type),
        properties=_pairs(schema.properties),
    )


def _pairs(properties: Mapping[str, str]) -> list[api.KeyValue]:
    return [api.KeyValue(key=key, value=value) for key, value in properties.items()]


class TopicSchemas:
    """Checks the schemas of producers and consumers when they attach. All methods raise MetadataError if stored schemas
    could not be read or written.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    async def of_producer(self, topic: Topic, schema: Schema | None, user: str) -> bytes:
        """Return the version of a producer's schema, which the producer puts into its messages; NO_VERSION if it has no
        schema. If the topic does not have this schema yet, add it as a new version if the rules of the topic allow
        this.

        Raises:
            SchemaError: the rules do not allow the schema, or the topic requires one and the producer has none. The
                producer must not attach.
        """
        rules = await topic.host.policies.schema_rules(topic.name)
        if schema is not None:
            return version_bytes(await self._registry.add(topic.name, schema, rules, user=user))
        if rules.are_enforced and await self._registry.has_schema(topic.name):
            raise IncompatibleSchemaError(
                "Producers cannot connect or send message without a schema to topics with a schema when "
                f"SchemaValidationEnforced is enabled: create the producer of {topic.name} with a schema"
            )
        return NO_VERSION

    async def of_consumer(self, topic: Topic, schema: Schema | None, user: str) -> None:
        """Check that a consumer may attach with its schema. A consumer without a schema may always attach. If the topic
        has no schema, and neither messages nor clients that use it, add the consumer's schema to the topic.

        Raises:
            SchemaError: the topic's rules do not allow the schema, or the topic is in use without a schema. The
                consumer must not attach.
        """
        if schema is None or schema.type is SchemaType.AUTO_CONSUME:
            return
        if schema.type in CLIENT_SIDE:
            raise InvalidSchemaError(
                f"Schema {schema.type.name} is a client-side schema type: subscribe with another type, or AUTO_CONSUME"
            )
        rules = await topic.host.policies.schema_rules(topic.name)
        if not _is_in_use(topic) and not await self._registry.has_schema(topic.name):
            await self._registry.add(topic.name, schema, rules, user=user)
            return
        try:
            await self._registry.require_compatible(topic.name, schema, rules.strategy, of_consumer=True)
        except SchemaNotFoundError:
            raise IncompatibleSchemaError(
                "Failed to add schema to an active topic with empty(BYTES) schema: new schema type "
                f"{schema.type.name}. Topic {topic.name} has clients or messages without a schema: use no schema, or "
                "upload a schema for the topic"
            ) from None


def _is_in_use(topic: Topic) -> bool:
    return (
        bool(topic.producers)
        or topic.has_messages
        or any(not consumer.takes_any_schema for consumer in topic.consumers())
    )
