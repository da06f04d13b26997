"""The stored schemas of a topic: one key lists the versions, and each version has a key of its own with its definition.

| key below `/barycenter/schemas`         | value                                                |
|-----------------------------------------|------------------------------------------------------|
| `<tenant>/<namespace>/<topic>`          | the versions in ascending order, see `VersionRecord` |
| `<tenant>/<namespace>/<topic>/v<number>` | the definition and the properties of one version     |

A change takes effect when the list of versions (the first key) is written, by compare-and-set. A definition is written
before the list, and is never changed. If the writer ends in between, the definition belongs to no version. Such a
definition, and an empty list, stay until the namespace is deleted: if a list were deleted and created again, its key
would have a former version again, and a writer that read the old list could replace the new one.

Source: Pulsar's `BookkeeperSchemaStorage`. Its list, at `/schemas`, points to ledgers in BookKeeper, which this broker
does not always have. So brokers of Pulsar that use the same store have their own schemas in other keys.
"""

from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.broker.schemas.schema import Schema, SchemaType, StoredSchema
from pulsar_barycenter.metadata.errors import (
    BadVersionError,
    InvalidValueError,
    NotFoundError,
)
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore
from pulsar_barycenter.naming.topic import TopicName

SCHEMAS_ROOT: Final = "/barycenter/schemas"

T = TypeVar("T")

_KEPT: Final = 64
"""The maximum number of definitions that are cached in memory, of up to MAX_SCHEMA_BYTES each."""
_MAX_USER: Final = 200
"""The maximum number of characters of the role that is stored with a version."""


class VersionRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An entry in a topic's list of schema versions: a version, or the mark that all versions before it were deleted.

    `identity` is the result of `compatibility.identity_of`. `timestamp` (ms since 1970) is when the version was stored,
    and `user` the role that stored it. `size` is the size of the definition in bytes. `definition` names the key that
    has the definition; it is blank for the mark of a deletion.
    """

    version: int
    identity: str = ""
    timestamp: int = 0
    user: str = ""
    size: int = 0
    definition: str = ""

    @property
    def is_deletion(self) -> bool:
        return not self.definition


class _Versions(msgspec.Struct, frozen=True):
    versions: tuple[VersionRecord, ...] = ()


class _Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    data: bytes = b""
    properties: dict[str, str] = {}


class History(msgspec.Struct, frozen=True):
    """A topic's list of schema versions at the time when it was read. `stored_at` is the version of the key that has
    the list, for a later compare-and-set.
    """

    versions: tuple[VersionRecord, ...] = ()
    stored_at: int = MUST_NOT_EXIST

    @property
    def live(self) -> tuple[VersionRecord, ...]:
        """The schema versions since the last deletion, in ascending order."""
        marks = [index for index, record in enumerate(self.versions) if record.is_deletion]
        return self.versions[marks[-1] + 1 :] if marks else self.versions

    @property
    def next_version(self) -> int:
        return self.versions[-1].version + 1 if self.versions else 0


class SchemaRecords:
    """Reads and writes the stored schemas. All methods raise MetadataError if the store does not answer, or a record is
    damaged.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._kept: Recent[tuple[str, VersionRecord], Schema] = Recent(_KEPT)

    async def history(self, topic: TopicName) -> History:
        path = _path(topic)
        found = await self._store.get(path)
        if found is None:
            return History()
        return History(_decoded(path, found.value, _Versions).versions, found.stat.version)

    async def read(self, topic: TopicName, record: VersionRecord) -> StoredSchema | None:
        """Read the schema of a version that is not the mark of a deletion; None if the topic's schemas were removed
        since the list was read.
        """
        path = f"{_path(topic)}/{record.definition}"
        schema = self._kept.get((path, record))
        if schema is None:
            found = await self._store.get(path)
            if found is None:
                return None
            stored = _decoded(path, found.value, _Definition)
            if stored.type not in SchemaType.__members__:
                raise InvalidValueError(
                    path, f"the stored schema has the type {stored.type[:40]!r}, which this broker does not know"
                )
            schema = Schema(SchemaType[stored.type], stored.data, stored.properties)
            self._kept.put((path, record), schema)
        return StoredSchema(record.version, schema, record.timestamp, record.user)

    async def append(
        self, topic: TopicName, history: History, schema: Schema, identity: str, *, now_ms: int, user: str
    ) -> int:
        """Add a version to a topic's list, and return its number.

        Raises:
            BadVersionError: another writer changed the versions since `history` was read; nothing was added.
        """
        value = _Definition(schema.type.name, schema.data, dict(schema.properties))
        definition = await self._store.put(f"{_path(topic)}/v", msgspec.json.encode(value), sequential=True)
        name = definition.path.rpartition("/")[2]
        record = VersionRecord(history.next_version, identity, now_ms, user[:_MAX_USER], len(schema.data), name)
        try:
            await self._write(topic, (*history.versions, record), history.stored_at)
        except BadVersionError:
            with suppress(NotFoundError):
                await self._store.delete(definition.path)
            raise
        return record.version

    async def mark_deleted(self, topic: TopicName, history: History, *, now_ms: int, user: str) -> int:
        """Add the mark of a deletion to a topic's list, and return its version number.

        Raises:
            BadVersionError: another writer changed the list since `history` was read; nothing was added.
        """
        record = VersionRecord(history.next_version, timestamp=now_ms, user=user[:_MAX_USER])
        await self._write(topic, (*history.versions, record), history.stored_at)
        return record.version

    async def remove(self, topic: TopicName, history: History) -> None:
        """Delete all schema versions of a topic; the next one has number 0 again.

        Raises:
            BadVersionError: another writer changed the list since `history` was read; nothing was deleted.
        """
        path = _path(topic)
        await self._write(topic, (), history.stored_at)
        for record in history.versions:  # no others: they may be of a writer that is about to list its own
            if not record.is_deletion:
                with suppress(NotFoundError):
                    await self._store.delete(f"{path}/{record.definition}")

    async def _write(self, topic: TopicName, versions: tuple[VersionRecord, ...], at: int) -> None:
        await self._store.put(_path(topic), msgspec.json.encode(_Versions(versions)), expected_version=at)


def _path(topic: TopicName) -> str:
    """Return the path of the key with a topic's list of schema versions. All partitions of a topic share it.

    Source: Pulsar's `TopicName.getSchemaName`.
    """
    base = topic.partitioned_name
    return f"{SCHEMAS_ROOT}/{base.namespace}/{base.encoded_local_name}"


def _decoded(path: str, value: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.DecodeError as error:
        raise InvalidValueError(path, str(error)) from error
