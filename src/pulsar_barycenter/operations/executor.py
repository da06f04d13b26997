"""Carry out a plan: so many moves at once, so many a minute, each seen to be served where it was to go.

A move that the cluster has made already counts as done. One whose bundle another broker serves than its source stops
the plan: somebody else balances at the same time. So does a move that fails; those under way come to their ends. In
the end it is looked once more whether all that was served still is: somebody else may have moved it since.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from pulsar_barycenter.bounds.back_off import Doubling
from pulsar_barycenter.operations.journal import MoveState
from pulsar_barycenter.operations.plan import PlannedMove

_LOOKS_AGAIN_S: Final = 0.05
_LOOKS_AT_MOST_S: Final = 2.0
_HEEDS_S: Final = 1.0
_LOOKS_BACK_S: Final = 60.0
MOST_LOOKED_BACK: Final = 10_000
"""So many bundles are looked at once more in the end, those that were served last."""

T = TypeVar("T")


class NotNowError(Exception):
    """The cluster cannot tell or do it at this moment, and may soon; the text says what it answered."""


class RefusedError(Exception):
    """The cluster does not do it; the text says why."""


class Cluster(Protocol):
    """A running cluster, as moves need it. Each raises NotNowError or RefusedError."""

    async def serves(self, broker: str, bundle: str) -> bool:
        """Tell whether the broker serves the bundle."""
        ...

    async def still_served(self, broker: str, bundles: Collection[str]) -> frozenset[str]:
        """Return which of the bundles the broker serves."""
        ...

    async def unload(self, bundle: str, destination: str) -> None:
        """Have the owner unload the bundle, which the destination then gets."""
        ...

    async def look_up(self, bundle: str) -> str:
        """Look up a topic of the bundle, as a client does, which gives a bundle its owner; return the broker, blank if
        no topic can be looked up."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """`at_once` and `per_minute` are at least 1; `timeout_s` is how long one move may take; `looks_back`: in the end
    what was served is looked at once more."""

    at_once: int = 1
    per_minute: float = 60.0
    timeout_s: float = 60.0
    looks_back: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many moves came to their end, and what stopped the plan or came to light after it: blank if nothing did.

    `moved_away` of those that were served are served by others by now.
    """

    served: int
    failed: int
    stopped_by: str = ""
    moved_away: int = 0


Tell = Callable[[PlannedMove, MoveState, str, float | None], None]
"""Keeps what became of a move, with words, and seconds from its beginning once it is over."""


async def execute(
    moves: Sequence[PlannedMove], cluster: Cluster, pace: Pace, tell: Tell, stop: Callable[[], str] = lambda: ""
) -> Outcome:
    """Move one bundle after the other.

    No move begins any more once `stop` says why, which it is asked before each, and every second meanwhile.
    Cancelled, it stops at once; what was begun goes on in the cluster, and is seen to when the plan is gone on with.
    """
    run = _Run(cluster, pace, tell, stop)
    async with asyncio.TaskGroup() as group:
        for move in moves:
            await run.wait_turn()
            if run.stopped_by:
                break
            group.create_task(run.move(move))
    if pace.looks_back:
        await run.look_back()
    return Outcome(run.served, run.failed, run.stopped_by, run.moved_away)


class _Run:
    def __init__(self, cluster: Cluster, pace: Pace, tell: Tell, stop: Callable[[], str]) -> None:
        self.served = 0
        self.failed = 0
        self.stopped_by = ""
        self.moved_away = 0
        self._done: deque[PlannedMove] = deque(maxlen=MOST_LOOKED_BACK)
        self._cluster = cluster
        self._pace = pace
        self._tell = tell
        self._stop = stop
        self._room = asyncio.Semaphore(pace.at_once)
        self._next_at = asyncio.get_running_loop().time()

    async def wait_turn(self) -> None:
        """Wait until another move may begin, or none may; `move` gives its place back."""
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        self._heed()
        while not self.stopped_by and (left_s := self._next_at - loop.time()) > 0:
            await asyncio.sleep(min(left_s, _HEEDS_S))
            self._heed()
        self._next_at = max(self._next_at, loop.time()) + 60.0 / self._pace.per_minute

    def _heed(self) -> None:
        self.stopped_by = self.stopped_by or self._stop()

    async def move(self, move: PlannedMove) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._pace.timeout_s):
                await self._moved(move)
        except (RefusedError, TimeoutError) as error:
            detail = str(error) or f"it is not served there after {self._pace.timeout_s:g} s"
            self.failed += 1
            self.stopped_by = self.stopped_by or f"{move.bundle}: {detail}"
            self._tell(move, MoveState.FAILED, detail, loop.time() - began)
        else:
            self.served += 1
            self._done.append(move)
            self._tell(move, MoveState.SERVED, "", loop.time() - began)
        finally:
            self._room.release()

    async def _moved(self, move: PlannedMove) -> None:
        """Return once the destination serves the bundle.

        Raises:
            RefusedError: somebody else moved it, or a broker refuses.
        """
        if await when_told(lambda: self._cluster.serves(move.destination, move.bundle)):
            return
        if not await when_told(lambda: self._cluster.serves(move.source, move.bundle)):
            owner = await when_told(lambda: self._cluster.look_up(move.bundle))
            if owner not in (move.source, move.destination, ""):
                raise RefusedError(f"{owner} serves it, not {move.source}: somebody else moves bundles")
        self._tell(move, MoveState.BEGUN, "", None)
        await self._unload(move)
        pauses = Doubling(_LOOKS_AGAIN_S, _LOOKS_AT_MOST_S)
        while True:
            owner = await when_told(lambda: self._cluster.look_up(move.bundle))
            if await when_told(lambda: self._cluster.serves(move.destination, move.bundle)):
                return
            if owner not in (move.source, move.destination, ""):
                raise RefusedError(f"it went to {owner} instead of {move.destination}")
            await asyncio.sleep(pauses.next_s())

    async def _unload(self, move: PlannedMove) -> None:
        """Have the owner unload the bundle, once more only if it is there still: what gave no answer may have been
        done."""
        pauses = Doubling(_LOOKS_AGAIN_S, _LOOKS_AT_MOST_S)
        while True:
            try:
                return await self._cluster.unload(move.bundle, move.destination)
            except NotNowError:
                await asyncio.sleep(pauses.next_s())
            if await when_told(lambda: self._cluster.serves(move.destination, move.bundle)):
                return None
            if await when_told(lambda: self._cluster.look_up(move.bundle)) not in (move.source, ""):
                return None

    async def look_back(self) -> None:
        """Tell of each bundle that was served where it was to go, and is served by somebody else by now."""
        bundles: dict[str, list[PlannedMove]] = {}
        for move in self._done:
            bundles.setdefault(move.destination, []).append(move)
        try:
            async with asyncio.timeout(_LOOKS_BACK_S):
                for destination, moves in bundles.items():
                    await self._look_back(destination, moves)
        except TimeoutError:
            self._say(f"not all bundles could be looked at once more within {_LOOKS_BACK_S:g} s; verify them")
        except RefusedError as error:
            self._say(f"what was served could not be looked at once more: {error}")

    async def _look_back(self, destination: str, moves: Sequence[PlannedMove]) -> None:
        names = [move.bundle for move in moves]
        served = await when_told(lambda: self._cluster.still_served(destination, names))
        for move in moves:
            if move.bundle in served:
                continue
            owner = await when_told(partial(self._cluster.look_up, move.bundle))
            if owner not in (destination, ""):
                detail = f"{owner} serves it by now, not {destination}: somebody else moves bundles"
                self.moved_away += 1
                self._say(f"{move.bundle}: {detail}")
                self._tell(move, MoveState.MOVED_AWAY, detail, None)

    def _say(self, text: str) -> None:
        self.stopped_by = self.stopped_by or text


async def when_told(ask: Callable[[], Awaitable[T]]) -> T:
    """Return the cluster's answer; ask again, ever later, while it cannot give one."""
    pauses = Doubling(_LOOKS_AGAIN_S, _LOOKS_AT_MOST_S)
    while True:
        try:
            return await ask()
        except NotNowError:
            await asyncio.sleep(pauses.next_s())
