"""The schemas of all topics: reads them, adds versions by the rules of the topic, and deletes them.

Any broker may do this for any topic, because partitions of one topic have different owners. A version is added only if
no other version was added since the comparison. So two brokers never lose a version, and never add two that contradict
each other.
Source: Pulsar's `SchemaRegistryServiceImpl`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import structlog

from pulsar_barycenter.broker.schemas.bounds import MAX_TOPIC_BYTES, MAX_VERSIONS
from pulsar_barycenter.broker.schemas.compatibility import (
    Strategy,
    compared,
    comparing,
    identity_of,
    require_compatible,
)
from pulsar_barycenter.broker.schemas.errors import IncompatibleSchemaError, SchemaNotFoundError
from pulsar_barycenter.broker.schemas.rules import SchemaRules
from pulsar_barycenter.broker.schemas.schema import Schema, StoredSchema
from pulsar_barycenter.broker.schemas.schema_records import History, SchemaRecords, VersionRecord
from pulsar_barycenter.broker.schemas.validation import require_valid
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.errors import BadVersionError, InvalidValueError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

T = TypeVar("T")

_ATTEMPTS: Final = 30
_PAUSE_S: Final = 0.02
NO_VERSION: Final = -1


class SchemaRegistry:
    """Reads and changes stored schemas. A topic's partitions have the schemas of the partitioned topic.

    All methods raise MetadataError if the store does not answer or a record is damaged.
    """

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._records = SchemaRecords(store)
        self._clock = clock
        self._turns: WeakValueDictionary[TopicName, asyncio.Lock] = WeakValueDictionary()

    # ---- reading ----

    async def has_schema(self, topic: TopicName) -> bool:
        return bool((await self._records.history(topic)).live)

    async def latest(self, topic: TopicName) -> StoredSchema | None:
        """Return the latest schema version of a topic, None if the topic has no schema."""
        return await self._consistent(topic, lambda live: self._last(topic, live[-1:]))

    async def version(self, topic: TopicName, version: int) -> StoredSchema | None:
        """Return a schema version of a topic, None if the topic never had this version, or it was deleted."""
        return await self._consistent(
            topic, lambda live: self._last(topic, [record for record in live if record.version == version])
        )

    async def versions(self, topic: TopicName) -> list[StoredSchema]:
        """Return all schema versions of a topic since the last deletion, in ascending order."""

        async def read(live: Sequence[VersionRecord]) -> list[StoredSchema]:
            return [stored async for stored in self._read(topic, live)]

        return await self._consistent(topic, read)

    async def version_of(self, topic: TopicName, schema: Schema) -> int:
        """Return the version of a topic's schema that is the same as `schema`, NO_VERSION if there is none.

        Raises:
            InvalidSchemaError: the schema is not valid.
        """
        require_valid(schema)
        return _same((await self._records.history(topic)).live, identity_of(schema))

    # ---- checking ----

    async def require_compatible(
        self, topic: TopicName, schema: Schema, strategy: Strategy, *, of_consumer: bool = False
    ) -> None:
        """Check a new schema against the stored schemas of a topic. For the schema of a consumer (`of_consumer`), the
        topic must have a schema.

        Raises:
            InvalidSchemaError: the schema is not valid.
            SchemaNotFoundError: the schema is a consumer's, and the topic has no schema.
            IncompatibleSchemaError: the strategy does not allow the schema.
        """
        require_valid(schema)
        if of_consumer and strategy is Strategy.ALWAYS_COMPATIBLE:
            return

        async def compare(live: Sequence[VersionRecord]) -> None:
            if of_consumer and not live:
                raise SchemaNotFoundError(
                    f"Topic {topic} has no schema, so the consumer's schema cannot be checked: "
                    "upload a schema for the topic, or subscribe without a schema"
                )
            await self._compare(topic, live, schema, strategy, of_consumer=of_consumer)

        await self._consistent(topic, compare)

    # ---- changing ----

    async def add(self, topic: TopicName, schema: Schema, rules: SchemaRules, *, user: str = "") -> int:
        """Return the version of a topic's schema that is the same as `schema`; add a version if there is none.

        Raises:
            InvalidSchemaError: the schema is not valid.
            IncompatibleSchemaError: the rules do not allow to add the schema, or the topic would have too many versions
                or bytes of schemas.
        """
        require_valid(schema)
        identity = identity_of(schema)

        async def attempt(history: History) -> int:
            same = _same(history.live, identity)
            if same != NO_VERSION:
                return same
            if not rules.may_update:
                raise IncompatibleSchemaError(
                    f"Schema not found and schema auto updating is disabled for topic {topic}: upload the schema, or "
                    "allow updates with is-allow-auto-update-schema of the namespace"
                )
            _require_room(topic, history, schema)
            await self._compare(topic, history.live, schema, rules.strategy, of_consumer=False)
            added = await self._records.append(topic, history, schema, identity, now_ms=self._clock.now_ms(), user=user)
            log.info("schema_added", topic=str(topic), version=added, type=schema.type.name)
            return added

        return await self._change(topic, attempt)

    async def delete(self, topic: TopicName, *, force: bool, user: str = "") -> int:
        """Delete the schema of a topic, and return the version number of the deletion. Later versions have higher
        numbers. If the schema is deleted already, return the number of the last deletion.

        With `force` all versions are deleted from the store, the number of the last one is returned, and later versions
        start at 0 again. The result is NO_VERSION if the topic never had a schema, or none since a deletion with
        `force`.
        """

        async def attempt(history: History) -> int:
            last = history.versions[-1].version if history.versions else NO_VERSION
            if force and history.versions:
                await self._records.remove(topic, history)
            elif history.live:
                last = await self._records.mark_deleted(topic, history, now_ms=self._clock.now_ms(), user=user)
            else:
                return last
            log.info("schema_deleted", topic=str(topic), version=last, force=force)
            return last

        return await self._change(topic, attempt)

    async def _change(self, topic: TopicName, attempt: Callable[[History], Awaitable[int]]) -> int:
        """Call `attempt` with a topic's list of versions, and return its result. If another writer changed the list
        during the call, call `attempt` again with the new list. If this happens _ATTEMPTS times, raise the error of the
        last call.
        """
        turn = self._turns.setdefault(topic.partitioned_name, asyncio.Lock())
        async with turn:
            for number in range(_ATTEMPTS):
                try:
                    return await attempt(await self._records.history(topic))
                except (BadVersionError, _ReplacedError):
                    if number == _ATTEMPTS - 1:
                        raise
                    await asyncio.sleep(_PAUSE_S)
        raise AssertionError("the last attempt neither returned nor raised an error: this is a bug of Barycenter")

    # ---- versions ----

    async def _compare(
        self,
        topic: TopicName,
        live: Sequence[VersionRecord],
        schema: Schema,
        strategy: Strategy,
        *,
        of_consumer: bool,
    ) -> None:
        async for existing in self._read(topic, compared(live, strategy, of_consumer=of_consumer)):
            require_compatible(existing, schema, comparing(strategy, of_consumer=of_consumer))
            await asyncio.sleep(0)  # a comparison may be long, and there may be MAX_VERSIONS

    async def _last(self, topic: TopicName, live: Sequence[VersionRecord]) -> StoredSchema | None:
        found = [stored async for stored in self._read(topic, live)]
        return found[-1] if found else None

    async def _read(self, topic: TopicName, live: Sequence[VersionRecord]) -> AsyncIterator[StoredSchema]:
        for record in live:
            stored = await self._records.read(topic, record)
            if stored is None:
                raise _ReplacedError(
                    str(topic), f"version {record.version} of the schema has no definition in the metadata store"
                )
            yield stored

    async def _consistent(self, topic: TopicName, read: Callable[[Sequence[VersionRecord]], Awaitable[T]]) -> T:
        """Call `read` with the schema versions of a topic, and return its result. If the versions were removed during
        the call, call `read` again with those that exist then. If this happens _ATTEMPTS times, raise the error of the
        last call.
        """
        for number in range(_ATTEMPTS):
            try:
                return await read((await self._records.history(topic)).live)
            except _ReplacedError:
                if number == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_PAUSE_S)
        raise AssertionError("the last attempt neither returned nor raised an error: this is a bug of Barycenter")


class _ReplacedError(InvalidValueError):
    """Raised when the definition of a schema version is missing in the store: all versions were removed after the list
    of versions was read, or the store lost it.
    """


def _require_room(topic: TopicName, history: History, schema: Schema) -> None:
    if len(history.versions) >= MAX_VERSIONS:
        raise IncompatibleSchemaError(
            f"The schema of topic {topic} has {len(history.versions)} versions; at most {MAX_VERSIONS} are allowed: "
            "delete the schema of the topic with force=true first"
        )
    size = sum(record.size for record in history.live) + len(schema.data)
    if size > MAX_TOPIC_BYTES:
        raise IncompatibleSchemaError(
            f"The schemas of topic {topic} would have {size} bytes together; at most {MAX_TOPIC_BYTES} are allowed: "
            "delete the schema of the topic first"
        )


def _same(live: Sequence[VersionRecord], identity: str) -> int:
    return next((record.version for record in live if record.identity == identity), NO_VERSION)
