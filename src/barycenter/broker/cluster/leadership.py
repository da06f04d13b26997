"""Who leads the cluster, and the duties that only the leader has.

| event | this broker | duties |
|---|---|---|
| elected | leads | start |
| another elected, own key gone | follows | stop |
| session lost | follows, though its key may stand for a while | stop |
| session re-established, key survived or won again | leads | start |
| resigned (it is about to stop) | follows, its key is deleted; it still sees who leads | stop |

The election itself never tells a leader that it was deposed while it could not reach the store; this class does,
at SESSION_LOST. Source: Pulsar's `LeaderElectionService`, where the same broker goes on believing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from barycenter.broker.changes import NextChange
from barycenter.metadata.cache import MetadataCache
from barycenter.metadata.coordination.leader_election import LeaderElection, LeaderElectionState
from barycenter.metadata.errors import MetadataError
from barycenter.metadata.store import MetadataStore, SessionEvent

log = structlog.get_logger(__name__)

LEADER_PATH: Final = "/loadbalance/leader"
CHANNEL_LEADER_PATH: Final = "/loadbalance/extension/leader"
"""Where brokers of the extensible load manager elect theirs: it leads those of no other."""
_AGREE_PAUSE_S: Final = 0.1


class LeaderValue(msgspec.Struct, frozen=True, rename="camel"):
    broker_id: str = ""
    service_url: str = ""


@dataclass(frozen=True, slots=True)
class Duty:
    """Something the leader does again and again. `interval_s` is asked before each pause, so it may change."""

    name: str
    run: Callable[[], Awaitable[None]]
    interval_s: Callable[[], float]
    wake: asyncio.Event | None = None
    """If given, setting it ends the pause early, though not before `min_pause_s`."""
    min_pause_s: float = 1.0


class Leadership:
    def __init__(self, store: MetadataStore, path: str = LEADER_PATH) -> None:
        self._store = store
        self._path = path
        self._cache = MetadataCache(store, LeaderValue)
        self._election: LeaderElection[LeaderValue] | None = None
        self._session_lost = False
        self._losses = 0
        self._resigned = False
        self._was_leader = False
        self.times_won = 0
        """How often this broker began to lead."""
        self._duties: tuple[Duty, ...] = ()
        self._tasks: set[asyncio.Task[None]] = set()
        self._change = NextChange()
        self._listeners: list[Callable[[], None]] = []
        self._stop_listening: Callable[[], None] | None = None

    @property
    def is_started(self) -> bool:
        """Whether this broker takes part, or did until it resigned."""
        return self._election is not None

    def is_leader(self) -> bool:
        """Whether this broker leads now, as far as it can know."""
        return (
            self._election is not None
            and not self._resigned
            and not self._session_lost
            and self._election.state is LeaderElectionState.LEADING
        )

    def leader(self) -> LeaderValue | None:
        """Return the leader as known now; None while there is none. Never waits."""
        if self._election is None or self._resigned:
            return self._cache.get_if_cached(self._path)
        return self._election.leader_if_known()

    async def current_leader(self) -> LeaderValue | None:
        """Return the leader, read from the store if the election does not know it."""
        return self.leader() or await self._cache.get(self._path)

    async def start(self, broker_id: str, web_url: str | None, duties: tuple[Duty, ...] = ()) -> None:
        """Enter the election and return when the first round is over. Duties start as soon as it is won."""
        self._duties = duties
        proposal = LeaderValue(broker_id, web_url or "")
        self._stop_listening = self._store.add_session_listener(self._on_session_event)
        self._election = LeaderElection(
            self._store, self._path, LeaderValue, proposal, on_state=lambda state: self._on_state()
        )
        try:
            await self._election.elect()
        except MetadataError as error:
            log.warning("leader_not_elected", reason=str(error))  # goes on in the background
        self._on_state()

    async def resign(self) -> None:
        """Leave the election and give the leader's key up, if it is ours. Idempotent."""
        if self._resigned:
            return
        self._resigned = True
        self._on_state()
        if self._stop_listening is not None:
            self._stop_listening()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._election is not None:
            try:
                await self._election.close()
            except MetadataError as error:
                log.warning("leader_key_not_deleted", reason=str(error))

    async def close(self) -> None:
        await self.resign()
        self._cache.close()

    async def wait_change(self, timeout_s: float) -> None:
        """Return at the next change of the leader, or after `timeout_s`."""
        await self._change.wait(timeout_s)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when somebody else may lead, or this broker may have begun or ceased to."""
        self._listeners.append(listener)

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.SESSION_LOST:
            self._session_lost = True
            self._losses += 1
            self._on_state()
        elif event is SessionEvent.SESSION_REESTABLISHED:
            self._keep_task(
                asyncio.create_task(self._await_agreement(self._losses), name="election after session loss")
            )

    async def _await_agreement(self, losses: int) -> None:
        """Trust the election only after its opinion agrees with the key as this session sees it."""
        assert self._election is not None
        while self._losses == losses and not self._resigned:
            with suppress(MetadataError):
                record = await self._store.get(self._path)
                leads = self._election.state is LeaderElectionState.LEADING
                if record is not None and record.stat.created_by_self == leads:
                    self._session_lost = False
                    self._on_state()
                    return
            await asyncio.sleep(_AGREE_PAUSE_S)

    def _on_state(self) -> None:
        """Bring the duties in line with whether this broker leads. Safe to call at any time."""
        self._change.notify()
        leads = self.is_leader()
        if leads == self._was_leader:
            self._tell_listeners()
            return
        self._was_leader = leads
        self.times_won += leads
        log.info("leadership_changed", leads=leads, leader=getattr(self.leader(), "broker_id", None))
        for task in self._tasks:
            if task.get_name().startswith("leader: "):
                task.cancel()
        if leads:
            for duty in self._duties:
                self._keep_task(asyncio.create_task(self._perform(duty), name=f"leader: {duty.name}"))
        self._tell_listeners()

    def _tell_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    def _keep_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, duty: Duty) -> None:
        """Pause, run, and again: the period is run time plus interval, and a changed interval takes effect."""
        while True:
            await self._pause(duty)
            try:
                await duty.run()
            except Exception:
                log.exception("leader_duty_failed", duty=duty.name)

    async def _pause(self, duty: Duty) -> None:
        if duty.wake is None:
            await asyncio.sleep(duty.interval_s())
            return
        await asyncio.sleep(duty.min_pause_s)
        try:
            async with asyncio.timeout(max(0.0, duty.interval_s() - duty.min_pause_s)):
                await duty.wake.wait()
        except TimeoutError:
            pass
        duty.wake.clear()
