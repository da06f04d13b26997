"""The leader's term over the internal topics: the ownership channel itself, and the two of load data.

Whoever leads serves them, whatever the channel says of their namespace: else finding the owner of a bundle would need
the topic that tells it. The leader takes the number of his term after he won the election, in the same session, so of
two leaders the later has the higher number (the proof is that of `locks`), and the fence of the ledgers keeps the
former one from writing.

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
"""What the internal topics are a bundle of: nothing that is in the channel."""
_AGAIN_S: Final = 0.2


class LeadersTopics:
    """Implements `LeadersTerm`. `owner_named` tells how a broker is reached, if it is known; `changed` is called when
    another serves them."""

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
        self._tell_changed = changed
        self._term: Term | None = None
        self._told: str | None = None
        self._taking: asyncio.Task[None] | None = None
        self._change = NextChange()
        self._closed = False
        leadership.on_change(self.look)

    def has(self, topic: TopicName) -> bool:
        return is_internal_topic(topic)

    def served(self) -> OwnedBundle | None:
        """Return the term, if it is this broker's and goes on."""
        term = self._term
        return term if term is not None and term.active and not self._pauses.has_paused() else None

    def owner(self) -> Owner | None:
        """Return who serves the internal topics now, as far as that is known."""
        term = self.served()
        leader = self._leadership.leader()
        if leader is None or (self._leadership.is_leader() and term is None):
            return None
        return self._owner_named(leader.broker_id, None if term is None else term.epoch)

    async def wait_change(self, timeout_s: float) -> None:
        """Return when somebody else may serve them, or after `timeout_s`."""
        await self._change.wait(timeout_s)

    def look(self) -> None:
        """Begin or end the term as the leadership demands, and tell of a new owner."""
        if self._closed:
            return
        if not self._leadership.is_leader():
            self.end("it does not lead any more")
        elif self._term is None and self._taking is None:
            self._taking = asyncio.create_task(self._take(), name="term of the internal topics")
        leader = self._leadership.leader()
        # To whoever follows, the same broker may lead in another life, to which no connection of before leads.
        if not self._leadership.is_leader() or (leader.broker_id if leader is not None else None) != self._told:
            self._tell()

    def _tell(self) -> None:
        leader = self._leadership.leader()
        self._told = leader.broker_id if leader is not None else None
        self._change.notify()
        self._tell_changed()

    async def _take(self) -> None:
        try:
            while self._leadership.has_duties and not self._closed:  # in between the election may be in doubt
                wins = self._leadership.times_won
                try:
                    number = await next_counter_value(self._store, EPOCH_COUNTER)
                except MetadataError as error:
                    log.info("internal_topics_not_taken", reason=str(error))
                    await asyncio.sleep(_AGAIN_S)
                    continue
                if self._pauses.has_paused() or not self._leadership.is_leader():
                    await asyncio.sleep(_AGAIN_S)  # this may be another session than the one in which it was taken
                elif self._leadership.times_won == wins and not self._closed:
                    self._begin(number)
                    return
        finally:
            self._taking = None

    def _begin(self, number: int) -> None:
        term = self._term = Term(LEADERS_BUNDLE, number, self._clock.now_ms(), self._pauses)
        term.active = True
        self._serving_log.started(term, "this broker leads")
        self._tell()

    def end(self, reason: str) -> None:
        """End the term at this step. Idempotent."""
        term, self._term = self._term, None
        if term is None:
            return
        term.active, term.revoked = False, True
        self._serving_log.ended(term, reason)
        self._close_topics(LEADERS_BUNDLE, reason)

    def lost(self, owned: OwnedBundle, reason: str) -> None:
        """The ledger of an internal topic was fenced: whoever leads goes on in a later term."""
        if owned is self._term:
            log.warning("ownership_lost", bundle=str(owned.bundle), epoch=owned.epoch, reason=reason)
            self.end(reason)
            asyncio.get_running_loop().call_later(_AGAIN_S, self.look)

    def interrupted(self) -> None:
        """The process stood still: whoever leads goes on in a later term."""
        if self._term is not None:
            self.lost(self._term, "the process stood still")

    async def close(self) -> None:
        self._closed = True
        self.end("broker closed")
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.gather(self._taking, return_exceptions=True)
