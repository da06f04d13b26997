"""The term in which the leader serves the internal topics: the ownership channel itself, and the two topics with load
data.

The leader serves these topics, even if another broker owns their namespace: otherwise a broker would need the ownership
topic to find the owner of the ownership topic. The leader takes the epoch of its term after it won the election, in the
same session. So of two leaders the later has the higher epoch (the proof is that of `locks`), and the fence of the
ledgers prevents writes of the former one.

Source: Pulsar's `ExtensibleLoadManagerImpl.isInternalTopic` and `getOwnershipWithLookupDataAsync`.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from pulsar_barycenter.broker.changes import NextChange
from pulsar_barycenter.broker.cluster.leadership import Leadership
from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER
from pulsar_barycenter.broker.ownership.serving import OwnedBundle
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.broker.ownership.term import PauseDetector, Term
from pulsar_barycenter.metadata.clock import Clock
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.internal_topics import is_internal_topic
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

log = structlog.get_logger(__name__)

LEADERS_BUNDLE: Final = Bundle.full(NamespaceName.parse("pulsar/leader"))
"""A name for the internal topics in terms and logs, in place of a bundle. There is no ownership record of it."""
_RETRY_S: Final = 0.2


class LeadersTopics:
    """The term in which the leader serves the internal topics: the topics with ownership records and loads. The leader
    serves them even if other brokers own their bundles. Implements `LeadersTerm`.

    `owner_named` returns the addresses of a broker, None if they are not known. `changed` is called when another broker
    may have begun to serve the topics.
    """

    def __init__(
        self,
        store: MetadataStore,
        leadership: Leadership,
        *,
        clock: Clock,
        pauses: PauseDetector,
        serving_log: ServingLog,
        owner_named: Callable[[str, int | None], Owner | None],
        close_topics: Callable[[Bundle, str], object],
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._leadership = leadership
        self._clock = clock
        self._pauses = pauses
        self._serving_log = serving_log
        self._owner_named = owner_named
        self._close_topics = close_topics
        self._on_changed = changed
        self._term: Term | None = None
        self._notified_leader: str | None = None
        self._taking: asyncio.Task[None] | None = None
        self._change = NextChange()
        self._closed = False
        leadership.on_change(self.look)

    def has(self, topic: TopicName) -> bool:
        return is_internal_topic(topic)

    def served(self) -> OwnedBundle | None:
        """Return the term in which this broker serves the internal topics. None if it does not serve them: it is not
        the leader, or the process may have been paused.
        """
        term = self._term
        return term if term is not None and term.active and not self._pauses.has_paused() else None

    def owner(self) -> Owner | None:
        """Return the broker that serves the internal topics now; None if it is not known."""
        term = self.served()
        leader = self._leadership.leader()
        if leader is None or (self._leadership.is_leader() and term is None):
            return None
        return self._owner_named(leader.broker_id, None if term is None else term.epoch)

    async def wait_change(self, timeout_s: float) -> None:
        """Return when another broker may have begun to serve the internal topics, or after `timeout_s` seconds; in both
        cases without an error.
        """
        await self._change.wait(timeout_s)

    def look(self) -> None:
        """Begin the term for the internal topics if this broker has become the leader, or end it if it is the leader no
        more. If another broker may serve the topics now, call `changed`.
        """
        if self._closed:
            return
        if not self._leadership.is_leader():
            self.end("this broker is not the leader any more")
        elif self._term is None and self._taking is None:
            self._taking = asyncio.create_task(self._take(), name="term of the internal topics")
        leader = self._leadership.leader()
        # For a follower, the leader may be the same broker in a new session, to which no old connection leads.
        if not self._leadership.is_leader() or (leader.broker_id if leader else None) != self._notified_leader:
            self._notify()

    def _notify(self) -> None:
        leader = self._leadership.leader()
        self._notified_leader = leader.broker_id if leader is not None else None
        self._change.notify()
        self._on_changed()

    async def _take(self) -> None:
        try:
            while self._leadership.has_duties and not self._closed:  # the election may be in doubt for a while
                wins = self._leadership.times_won
                try:
                    number = await next_counter_value(self._store, EPOCH_COUNTER)
                except MetadataError as error:
                    log.info("internal_topics_not_taken", reason=str(error))
                    await asyncio.sleep(_RETRY_S)
                    continue
                if self._pauses.has_paused() or not self._leadership.is_leader():
                    await asyncio.sleep(_RETRY_S)  # perhaps this is not the session in which the number was taken
                elif self._leadership.times_won == wins and not self._closed:
                    self._begin(number)
                    return
        finally:
            self._taking = None

    def _begin(self, number: int) -> None:
        term = self._term = Term(LEADERS_BUNDLE, number, self._clock.now_ms(), self._pauses)
        term.active = True
        self._serving_log.started(term, "this broker is the leader")
        self._notify()

    def end(self, reason: str) -> None:
        """End the term for the internal topics now. Idempotent."""
        term, self._term = self._term, None
        if term is None:
            return
        term.active, term.revoked = False, True
        self._serving_log.ended(term, reason)
        self._close_topics(LEADERS_BUNDLE, reason)

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """End the term for the internal topics, because a ledger of one of these topics was fenced. If this broker is
        still the leader, it begins a new term after _RETRY_S seconds.
        """
        if owned is self._term:
            log.warning("ownership_lost", bundle=str(owned.bundle), epoch=owned.epoch, reason=reason)
            self.end(reason)
            asyncio.get_running_loop().call_later(_RETRY_S, self.look)

    def interrupted(self) -> None:
        """End the term for the internal topics, because the process was paused. If this broker is still the leader, it
        begins a new term after _RETRY_S seconds.
        """
        if self._term is not None:
            self.lost(self._term, "the process was paused")

    async def close(self) -> None:
        self._closed = True
        self.end("the broker was closed")
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)
