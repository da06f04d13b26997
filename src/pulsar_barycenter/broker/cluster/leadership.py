"""Takes part in the election of the leader. While this broker leads, runs the leader's duties: work that it repeats.

| event | this broker | duties |
|---|---|---|
| elected | takes an epoch, then leads | start |
| another broker elected, own key deleted | follows | stop |
| session lost | follows, though its key may exist for a while | stop |
| session re-established, key still there or won again | takes an epoch, then leads | start |
| another epoch was taken, without a notification of another leader | takes an epoch again if it has the key | stop |
| leaves the lead to others | follows, and deletes its key; after `take_part` it may be elected again | stop |
| resigned (it is about to stop) | follows, and deletes its key; it still knows the leader | stop |

If a leader cannot reach the store, it stops leading when its session is lost (SESSION_LOST). A process that was paused
gets this event late. So there are two checks that do not depend on it: the store refuses its writes (through `store`),
and other brokers refuse its commands, because its epoch is not the latest. See `leader_term` for the states.

Source: Pulsar's `LeaderElectionService`. There such a broker continues to lead and to write.
"""

import asyncio
import operator
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from pulsar_barycenter.bounds.background import BackgroundTasks
from pulsar_barycenter.broker.changes import NextChange
from pulsar_barycenter.broker.cluster.leader_term import TRANSITIONS, TermAction, TermEvent, TermState
from pulsar_barycenter.metadata.cache import REFRESH_AFTER_S, MetadataCache
from pulsar_barycenter.metadata.coordination.epochs import (
    Epoch,
    FencedStore,
    announce_release,
    epoch_path,
    read_epoch,
    take_epoch,
)
from pulsar_barycenter.metadata.coordination.leader_election import LeaderElection, LeaderElectionState
from pulsar_barycenter.metadata.errors import MetadataError, NotLeadingError
from pulsar_barycenter.metadata.store import MetadataStore, Notification, NotificationType, SessionEvent

log = structlog.get_logger(__name__)

LEADER_PATH: Final = "/loadbalance/leader"
CHANNEL_LEADER_PATH: Final = "/loadbalance/extension/leader"
"""The path of the election among brokers with the extensible load manager. The leader elected there leads only these
brokers.
"""
_AGREE_PAUSE_S: Final = 0.1
_FAILED_PAUSE_S: Final = 1.0
_RELEASE_S: Final = 2.0
"""The number of seconds for which a leader that resigns tries to announce it."""
_FIRST_EPOCH_S: Final = 5.0
"""The number of seconds that the start of a broker that was elected waits for its epoch."""


class LeaderValue(msgspec.Struct, frozen=True, rename="camel"):
    broker_id: str = ""
    service_url: str = ""


@dataclass(frozen=True, slots=True)
class Duty:
    """Work that the leader repeats. `interval_s` returns the length of the pause before a run in seconds; it is called
    for each pause, so the interval may change.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    interval_s: Callable[[], float]
    wake: asyncio.Event | None = None
    """If given, setting this event ends the pause early, but not before `min_pause_s()`."""
    min_pause_s: Callable[[], float] = lambda: 1.0


def _never(_stored: LeaderValue, _mine: LeaderValue) -> bool:
    return False


class Leadership:
    """This broker's participation in the election of the leader, whose key is at `path`."""

    def __init__(
        self,
        store: MetadataStore,
        path: str = LEADER_PATH,
        *,
        writes: MetadataStore | None = None,
        refresh_after_s: float = REFRESH_AFTER_S,
        source: random.Random | None = None,
    ) -> None:
        """Prepare the election; call `start` to take part in it.

        `writes` is the store for the leader's writes, None if this is `store`. If it is given, and a former process of
        this broker left the leader's key, this broker does not take the key over; it waits until the session of that
        process has expired. `refresh_after_s` is the age in seconds at which a cached value of the leader's key is read
        again. `source` generates the random pauses between attempts; the default is the system's randomness.
        """
        self._store = store
        self._source = source
        self.path = path
        self._same_owner: Callable[[LeaderValue, LeaderValue], bool] = operator.eq if writes is None else _never
        self._cache = MetadataCache(store, LeaderValue, refresh_after_s=refresh_after_s)
        self._election: LeaderElection[LeaderValue] | None = None
        self._session_lost = False
        self._resigned = False
        self._declined = False
        self._takes_part = True
        self._state = TermState.FOLLOWS
        self._epoch: Epoch | None = None
        self._taking: asyncio.Task[None] | None = None
        self.store = FencedStore(writes or store, self.epoch, self.superseded)
        """The metadata store for writes that only the leader may make."""
        self.times_won = 0
        """The number of terms that this broker has begun."""
        self._duties: tuple[Duty, ...] = ()
        self._broker_id = ""
        self._tasks = BackgroundTasks("leadership_task_failed", expected=(MetadataError,))
        self._performing = BackgroundTasks("leader_duty_ended")
        self._change = NextChange()
        self._listeners: list[Callable[[], None]] = []
        self._begin_listeners: list[Callable[[Epoch], None]] = []
        self._stop_listening: list[Callable[[], None]] = []

    @property
    def is_started(self) -> bool:
        """Whether `start` was called. It stays True after this broker has resigned."""
        return self._election is not None

    def is_leader(self) -> bool:
        """Return whether this broker is the leader, by what it has read. This may be outdated: the session may have
        expired in a pause of the process; `may_act` checks this, too.
        """
        return self._state is TermState.LEADS and self._is_elected()

    def epoch(self) -> Epoch:
        """Return the epoch of the term in which this broker leads.

        Raises:
            NotLeadingError: this broker does not lead.
        """
        if self._epoch is None or not self.is_leader():
            raise NotLeadingError(epoch_path(self.path))
        return self._epoch

    def epoch_of_term(self) -> Epoch | None:
        """Return the epoch of the term in which this broker is leader; None if it is not leader."""
        return self._epoch if self._state is TermState.LEADS else None

    def _is_elected(self) -> bool:
        return (
            self._election is not None
            and self._takes_part
            and not self._resigned
            and not self._session_lost
            and self._election.state is LeaderElectionState.LEADING
        )

    def may_act(self) -> bool:
        """Return whether this broker may act as leader now: it leads, and its session cannot have expired.

        So a process that was paused knows that it must not act, even before the loss of its session is reported.
        """
        return self.is_leader() and not self._store.session_is_overdue

    @property
    def has_duties(self) -> bool:
        """Whether this broker is in a term as leader; listeners are called after each change of this value.

        `is_leader` may be false for a moment during a term, while the election reads the key again.
        """
        return self._state is TermState.LEADS

    def leader(self) -> LeaderValue | None:
        """Return the leader that this broker knows now; None: there is none, or it is not known. This does not wait."""
        if self._election is None or self._resigned:
            return self._cache.get_if_cached(self.path)
        return self._election.leader_if_known()

    async def current_leader(self) -> LeaderValue | None:
        """Return the leader, read from the store if the election does not know it; None if there is none."""
        return self.leader() or await self._cache.get(self.path)

    async def start(self, broker_id: str, web_url: str | None, duties: tuple[Duty, ...] = ()) -> None:
        """Take part in the election, as the broker `broker_id` with the web URL `web_url`. The duties start each time
        this broker has become leader and has written its epoch.

        This returns when the first result of the election is known, or when reading or writing the leader's key has
        failed; in this case the election continues in the background. If this broker is elected, this also waits for
        its epoch, for at most _FIRST_EPOCH_S seconds.
        """
        self._duties, self._broker_id = duties, broker_id
        proposal = LeaderValue(broker_id, web_url or "")
        self._stop_listening = [
            self._store.add_session_listener(self._on_session_event),
            self._store.add_listener(self._on_notification),
        ]
        self._election = LeaderElection(
            self._store,
            self.path,
            LeaderValue,
            proposal,
            on_state=lambda state: self._update_term(),
            same_owner=self._same_owner,
            source=self._source,
        )
        if not self._takes_part:
            self._election.decline()
        await self._elect(self._election)
        if self._taking is not None:
            await asyncio.wait([self._taking], timeout=_FIRST_EPOCH_S)

    async def _elect(self, election: LeaderElection[LeaderValue]) -> None:
        try:
            await election.elect()
        except MetadataError as error:
            log.warning("leader_not_elected", reason=str(error))  # goes on in the background
        self._update_term()

    def decline(self) -> None:
        """Do not become leader from now on. If this broker leads, it leads until it resigns."""
        self._declined = True
        if self._election is not None:
            self._election.decline()

    async def leave_to_others(self) -> None:
        """Leave the lead to other brokers until `take_part`. If this broker leads, end its term and delete its key; it
        continues to observe who leads. Idempotent; has no effect after `decline` or `resign`.
        """
        if self._declined or self._resigned:
            return
        epoch = self.epoch_of_term()
        self._takes_part = False
        if self._election is None:
            return
        self._election.decline()
        if self._election.state is not LeaderElectionState.LEADING:
            return
        self._update_term()
        await self._leave_election(epoch)
        if not self._resigned:
            await self._elect(self._election)

    def take_part(self) -> None:
        """Take part in the election again after `leave_to_others`. Idempotent; has no effect after `decline`."""
        self._takes_part = True
        if self._election is not None and not self._declined:
            self._election.take_part()

    async def resign(self) -> None:
        """Leave the election, and delete the leader's key if this broker has it. Idempotent."""
        if self._resigned:
            return
        self._resigned = True
        epoch = self.epoch_of_term()
        self._update_term()
        for stop in self._stop_listening:
            stop()
        await self._leave_election(epoch)

    async def _leave_election(self, epoch: Epoch | None) -> None:
        """Wait until the leader's duties have ended. Then write that the term with `epoch` is over, unless `epoch` is
        None, and delete this broker's leader key.
        """
        await self._tasks.ended()
        await self._performing.ended()
        if epoch is not None:
            with suppress(MetadataError, TimeoutError):
                async with asyncio.timeout(_RELEASE_S):
                    await announce_release(self._store, self.path, epoch.number, self._broker_id)
        if self._election is not None:
            try:
                await self._election.close()
            except MetadataError as error:
                log.warning("leader_key_not_deleted", reason=str(error))

    async def close(self) -> None:
        await self.resign()
        self._cache.close()

    async def wait_change(self, timeout_s: float) -> None:
        """Return at the next change of the leader, or after `timeout_s` seconds without one; no error is raised."""
        await self._change.wait(timeout_s)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each event that may change the leader, and after this broker has begun or ended a term
        as leader.
        """
        self._listeners.append(listener)

    def on_begin(self, listener: Callable[[Epoch], None]) -> None:
        """Call `listener` with the epoch at the beginning of every term that this broker begins as leader, before its
        duties start.
        """
        self._begin_listeners.append(listener)

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_LOST:
            self._session_lost = True
            self._update_term()
        elif event is SessionEvent.SESSION_REESTABLISHED:
            self._session_lost = False  # the election's state is of the former session until it has read the key
            self._update_term()

    def _on_notification(self, change: Notification) -> None:
        is_told = change.path == epoch_path(self.path) and change.type is not NotificationType.CHILDREN_CHANGED
        if is_told and self._state is TermState.LEADS:
            self._tasks.start(self._check_epoch(), "epoch of the leader")

    async def _check_epoch(self) -> None:
        """Read the leader's epoch from the store, and end this broker's term as leader if it is another than that of
        the term. If the store does not answer, the term continues.
        """
        epoch = self._epoch
        with suppress(MetadataError):
            if epoch is not None and await read_epoch(self._store, self.path) != epoch:
                self.superseded(epoch)

    def superseded(self, epoch: Epoch) -> None:
        """End this broker's term as leader, because the store has a later epoch than `epoch`. If the present term has
        another epoch, do nothing.
        """
        if epoch is self._epoch:
            self._feed(TermEvent.SUPERSEDED)

    async def _take(self) -> None:
        """Try until it succeeds: check in the store that the leader's key belongs to this session, and write the next
        epoch. Then begin the term as leader.
        """
        assert self._election is not None
        while True:
            pause_s = _AGREE_PAUSE_S
            try:
                epoch = await take_epoch(self._store, self.path, self._broker_id)
                if epoch is not None:
                    self._epoch = epoch
                    self._feed(TermEvent.TAKEN)
                    return
            except MetadataError as error:
                log.warning("leader_epoch_not_taken", reason=str(error))
                pause_s = _FAILED_PAUSE_S
            await asyncio.sleep(pause_s)

    def _update_term(self) -> None:
        """Begin or end this broker's term as leader, as the state of the election requires; do nothing if the term
        agrees with it. May be called at any time.
        """
        self._feed(TermEvent.ELECTED if self._is_elected() else TermEvent.NOT_ELECTED)

    def _feed(self, event: TermEvent) -> None:
        self._change.notify()
        after, actions = TRANSITIONS.get((self._state, event), (self._state, ()))
        self._state = after
        for action in actions:
            self._do(action)
        self._notify_listeners()

    def _do(self, action: TermAction) -> None:
        match action:
            case TermAction.TAKE:
                self._taking = self._tasks.start(self._take(), "take leader epoch")
            case TermAction.GIVE_UP:
                if self._taking is not None:
                    self._taking.cancel()
            case TermAction.BEGIN:
                assert self._epoch is not None
                self.times_won += 1
                log.info("leadership_changed", leads=True, epoch=self._epoch.number)
                for begun in self._begin_listeners:
                    begun(self._epoch)
                for duty in self._duties:
                    self._performing.start(self._perform(duty), f"leader: {duty.name}")
            case TermAction.END:
                self._epoch = None
                log.info("leadership_changed", leads=False, leader=getattr(self.leader(), "broker_id", None))
                self._performing.cancel()

    def _notify_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    async def _perform(self, duty: Duty) -> None:
        """Repeat `duty` until cancelled: pause for its interval, then run it. Errors of a run are logged, and the next
        run follows.
        """
        while True:
            await self._pause(duty)
            await self._check_epoch()  # a notification may have been lost
            try:
                await duty.run()
            except NotLeadingError as error:
                log.info("leader_duty_refused", duty=duty.name, reason=str(error))
            except Exception:
                log.exception("leader_duty_failed", duty=duty.name)

    async def _pause(self, duty: Duty) -> None:
        if duty.wake is None:
            await asyncio.sleep(duty.interval_s())
            return
        least_s = duty.min_pause_s()
        await asyncio.sleep(least_s)
        try:
            async with asyncio.timeout(max(0.0, duty.interval_s() - least_s)):
                await duty.wake.wait()
        except TimeoutError:
            pass
        duty.wake.clear()
