"""How a session with ZooKeeper is kept, or abandoned, over a link that a test controls."""

import asyncio
import gc

import pytest
from kazoo.exceptions import ConnectionLoss, KazooException, NoAuthError

from pulsar_barycenter.metadata.listeners import StoreListeners
from pulsar_barycenter.metadata.store import SessionEvent
from pulsar_barycenter.metadata.zookeeper.session_keeper import SessionKeeper
from support.metadata_backends import eventually

LOST = [SessionEvent.CONNECTION_LOST, SessionEvent.SESSION_LOST]


class Link:
    """Answers each heartbeat at once, with the error that is set if one is; or not yet, if `is_mute`."""

    def __init__(self, session: int) -> None:
        self.session = session
        self.timeout_s = 0.3
        self.last_failure = ""
        self.error: KazooException | None = None
        self.asked = 0
        self.is_mute = False
        self.unanswered: list[asyncio.Future[object]] = []

    def ask(self, _ask: object) -> "asyncio.Future[object]":
        self.asked += 1
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        if self.is_mute:
            self.unanswered.append(answer)
        elif self.error is None:
            answer.set_result(None)
        else:
            answer.set_exception(self.error)
        return answer

    def leave(self) -> "asyncio.Future[None]":
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left.set_result(None)
        return left

    def give_up(self) -> None:
        pass


class Kept:
    """A keeper whose first session has begun."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.told: list[SessionEvent] = []
        listeners = StoreListeners()
        listeners.add_session_listener(self.told.append)
        self.keeper = SessionKeeper(self._open, listeners, lambda kind, path: None)  # type: ignore[arg-type]

    def _open(self, _keeper: SessionKeeper) -> Link:
        self.links.append(Link(len(self.links) + 1))
        return self.links[-1]

    async def begin(self) -> Link:
        self.keeper.on_connected()
        await self.keeper.wait_begun()
        return self.links[-1]

    async def has_asked_in_vain(self) -> bool:
        return bool(self.links[-1].unanswered)

    async def has_heard(self, events: list[SessionEvent]) -> bool:
        return self.told == events


async def test_a_heartbeat_that_keeps_failing_costs_the_session() -> None:
    """For any error: only an answered heartbeat shows that the session is valid."""
    kept = Kept()
    link = await kept.begin()
    asked = link.asked
    link.error = NoAuthError()
    await eventually(lambda: kept.has_heard(LOST))
    assert link.asked > asked + 1, "it was tried again"
    assert kept.keeper.session is None
    assert kept.keeper.is_overdue
    assert len(kept.links) == 2
    await kept.keeper.close()


async def test_a_heartbeat_of_a_former_session_that_fails_late_is_no_error() -> None:
    """asyncio reports a failed request that nobody looked at as an error of the program."""
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
    kept = Kept()
    link = await kept.begin()
    link.is_mute = True
    await eventually(kept.has_asked_in_vain)
    kept.keeper.on_expired()
    assert len(kept.links) == 2
    link.unanswered.pop().set_exception(ConnectionLoss())
    await asyncio.sleep(0)
    gc.collect()
    assert told == []
    await kept.keeper.close()


async def test_without_heartbeats_there_is_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours in the task that sends them ends it for good."""
    kept = Kept()
    await kept.begin()

    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(kept.keeper, "_send_beat", fail)
    await eventually(lambda: kept.has_heard(LOST))
    assert kept.keeper.session is None
    assert len(kept.links) == 1, "no other is opened"
    async with asyncio.timeout(10):
        await kept.keeper.wait_connected()
        await kept.keeper.close()
