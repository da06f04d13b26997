"""Runs the compactions of a broker's topics: one at a time for each topic, a few at the same time in total. Keeps the
result of each topic's last one.

When a topic is closed or moved, its compaction ends; what it has written is deleted, and the next owner starts again.
Source: the compaction part of Pulsar's `PersistentTopic`, and its `CompactorMXBeanImpl`.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Literal

import structlog

from pulsar_barycenter.broker.compaction.compactor import Compactor, KeepsEarlier
from pulsar_barycenter.broker.errors import CompactionRunningError
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

MOST_AT_ONCE: Final = 2
"""The maximum number of compactions that run at the same time on a broker. Others wait; they count as running."""

Status = Literal["NOT_RUN", "RUNNING", "SUCCESS", "ERROR"]


class BrokerCompactions:
    """The state that the compactions of all topics of a broker share.

    `strategies` has the compaction strategy of some topics: a function that gets an earlier and a later message with
    the same key, and returns whether the earlier one is kept. For all other topics the later one is kept.
    """

    __slots__ = ("clock", "limit", "retain_null_key", "strategies")

    def __init__(self, clock: Clock, *, retain_null_key: bool, strategies: Mapping[TopicName, KeepsEarlier]) -> None:
        self.clock = clock
        self.retain_null_key = retain_null_key
        self.strategies = strategies
        self.limit = asyncio.Semaphore(MOST_AT_ONCE)


class TopicCompactions:
    """Starts the compactions of one topic, and has the results of those since the topic was loaded. Times are in ms
    since 1970; 0 if there was no such compaction.
    """

    __slots__ = (
        "_broker", "_ledger", "_topic", "duration_ms", "failed_at_ms", "failures", "last_error", "removed", "status",
        "succeeded_at_ms", "successes", "total_removed",
    )  # fmt: skip

    def __init__(self, topic: TopicName, ledger: ManagedLedger[Any], broker: BrokerCompactions) -> None:
        self._topic = topic
        self._ledger = ledger
        self._broker = broker
        self.status: Status = "NOT_RUN"
        self.last_error = ""
        self.successes = 0
        self.failures = 0
        self.succeeded_at_ms = 0
        self.failed_at_ms = 0
        self.duration_ms = 0
        """The duration of the last compaction that ended."""
        self.removed = 0
        """The number of messages that the last successful compaction removed."""
        self.total_removed = 0

    def trigger(self) -> None:
        """Start a compaction in the background.

        Raises:
            CompactionRunningError: a compaction is running.
            LedgerClosedError: the topic is closing.
        """
        if self._ledger.compacted.is_running:
            raise CompactionRunningError(self._topic)
        self._ledger.compacted.start(self._run(), self._ended)
        self.status = "RUNNING"

    async def _run(self) -> None:
        async with self._broker.limit:
            began_ms = self._broker.clock.now_ms()
            compactor = Compactor(
                self._ledger,
                retain_null_key=self._broker.retain_null_key,
                keeps_earlier=self._broker.strategies.get(self._topic),
            )
            log.info("compaction_started", topic=str(self._topic), upto=str(self._ledger.last_position))
            try:
                done = await compactor.run()
            finally:
                self.duration_ms = self._broker.clock.now_ms() - began_ms
        self.removed = 0 if done is None else done.removed
        self.total_removed += self.removed
        if done is not None:
            log.info(
                "compaction_done", topic=str(self._topic), horizon=str(self._ledger.compacted.horizon),
                messages=done.messages_read, kept=done.messages_kept, bytes=done.size, duration_ms=self.duration_ms,
            )  # fmt: skip

    def _ended(self, task: asyncio.Task[None]) -> None:
        now_ms = self._broker.clock.now_ms()
        error = asyncio.CancelledError("the topic was closed") if task.cancelled() else task.exception()
        if error is None:
            self.status, self.last_error = "SUCCESS", ""
            self.successes += 1
            self.succeeded_at_ms = now_ms
            return
        self.status, self.last_error = "ERROR", str(error) or type(error).__name__
        self.failures += 1
        self.failed_at_ms = now_ms
        if isinstance(error, LedgerError | asyncio.CancelledError):
            log.warning("compaction_failed", topic=str(self._topic), error=self.last_error)
        else:
            log.error("compaction_failed", topic=str(self._topic), exc_info=error)

    def uncompacted_bytes(self) -> int:
        """Return the size in bytes of the entries that are not compacted yet. It is an estimate if compaction ended in
        the middle of a ledger.
        """
        ledger = self._ledger
        return ledger.segments.bytes_between(ledger.compacted.horizon, ledger.last_position)
