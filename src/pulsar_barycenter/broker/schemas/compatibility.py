"""Decides whether a schema is compatible with those that a topic has, by the strategy of the topic. No I/O.

| strategy                             | the new schema                                  | is compared with |
|--------------------------------------|-------------------------------------------------|------------------|
| ALWAYS_INCOMPATIBLE                  | must be one that the topic has                  | -                |
| ALWAYS_COMPATIBLE                    | may be any, also of another type                | -                |
| BACKWARD, BACKWARD_TRANSITIVE        | reads data of the existing ones                 | the latest, all  |
| FORWARD, FORWARD_TRANSITIVE          | writes data that the existing ones read         | the latest, all  |
| FULL, FULL_TRANSITIVE                | both                                            | the latest, all  |

That is for the schema of a producer. The schema of a consumer has to read data: with BACKWARD, FORWARD,
FORWARD_TRANSITIVE and FULL it is compared with the latest existing schema, as by BACKWARD. With the other strategies it
is compared with all existing schemas, by the strategy itself; with ALWAYS_COMPATIBLE, with none.

Types that differ are never compatible, except by ALWAYS_COMPATIBLE. Primitive types are compatible if they are equal.
The parts of KEY_VALUE schemas are compared one by one.

Source: Pulsar's `SchemaRegistryServiceImpl`, `AvroSchemaBasedCompatibilityCheck`, `JsonSchemaCompatibilityCheck`,
`KeyValueSchemaCompatibilityCheck`, `ProtobufNativeSchemaCompatibilityCheck`.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from pulsar_barycenter.broker.schemas.avro.identity import identity
from pulsar_barycenter.broker.schemas.avro.parsing import parse, read_json
from pulsar_barycenter.broker.schemas.avro.resolution import why_unreadable
from pulsar_barycenter.broker.schemas.avro.types import AvroSchema
from pulsar_barycenter.broker.schemas.errors import IncompatibleSchemaError, InvalidSchemaError
from pulsar_barycenter.broker.schemas.key_value import parts_of
from pulsar_barycenter.broker.schemas.native_protobuf import root_message
from pulsar_barycenter.broker.schemas.schema import AVRO_DEFINED, Schema, SchemaType, StoredSchema
from pulsar_barycenter.broker.schemas.validation import avro_or_none, is_json_schema

T = TypeVar("T")


class Strategy(enum.StrEnum):
    UNDEFINED = "UNDEFINED"
    """The strategy is not set: that of the next level applies (the namespace, then the broker, then FULL)."""
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self in (Strategy.BACKWARD_TRANSITIVE, Strategy.FORWARD_TRANSITIVE, Strategy.FULL_TRANSITIVE)


_READS: Final = frozenset({Strategy.BACKWARD, Strategy.BACKWARD_TRANSITIVE, Strategy.FULL, Strategy.FULL_TRANSITIVE})
"""The strategies by which the new schema has to read data of the existing schemas."""
_IS_READ: Final = frozenset({Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE, Strategy.FULL, Strategy.FULL_TRANSITIVE})
"""The strategies by which the existing schemas have to read data of the new schema."""
_CONSUMERS_BY_LATEST: Final = frozenset(
    {Strategy.BACKWARD, Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE, Strategy.FULL}
)


BY_OLD_NAME: Final[Mapping[str, Strategy]] = {
    "AutoUpdateDisabled": Strategy.ALWAYS_INCOMPATIBLE,
    "Backward": Strategy.BACKWARD,
    "Forward": Strategy.FORWARD,
    "Full": Strategy.FULL,
    "AlwaysCompatible": Strategy.ALWAYS_COMPATIBLE,
    "BackwardTransitive": Strategy.BACKWARD_TRANSITIVE,
    "ForwardTransitive": Strategy.FORWARD_TRANSITIVE,
    "FullTransitive": Strategy.FULL_TRANSITIVE,
}
"""The strategies by the names that Pulsar's `SchemaAutoUpdateCompatibilityStrategy` has for them."""


def effective(*levels: Strategy) -> Strategy:
    """Return the first of the strategies that is not UNDEFINED; FULL if all are."""
    return next((level for level in levels if level is not Strategy.UNDEFINED), Strategy.FULL)


def identity_of(schema: Schema) -> str:
    """Return a text by which the broker decides whether a schema is a new version. If two schemas of a topic have the
    same text, they are one version; otherwise they are different versions.

    Avro definitions have the same text if they mean the same (see `avro.identity`), other definitions only if their
    bytes are equal.
    """
    meaning = avro_or_none(schema.data) if schema.type in AVRO_DEFINED else None
    return f"{schema.type.name}:{schema.digest if meaning is None else identity(meaning)}"


def compared(versions: Sequence[T], strategy: Strategy, *, of_consumer: bool) -> Sequence[T]:
    """Return those of a topic's schema versions with which a new schema has to be compatible: none, only the latest, or
    all, as the strategy says. `versions` is in ascending order. `of_consumer` is True if a consumer sent the new
    schema.
    """
    by_latest = strategy in _CONSUMERS_BY_LATEST if of_consumer else not strategy.is_transitive
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return ()
    return versions[-1:] if by_latest else versions


def comparing(strategy: Strategy, *, of_consumer: bool) -> Strategy:
    """Return the strategy for comparing a new schema with one version. It is `strategy`, except for some strategies if
    a consumer sent the schema: then it is BACKWARD, so that the consumer can read the data.
    """
    return Strategy.BACKWARD if of_consumer and strategy in _CONSUMERS_BY_LATEST else strategy


def require_compatible(existing: StoredSchema, new: Schema, strategy: Strategy) -> None:
    """Check that a new schema is compatible with an existing version, by a strategy that `comparing` returned.

    Raises:
        IncompatibleSchemaError: the strategy does not allow the new schema, or a definition is not valid.
    """
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return
    old = existing.schema
    if old.type is not new.type:
        raise IncompatibleSchemaError(
            f"Incompatible schema: exists schema type {old.type.name}, new schema type {new.type.name}"
        )
    if old.data == new.data:
        return
    try:
        reason = _why_incompatible(old, new, strategy)
    except InvalidSchemaError as error:
        reason = f"a definition is not valid: {error}"
    if reason is not None:
        raise IncompatibleSchemaError(
            f"The schema is incompatible with version {existing.version} by strategy {strategy}: {reason}"
        )


def _why_incompatible(old: Schema, new: Schema, strategy: Strategy) -> str | None:
    if strategy is Strategy.ALWAYS_INCOMPATIBLE:
        return "the strategy allows no change"
    if new.type is SchemaType.KEY_VALUE:
        return _why_parts_differ(old, new, strategy)
    if new.type is SchemaType.PROTOBUF_NATIVE:
        before, after = root_message(old.data), root_message(new.data)
        return None if before == after else f"the root message was {before}, and would be {after}"
    if new.type is SchemaType.JSON and (is_json_schema(old.data) or is_json_schema(new.data)):
        return _why_json_differs(old, new)
    if new.type in AVRO_DEFINED:
        return _why_unreadable(parse(old.data), parse(new.data), strategy)
    return None


def _why_unreadable(old: AvroSchema, new: AvroSchema, strategy: Strategy) -> str | None:
    if strategy in _READS and (reason := why_unreadable(reader=new, writer=old)) is not None:
        return f"the new schema cannot read data of the existing one: {reason}"
    if strategy in _IS_READ and (reason := why_unreadable(reader=old, writer=new)) is not None:
        return f"the existing schema cannot read data of the new one: {reason}"
    return None


def _why_parts_differ(old: Schema, new: Schema, strategy: Strategy) -> str | None:
    for name, before, after in zip(("key", "value"), parts_of(old), parts_of(new), strict=True):
        if before.type is not after.type:
            return f"the {name} was {before.type.name}, and would be {after.type.name}"
        reason = None if before.data == after.data else _why_incompatible(before, after, strategy)
        if reason is not None:
            return f"the {name}: {reason}"
    return None


def _why_json_differs(old: Schema, new: Schema) -> str | None:
    """Return why two JSON schemas are not compatible, None if they are. If both are in the format of clients before
    Pulsar 2.1, they must have the same `id`; in all other cases the result is None.
    """
    if not (is_json_schema(old.data) and is_json_schema(new.data)):
        return None
    before, after = read_json(old.data).get("id"), read_json(new.data).get("id")
    return None if before == after else f"the id of the JSON schema was {before!r:.100}, and would be {after!r:.100}"
