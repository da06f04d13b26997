"""Carries out changes of partitioned topics: asks the owners of the partitions, decides, and sees that the change is
completed.

Any broker may coordinate, and several may complete the same change, because every step may be repeated. If the
coordinator is lost, other brokers complete or undo the change: the broker that gets the next request about the topic, a
broker on which a client uses a partition, and the leader, which searches for such changes every SWEEP_S seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

import msgspec
import structlog
from msgspec.structs import replace

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.bounds.back_off import Doubling
from pulsar_barycenter.bounds.recent import Recent
from pulsar_barycenter.broker.authorization.topic_grants import forget_grants
from pulsar_barycenter.broker.namespaces.boundaries import needs_no_record
from pulsar_barycenter.broker.namespaces.partitioned_changes import ChangeKind, ChangePhase, PartitionedChange
from pulsar_barycenter.broker.namespaces.policies import PartitionedTopicMetadata
from pulsar_barycenter.broker.namespaces.resources import Resources
from pulsar_barycenter.broker.partition_changes import plan
from pulsar_barycenter.broker.partition_changes.change_records import ChangeRecords
from pulsar_barycenter.broker.partition_changes.errors import (
    ChangeBusyError,
    ChangePendingError,
    ChangeRefusedError,
    PartitionedChangeError,
)
from pulsar_barycenter.broker.partition_changes.partition_owner import PartRequest, Step
from pulsar_barycenter.broker.partition_changes.plan import PartAnswer, Silence, Willingness
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

SWEEP_S: Final = 10.0
ASK_S: Final = 15.0
"""The number of seconds that the owners of all partitions may take to agree, in addition to PER_PARTITION_S for each
partition.
"""
DO_S: Final = 30.0
"""The number of seconds that a request waits until all partitions are changed, in addition to PER_PARTITION_S for each.
If they are not changed by then, the request fails with ChangePendingError, and the change continues.
"""
PER_PARTITION_S: Final = 0.02
LATE_WRITE_S: Final = 60.0
"""The number of seconds after a failed request to the store in which its write may still take effect."""
CONCURRENT_REQUESTS: Final = 32
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0
MOST_SEEN: Final = 1_000
"""The maximum number of changes for which this broker keeps when it first saw them."""

_RETRY_STATUSES: Final = frozenset({0, 307, 408, 409, 412, 429})
"""HTTP statuses with which a broker answers that does not serve the partition at the moment, in addition to all from
500 on.
"""


Owners: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""A function that sends a PartRequest, as JSON, to the owner of its partition, and returns the owner's PartAnswer as
JSON. It raises AdminRequestError, OSError or TimeoutError if the owner did not answer, or answered with an error.
"""


class ChangeCoordinator:
    """Carries out changes of partitioned topics. `broker` returns this broker's id, `registered` the ids of all running
    brokers, and `new_id` an id for a new change. `forget_schemas` deletes the schemas of a deleted topic.
    """

    def __init__(
        self,
        resources: Resources,
        owners: Owners,
        *,
        broker: Callable[[], str],
        registered: Callable[[], Iterable[str]],
        new_id: Callable[[], str],
        forget_schemas: Callable[[TopicName], Awaitable[object]],
    ) -> None:
        self._resources = resources
        self._records = ChangeRecords(resources)
        self._owners = owners
        self._broker = broker
        self._registered = registered
        self._new_id = new_id
        self._forget_schemas = forget_schemas
        self._running: set[str] = set()
        self._left: dict[TopicName, float] = {}
        """Topics with a change that this broker could not complete or undo yet, and since when."""
        self._may_have_left = True
        """Whether a former incarnation of this broker may have left changes."""
        self._seen_s: Recent[tuple[str, ChangePhase], float] = Recent(MOST_SEEN)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """End the background tasks. Idempotent."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- requests ----

    async def delete(self, topic: TopicName, *, force: bool) -> None:
        """Delete a partitioned topic with its partitions. Without `force`, this is refused if a partition has clients.

        Raises:
            PartitionedChangeError: the change was refused, or is not complete; `errors` has the subclasses.
            MetadataError: the store did not answer, so it is not known whether the change will be made. Later, brokers
                complete it on all partitions or undo it on all.
        """
        await self._carry_out(topic, self._new(ChangeKind.DELETE, force=force))

    async def delete_subscription(self, topic: TopicName, name: str, *, force: bool) -> None:
        """Delete a subscription on all partitions. Without `force`, this is refused if the subscription has consumers.

        Raises:
            PartitionedChangeError, MetadataError: for the same reasons as in `delete`.
        """
        await self._carry_out(topic, self._new(ChangeKind.DELETE_SUBSCRIPTION, force=force, subscription=name))

    async def create_subscription(
        self, topic: TopicName, name: str, position: tuple[int, int], properties: dict[str, str] | None = None
    ) -> None:
        """Create a subscription on all partitions, at `position` (ledger, entry). On a partition that has a
        subscription of this name already, nothing is changed.

        Raises:
            PartitionedChangeError, MetadataError: for the same reasons as in `delete`.
        """
        change = self._new(ChangeKind.CREATE_SUBSCRIPTION, subscription=name)
        await self._carry_out(topic, replace(change, position=position, properties=properties))

    async def enlarge(self, topic: TopicName, partitions: int) -> None:
        """Increase the number of partitions of a topic to `partitions`. Each new partition gets the subscriptions of
        partition 0; they start at the first message of the new partition.

        Clients see the new number of partitions when all new partitions exist.

        Raises:
            PartitionedChangeError, MetadataError: for the same reasons as in `delete`.
        """
        await self._carry_out(topic, replace(self._new(ChangeKind.ENLARGE), partitions=partitions))

    async def settle(self, topic: TopicName) -> PartitionedTopicMetadata | None:
        """If a change of the topic is in progress that an earlier request began, complete it if it is decided, or undo
        it if it is not. Return the topic's record after that, None if there is none.

        Raises:
            ChangeBusyError: the change is not decided, and the broker that began it may still be working on it.
            ChangePendingError: the change is decided, but could not be completed now.
            MetadataError: the store did not answer.
        """
        while True:
            record = await self._records.get(topic)
            pending = None if record is None else record.pending
            if record is None or pending is None:
                return record
            if pending.phase is ChangePhase.DOING:
                await self._complete(topic, pending)
            elif self._is_abandoned(pending):
                await self._records.undo(topic, pending)
            else:
                raise ChangeBusyError(topic, pending)

    def _new(self, kind: ChangeKind, *, force: bool = False, subscription: str = "") -> PartitionedChange:
        return PartitionedChange(
            self._new_id(), kind, ChangePhase.ASKING, self._broker(), force=force, subscription=subscription
        )

    async def _carry_out(self, topic: TopicName, change: PartitionedChange) -> None:
        record = await self._records.get(topic)
        pending = None if record is None else record.pending
        if pending is not None and pending.phase is ChangePhase.DOING and pending.has_purpose_of(change):
            await self._complete(topic, pending)
            return
        await self.settle(topic)
        self._running.add(change.id)
        has_ended = False
        try:
            count = await self._records.begin(topic, change)
            decision = plan.decide(topic, change, await self._ask_all(topic, change, count))
            if isinstance(decision, plan.Refusal):
                log.info("partitioned_change_refused", topic=str(topic), change=str(change), reason=decision.reason)
                has_ended = await self._is_undone(topic, change)
                raise ChangeRefusedError(decision.status, decision.reason)
            await self._records.decide(topic, decision)
            await self._complete(topic, decision)
            has_ended = True
        except ChangeBusyError:
            has_ended = True
            raise
        finally:
            self._running.discard(change.id)
            if not has_ended:
                self._left[topic] = asyncio.get_running_loop().time()

    async def _is_undone(self, topic: TopicName, change: PartitionedChange) -> bool:
        try:
            return await self._records.undo(topic, change)
        except MetadataError as error:
            log.warning("partitioned_change_not_undone", topic=str(topic), change=str(change), reason=str(error))
            return False

    # ---- steps ----

    async def _ask_all(
        self, topic: TopicName, change: PartitionedChange, count: int
    ) -> dict[int, PartAnswer | Silence]:
        return await self._request_all(topic, change, plan.parts_to_ask(change, count), Step.ASK, within_s=ASK_S)

    async def _complete(self, topic: TopicName, change: PartitionedChange) -> None:
        """Request the change from the owners of all partitions, again and again until all of them have made it. Then
        end the change. If the namespace is deleted, only end the change.

        Raises:
            ChangePendingError: some partitions were not changed within the time limit; the change stays decided.
            MetadataError: the store did not answer.
        """
        record = await self._records.get(topic)
        if record is None or record.pending is None or record.pending.id != change.id:
            await self._records.unlist(topic, change.id)
            return
        is_deleted = await self._namespace_is_deleted(topic)
        if not is_deleted:
            parts = plan.parts_to_do(change, record.partitions)
            answers = await self._request_all(topic, change, parts, Step.DO, within_s=DO_S)
            for index, answer in sorted(answers.items()):
                if isinstance(answer, Silence):
                    raise ChangePendingError(
                        topic,
                        change,
                        f"the owner of {topic.partition(index)} has not made the change yet: {answer.reason}",
                    )
            if change.kind is ChangeKind.DELETE:
                await forget_grants(self._resources, topic)
                await self._forget_schemas(topic)
        await self._records.complete(topic, change)
        log.info("partitioned_change_completed", topic=str(topic), change=str(change))

    async def _namespace_is_deleted(self, topic: TopicName) -> bool:
        namespace = topic.namespace
        return not needs_no_record(namespace) and await self._resources.namespaces.get_fresh(str(namespace)) is None

    async def _request_all(
        self, topic: TopicName, change: PartitionedChange, parts: range, step: Step, *, within_s: float
    ) -> dict[int, PartAnswer | Silence]:
        """Send the request for `step` to the owners of the partitions with the indexes `parts`, in parallel. Return
        their answers by index. An owner that did not answer in time has the answer Silence. After a refusal no further
        owner is asked, so some indexes may be missing.
        """
        deadline_s = asyncio.get_running_loop().time() + within_s + len(parts) * PER_PARTITION_S
        limit = asyncio.Semaphore(CONCURRENT_REQUESTS)
        answers: dict[int, PartAnswer | Silence] = {}

        async def ask(index: int) -> None:
            async with limit:
                if not any(_is_refusal(answer) for answer in answers.values()):
                    answers[index] = await self._request(topic, change, topic.partition(index), step, deadline_s)

        await asyncio.gather(*map(ask, parts))
        return answers

    async def _request(
        self, topic: TopicName, change: PartitionedChange, part: TopicName, step: Step, deadline_s: float
    ) -> PartAnswer | Silence:
        """Send a request to the owner of the partition `part`, again and again until the owner answers, because the
        partition may be moving. Return its answer; Silence if there is none before `deadline_s` (time of the event
        loop).

        If the owner answers that it knows no such change, and the change has ended, return that answer (UNKNOWN). The
        change was then completed or undone; the caller finds out which of the two when it writes the record.
        """
        loop = asyncio.get_running_loop()
        request = msgspec.json.encode(PartRequest(str(part), change.id, step))
        pauses = Doubling(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            try:
                async with asyncio.timeout_at(deadline_s):
                    answer = msgspec.json.decode(await self._owners(request), type=PartAnswer)
                    if answer.willingness is not Willingness.UNKNOWN or not await self._is_pending(topic, change):
                        return answer
                reason = "the partition's owner does not know of the change yet"
            except AdminRequestError as error:
                reason = error.reason
                if error.status < 500 and error.status not in _RETRY_STATUSES:
                    return Silence(reason)
            except (OSError, TimeoutError, MetadataError, msgspec.DecodeError) as error:
                reason = str(error) or "the partition's owner did not answer in time"
            pause_s = pauses.next_s()
            if loop.time() + pause_s >= deadline_s:
                return Silence(reason)
            await asyncio.sleep(pause_s)

    async def _is_pending(self, topic: TopicName, change: PartitionedChange) -> bool:
        pending = await self._records.pending(topic)
        return pending is not None and pending.id == change.id

    # ---- abandoned changes ----

    def look_at(self, part: TopicName, change: PartitionedChange) -> None:
        """If `change` was abandoned by the broker that began it, complete or undo it in the background. Called when a
        client uses the partition `part`.
        """
        topic = part.partitioned_name
        if change.id not in self._tasks and self._is_abandoned(change):
            task = asyncio.get_running_loop().create_task(self._resume(topic), name=f"settle {topic}")
            self._tasks[change.id] = task
            task.add_done_callback(lambda _: self._tasks.pop(change.id, None))

    async def sweep(self, *, is_leader: bool) -> int:
        """Complete or undo every abandoned change that is listed. Only the leader reads the list each time. Any other
        broker reads it at its first call, and afterwards looks only at the topics with a change that it could not
        complete or undo before.

        Return the number of topics with an abandoned change, including those for which this failed.
        """
        listed = await self._records.listed() if is_leader or self._may_have_left else []
        tried = 0
        for topic in sorted({topic for topic, _ in listed} | self._left.keys(), key=str):
            pending = await self._records.pending(topic)
            if pending is None:
                self._forget_left(topic)
            elif self._is_abandoned(pending):
                tried += 1
                self._left[topic] = asyncio.get_running_loop().time()
                await self._resume(topic)
            for change_id in [listed_id for about, listed_id in listed if about == topic]:
                if pending is None or pending.id != change_id:
                    await self._unlist_later(topic, change_id)
        self._may_have_left = False
        return tried

    def _forget_left(self, topic: TopicName) -> None:
        """Forget that this broker has to look at the changes of a topic, if the topic has had no change for
        LATE_WRITE_S seconds. After this time, an earlier write whose outcome is unknown can no longer add a change.
        """
        since_s = self._left.get(topic)
        if since_s is not None and asyncio.get_running_loop().time() - since_s >= LATE_WRITE_S:
            del self._left[topic]

    async def _unlist_later(self, topic: TopicName, change_id: str) -> None:
        """Remove a change that is not in its topic's record from the list, if this broker saw it there ABANDONED_S
        seconds ago. A younger change is left, because it may be about to begin.
        """
        if self._seen_for_s((change_id, ChangePhase.ASKING)) >= plan.ABANDONED_S:
            await self._records.unlist(topic, change_id)

    async def _resume(self, topic: TopicName) -> None:
        try:
            await self.settle(topic)
        except (PartitionedChangeError, MetadataError) as error:
            log.warning("partitioned_change_not_settled", topic=str(topic), reason=str(error))

    def _is_abandoned(self, change: PartitionedChange) -> bool:
        return plan.is_abandoned(
            change,
            broker=self._broker(),
            running=change.id in self._running,
            registered=frozenset(self._registered()),
            unchanged_s=self._seen_for_s((change.id, change.phase)),
        )

    def _seen_for_s(self, key: tuple[str, ChangePhase]) -> float:
        now_s = asyncio.get_running_loop().time()
        first_s = self._seen_s.get(key)
        if first_s is None:
            first_s = now_s
            self._seen_s.put(key, now_s)
        return now_s - first_s


def _is_refusal(answer: PartAnswer | Silence) -> bool:
    return isinstance(answer, PartAnswer) and answer.willingness is Willingness.REFUSED
