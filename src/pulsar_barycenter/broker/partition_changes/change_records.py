"""The stored part of changes: the topic's record, written by compare-and-set, and the list of changes in progress.

The topic's record is authoritative. The list only helps to find changes that no broker completes: an entry is written
before a change begins and deleted after it ended, so an entry may belong to an ended change. Each change has its own
entry.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final
from urllib.parse import quote, unquote

import msgspec
import structlog

from pulsar_barycenter.broker.namespaces.partitioned_changes import ChangePhase, PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from pulsar_barycenter.broker.namespaces.resources import Resources, partitioned_topic_name
from pulsar_barycenter.broker.partition_changes import plan
from pulsar_barycenter.broker.partition_changes.errors import ChangeBusyError, ChangeRefusedError
from pulsar_barycenter.metadata.errors import BadVersionError, InvalidValueError, NotFoundError
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import MAX_PARTITIONS, TopicName

log = structlog.get_logger(__name__)

CHANGES_ROOT: Final = "/barycenter/partitioned-changes"

_SEPARATOR: Final = "@"  # which is quoted in a topic's name

_Fields = dict[str, object]


class ChangeRecords:
    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store

    async def get(self, topic: TopicName) -> PartitionedTopicMetadata | None:
        """Return the record of a partitioned topic, read from the store now."""
        return await self._resources.partitioned_metadata(topic, fresh=True)

    async def pending(self, topic: TopicName) -> PartitionedChange | None:
        """Return the change of a partitioned topic that is in progress, read from the store now; None if
        there is none.
        """
        found = await self.get(topic)
        return None if found is None else found.pending

    async def listed(self) -> list[tuple[TopicName, str]]:
        """Return the (topic, change id) pairs in the list of changes. A listed change may be about to begin, in
        progress or ended; the topic's record shows which.
        """
        found = []
        for name in await self._store.children(CHANGES_ROOT):
            topic, _, change_id = name.partition(_SEPARATOR)
            with suppress(InvalidNameError):  # not written by a broker
                found.append((TopicName.parse(unquote(topic)), change_id))
        return found

    # ---- the steps of a change ----

    async def begin(self, topic: TopicName, change: PartitionedChange) -> int:
        """List `change`, whose phase is ASKING, and write it into the topic's record; return the number of partitions
        of the topic.

        Until the change ends, no other change of the topic can begin.

        Raises:
            ChangeBusyError: another change of the topic is in progress.
            ChangeRefusedError: with HTTP status 404, the partitioned topic does not exist.
            MetadataError: the store did not answer; it is not known whether the change has begun.
        """

        def begin(found: PartitionedTopicMetadata) -> PartitionedTopicMetadata:
            if found.pending is not None and found.pending.id != change.id:
                raise ChangeBusyError(topic, found.pending)
            return plan.begun(found, change)

        await self._store.put(_entry(topic, change.id), b"")
        try:
            begun = await self._update(topic, begin)
        except ChangeBusyError:
            await self.unlist(topic, change.id)
            raise
        except NotFoundError:
            await self.unlist(topic, change.id)
            raise ChangeRefusedError(404, f"Partitioned topic not found: {topic}") from None
        assert begun is not None, "the begin of a change does not delete the record"
        return min(max(0, begun.partitions), MAX_PARTITIONS)

    async def decide(self, topic: TopicName, change: PartitionedChange) -> None:
        """Write into the topic's record that `change` will be made, because all owners agreed: its phase is DOING from
        now on.

        Raises:
            ChangeRefusedError: with HTTP status 503, another broker has undone the change; with 404, the partitioned
                topic does not exist.
            MetadataError: the store did not answer; it is not known whether this was written.
        """

        def decide(found: PartitionedTopicMetadata) -> PartitionedTopicMetadata:
            if found.pending is None or found.pending.id != change.id:
                raise ChangeRefusedError(
                    503, f"Change {change.id} of {topic} took too long and was undone. Nothing was changed. Try again."
                )
            return plan.decided(found, change)

        try:
            await self._update(topic, decide)
        except NotFoundError:
            raise ChangeRefusedError(404, f"Partitioned topic not found: {topic}") from None

    async def undo(self, topic: TopicName, change: PartitionedChange) -> bool:
        """Remove `change` from the topic's record and from the list, if its phase is still ASKING. Return True after
        that, and also if the change has ended already. If its phase is DOING, change nothing and return False.

        Raises:
            MetadataError: the store did not answer.
        """

        def undo(found: PartitionedTopicMetadata) -> PartitionedTopicMetadata:
            pending = found.pending
            is_asking = pending is not None and pending.id == change.id and pending.phase is ChangePhase.ASKING
            return plan.undone(found) if is_asking else found

        with suppress(NotFoundError):
            left = await self._update(topic, undo)
            if left is not None and _is(left.pending, change):
                return False
        await self.unlist(topic, change.id)
        return True

    async def complete(self, topic: TopicName, change: PartitionedChange) -> None:
        """End a change after all partitions were changed: remove it from the topic's record and from the list. If the
        change deletes the topic, delete the record. Idempotent.

        Raises:
            MetadataError: the store did not answer.
        """
        with suppress(NotFoundError):
            await self._update(
                topic, lambda found: plan.completed(found, change) if _is(found.pending, change) else found
            )
        await self.unlist(topic, change.id)

    async def unlist(self, topic: TopicName, change_id: str) -> None:
        """Remove a change from the list of changes that may be in progress. The topic's record is not changed.
        Idempotent.
        """
        with suppress(NotFoundError):
            await self._store.delete(_entry(topic, change_id))

    async def _update(
        self, topic: TopicName, modify: Callable[[PartitionedTopicMetadata], PartitionedTopicMetadata | None]
    ) -> PartitionedTopicMetadata | None:
        """Store the result of `modify` as the topic's record, and return it. If `modify` returns None, delete the
        record. Fields that this version of Barycenter does not know are kept.

        If another writer changed the record since `modify` was called, `modify` is called again with the changed
        record. Raises NotFoundError if there is no record.
        """
        records = self._resources.partitioned_topics
        path = records.path(partitioned_topic_name(topic))
        while True:
            record = await self._store.get(path)
            if record is None:
                raise NotFoundError(path)
            try:
                fields = msgspec.json.decode(record.value, type=_Fields)
                found = msgspec.json.decode(record.value, type=PartitionedTopicMetadata)
            except msgspec.DecodeError as error:
                raise InvalidValueError(path, str(error)) from error
            changed = modify(found)
            if changed == found:
                return changed
            version = record.stat.version
            with suppress(BadVersionError):
                if changed is None:
                    await self._store.delete(path, expected_version=version)
                else:
                    await self._store.put(path, _merged(fields, changed), expected_version=version)
                return changed


def _merged(fields: _Fields, changed: PartitionedTopicMetadata) -> bytes:
    known = {field.encode_name for field in msgspec.structs.fields(PartitionedTopicMetadata)}
    kept = {name: value for name, value in fields.items() if name not in known}
    return msgspec.json.encode(kept | msgspec.to_builtins(changed))


def _is(pending: PartitionedChange | None, change: PartitionedChange) -> bool:
    return pending is not None and pending.id == change.id


def _entry(topic: TopicName, change_id: str) -> str:
    return f"{CHANGES_ROOT}/{quote(str(topic), safe='')}{_SEPARATOR}{change_id}"
