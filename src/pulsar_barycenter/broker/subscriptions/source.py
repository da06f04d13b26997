"""The interface between a dispatcher and its subscription, and the settings of dispatchers."""

from asyncio import TimerHandle
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from pulsar_barycenter.bounds.token_bucket import Allotment
from pulsar_barycenter.broker.subscriptions.sticky_keys import AutoSplit, HashRing
from pulsar_barycenter.ledger.managed.cursor import Cursor
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.naming.topic import TopicName


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """The settings of dispatchers. A limit of 0 unacknowledged messages means no limit.

    If `delays` is True, a message with a delivery time waits until that time. `auto_split` creates the selector that
    divides the slots of a Key_Shared subscription among its consumers.
    """

    failover_delay_s: float = 1.0
    max_unacked_per_consumer: int = 50_000
    max_unacked_per_subscription: int = 200_000
    max_read_entries: int = 100
    delays: bool = True
    auto_split: AutoSplit = HashRing


class DispatchSource(Protocol):
    """The methods of a subscription that its dispatcher needs; see `PersistentSubscription`. `str()` of it is the name
    of the topic, a slash, and the name of the subscription.
    """

    cursor: Cursor
    """The cursor of the subscription, which records what is acknowledged."""

    @property
    def name(self) -> str: ...

    @property
    def topic_name(self) -> TopicName: ...

    @property
    def partition_index(self) -> int: ...

    @property
    def ledger(self) -> ManagedLedger[Any]: ...

    @property
    def settings(self) -> DispatchSettings:
        """The present settings of the subscription. They may change at any time, so read them each time."""
        ...

    @property
    def is_bounded(self) -> bool:
        """Whether a dispatcher must check before each delivery if it may deliver: because of a throttle, or because of
        `pauses`.
        """
        ...

    @property
    def pauses(self) -> bool:
        """Whether deliveries have to pause while the cursor has more separate ranges of acknowledged entries than can
        be stored. Acknowledgements that join ranges end the pause.
        """
        ...

    @property
    def allotment(self) -> Allotment:
        """How many messages and bytes the throttles of the topic and of this subscription have allowed in advance;
        unlimited if there are no throttles.
        """
        ...

    def now_ms(self) -> int: ...

    def start_task(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run `work` in a task; it is cancelled when the topic closes."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> TimerHandle: ...

    def sent(self, messages: int, size: int) -> None:
        """Count messages that were sent to consumers, `size` bytes in total."""
        ...

    def given_back(self, messages: int) -> None:
        """Count messages that have to be delivered again."""
        ...
