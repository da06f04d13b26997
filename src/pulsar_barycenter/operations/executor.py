"""Carries out a plan, with a limit on moves at the same time and per minute, and checks that each move arrived.

A move that the cluster has already made counts as done. The plan stops if a bundle is neither on its source nor on its
destination, because then something else moves bundles too. It also stops if a move fails, unless the caller lets it go
on. A plan that stops begins no more moves; moves in progress are completed. At the end all moved bundles are checked
once more, as they may have moved again.

If the cluster assigns a bundle that was unloaded to its source again, the bundle is unloaded again. Pulsar's modular
load manager does so: its leader keeps an earlier choice for the bundle until it has read newer load reports, and uses
this choice instead of the destination.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

import msgspec

from pulsar_barycenter.bounds.back_off import Doubling
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.operations.journal import MoveState
from pulsar_barycenter.operations.plan import PlannedMove

_LOOKS_AGAIN_S: Final = 0.05
_LOOKS_AT_MOST_S: Final = 2.0
_UNLOADS_AGAIN_S: Final = 1.0
_UNLOADS_AGAIN_AT_MOST_S: Final = 16.0
_HEEDS_S: Final = 1.0
_LOOKS_BACK_S: Final = 60.0
MAX_FINAL_CHECKS: Final = 10_000
"""The maximum number of bundles that the final check covers: those that were moved last. Bundles that were moved before
them are not checked.
"""

T = TypeVar("T")


class NotNowError(Exception):
    """The cluster cannot answer a request or carry it out now, but may be able to soon, so that a repeated request may
    succeed; the text is the cluster's answer.
    """


class RefusedError(Exception):
    """The cluster refuses the request; the text says why."""


class ElsewhereError(RefusedError):
    """The bundle was unloaded, but the cluster assigned it to `owner`, which is neither the source nor the destination
    of the move.
    """

    def __init__(self, move: PlannedMove, owner: str) -> None:
        super().__init__(
            f"the bundle was unloaded, but {owner} became its owner instead of {move.destination}; plan the move again"
        )
        self.owner = owner


class Cluster(Protocol):
    """The requests to a running cluster that `execute` needs. Every method raises NotNowError or RefusedError."""

    async def serves(self, broker: str, bundle: str) -> bool:
        """Return whether the broker serves the bundle."""
        ...

    async def still_served(self, broker: str, bundles: Collection[str]) -> frozenset[str]:
        """Return which of the bundles the broker serves."""
        ...

    async def unload(self, bundle: str, destination: str) -> None:
        """Ask the owner to unload the bundle. After this returns, the destination acquires the bundle; `serves` says
        whether it has.
        """
        ...

    async def look_up(self, bundle: str) -> str:
        """Look up a topic of the bundle, as a client does, so that the bundle gets an owner.

        Return the broker that is the owner after the look-up; blank if no topic of the bundle can be looked up.
        """
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """The limits for moves. `at_once` is the maximum number of moves in progress, `per_minute` the maximum number of
    moves that begin in a minute; both are at least 1. `timeout_s` is the time limit of one move. If `looks_back` is
    True, it is checked after the moves whether bundles have moved again (see `Outcome.moved_away`).
    """

    at_once: int = 1
    per_minute: float = 60.0
    timeout_s: float = 60.0
    looks_back: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a plan: the numbers of completed moves (`served`) and of failed moves. `stopped_by` says what
    stopped the plan, or what failed in the final check; it is blank if nothing did.

    `moved_away` is the number of completed moves whose bundle was served by another broker than its destination at the
    final check.
    """

    served: int
    failed: int
    stopped_by: str = ""
    moved_away: int = 0


Tell = Callable[[PlannedMove, MoveState, str, float | None], None]
"""Receives each state of a move, with a detail and, once it has ended, its duration in seconds.

The destination of a move that failed with ElsewhereError is the broker that became the owner.
"""

Failure = RefusedError | TimeoutError
"""Why a move failed: a broker refused it, the bundle went elsewhere (ElsewhereError), or its time limit passed."""

StopsAfter = Callable[[PlannedMove, Failure], str]
"""Receives a move that failed. Returns why the plan stops, blank if the other moves are carried out."""


def stops_after_each(move: PlannedMove, failure: Failure) -> str:
    """Stop the plan after any move that fails."""
    return f"{move.bundle}: {failure}"


async def execute(
    moves: Sequence[PlannedMove],
    cluster: Cluster,
    pace: Pace,
    tell: Tell,
    stop: Callable[[], str] = lambda: "",
    *,
    stops_after: StopsAfter = stops_after_each,
) -> Outcome:
    """Carry out the moves of a plan, in their order and within the limits `pace`. After a move that fails no other move
    begins, if `stops_after` returns a reason.

    `tell` is called with each state of a move. `stop` is called before each move and every second; once it returns a
    reason, no other move begins. In both cases this returns when the moves in progress have ended. If this coroutine is
    cancelled, it ends immediately; moves in progress continue in the cluster, and the next run of the plan checks them.

    Raises:
        OSError: `tell` raised it, as it cannot write. No other move begins, and moves in progress are not waited for,
            as if this coroutine was cancelled.
    """
    run = _Run(cluster, pace, tell, stop, stops_after)
    try:
        async with asyncio.TaskGroup() as group:
            for move in moves:
                await run.wait_turn()
                if run.stopped_by:
                    break
                group.create_task(run.move(move))
    except ExceptionGroup as errors:  # of the moves in progress; they are alike, as of a full disk
        raise errors.exceptions[0] from errors
    if pace.looks_back:
        await run.look_back()
    return Outcome(run.served, run.failed, run.stopped_by, run.moved_away)


class _Run:
    def __init__(
        self, cluster: Cluster, pace: Pace, tell: Tell, stop: Callable[[], str], stops_after: StopsAfter
    ) -> None:
        self.served = 0
        self.failed = 0
        self.stopped_by = ""
        self.moved_away = 0
        self._done: deque[PlannedMove] = deque(maxlen=MAX_FINAL_CHECKS)
        self._cluster = cluster
        self._pace = pace
        self._tell = tell
        self._stop = stop
        self._stops_after = stops_after
        self._given_back: Counter[str] = Counter()
        self._room = asyncio.Semaphore(pace.at_once)
        self._next_at = asyncio.get_running_loop().time()

    async def wait_turn(self) -> None:
        """Wait until another move may begin, or until the plan is stopped. Then one of the `at_once` slots is taken,
        which `move` releases.
        """
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
        except RefusedError as refusal:
            self._failed(move, refusal, loop.time() - began)
        except TimeoutError:
            self._failed(move, TimeoutError(self._not_served(move)), loop.time() - began)
        else:
            self.served += 1
            self._done.append(move)
            self._tell(move, MoveState.SERVED, "", loop.time() - began)
        finally:
            self._room.release()

    def _failed(self, move: PlannedMove, failure: Failure, took_s: float) -> None:
        self.failed += 1
        reason = self._stops_after(move, failure)
        self.stopped_by = self.stopped_by or reason
        if isinstance(failure, ElsewhereError):  # the way back begins where the bundle is
            move = msgspec.structs.replace(move, destination=failure.owner)
        self._tell(move, MoveState.FAILED, str(failure), took_s)

    def _not_served(self, move: PlannedMove) -> str:
        text = f"{move.destination} does not serve it after {self._pace.timeout_s:g} s"
        if times := self._given_back[move.bundle]:
            text += f"; the cluster gave it back to its source {move.source} after {count_of(times, 'unload')}"
        return text

    async def _moved(self, move: PlannedMove) -> None:
        """Carry out a move, and return once the destination serves the bundle. The caller limits the time.

        Raises:
            RefusedError: the bundle was moved by something else, or a broker refuses.
        """
        if await when_told(lambda: self._cluster.serves(move.destination, move.bundle)):
            return
        if not await when_told(lambda: self._cluster.serves(move.source, move.bundle)):
            owner = await when_told(lambda: self._cluster.look_up(move.bundle))
            if owner not in (move.source, move.destination, ""):
                raise RefusedError(
                    f"{owner} serves the bundle, not the planned source {move.source}: another operator"
                    " or program, or the cluster itself, moved the bundle; plan the move again"
                )
        self._tell(move, MoveState.BEGUN, "", None)
        waits_again = Doubling(_UNLOADS_AGAIN_S, _UNLOADS_AGAIN_AT_MOST_S)
        await self._unload(move)
        while not await self._arrives(move, within_s=waits_again.next_s()):
            self._given_back[move.bundle] += 1
            await self._unload(move)

    async def _arrives(self, move: PlannedMove, *, within_s: float) -> bool:
        """Wait until the destination serves a bundle that was unloaded, and return True. Return False if its source
        serves it after `within_s` seconds; a look-up before that may be answered with the owner before the unload.

        Raises:
            ElsewhereError: the cluster assigned it to another broker.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        pauses = Doubling(_LOOKS_AGAIN_S, _LOOKS_AT_MOST_S)
        while True:
            owner = await when_told(lambda: self._cluster.look_up(move.bundle))
            if await when_told(lambda: self._cluster.serves(move.destination, move.bundle)):
                return True
            if owner not in (move.source, move.destination, ""):
                raise ElsewhereError(move, owner)
            if loop.time() >= until and await self._is_given_back(move):
                return False
            await asyncio.sleep(pauses.next_s())

    async def _is_given_back(self, move: PlannedMove) -> bool:
        """Return whether the source of a move serves the bundle; False if the source does not answer, perhaps because
        it has ended.
        """
        try:
            return await self._cluster.serves(move.source, move.bundle)
        except NotNowError:
            return False

    async def _unload(self, move: PlannedMove) -> None:
        """Ask the owner to unload the bundle. If the request fails, repeat it only while the owner still serves the
        bundle: a request without an answer may have been carried out.
        """
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
        """After the moves, report each completed move whose bundle another broker serves now: the bundle has moved
        again.
        """
        bundles: dict[str, list[PlannedMove]] = {}
        for move in self._done:
            bundles.setdefault(move.destination, []).append(move)
        try:
            async with asyncio.timeout(_LOOKS_BACK_S):
                for destination, moves in bundles.items():
                    await self._look_back(destination, moves)
        except TimeoutError:
            self._say(f"the final check was not complete after {_LOOKS_BACK_S:g} s; check with `barycenter verify`")
        except RefusedError as error:
            self._say(f"the final check failed: {error}")

    async def _look_back(self, destination: str, moves: Sequence[PlannedMove]) -> None:
        names = [move.bundle for move in moves]
        served = await when_told(lambda: self._cluster.still_served(destination, names))
        for move in moves:
            if move.bundle in served:
                continue
            owner = await when_told(partial(self._cluster.look_up, move.bundle))
            if owner not in (destination, ""):
                detail = f"{owner} serves it now, not {destination}: something else moves bundles too"
                self.moved_away += 1
                self._say(f"{move.bundle}: {detail}")
                self._tell(move, MoveState.MOVED_AWAY, detail, None)

    def _say(self, text: str) -> None:
        self.stopped_by = self.stopped_by or text


async def when_told(ask: Callable[[], Awaitable[T]]) -> T:
    """Return the cluster's answer to the request that the function `ask` makes; while the request raises NotNowError,
    repeat it with growing delays. The number of attempts is not limited: the caller sets a time limit.
    """
    pauses = Doubling(_LOOKS_AGAIN_S, _LOOKS_AT_MOST_S)
    while True:
        try:
            return await ask()
        except NotNowError:
            await asyncio.sleep(pauses.next_s())
