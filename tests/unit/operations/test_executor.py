"""Executing a plan on a cluster in virtual time: rate, order, and what stops it."""

import asyncio
import errno
from collections.abc import Callable, Collection, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from pulsar_barycenter.operations.executor import ElsewhereError, NotNowError, Outcome, Pace, RefusedError, execute
from pulsar_barycenter.operations.journal import MoveState
from pulsar_barycenter.operations.plan import PlannedMove
from support.virtual_time import on_virtual_time

A, B, C = "a:1", "b:1", "c:1"


class Cluster:
    """Bundles with their brokers; an unload takes `takes_s` and then no broker serves the bundle until it is looked up.

    `answers` are raised by the next calls before any of them does something.
    """

    def __init__(self, owners: dict[str, str], *, takes_s: float = 0.0) -> None:
        self.owners: dict[str, str | None] = dict(owners)
        self.goes_to: dict[str, str] = {}
        self.goes_back: dict[str, int] = {}
        """How many more times the cluster gives a bundle that was unloaded to the broker A."""
        self.unloads: list[tuple[float, str]] = []
        self.answers: list[Exception] = []
        self.silent: list[Exception] = []
        """Raised by the next unloads when they are done."""
        self.looked_back = 0
        self.at_once = 0
        self.most_at_once = 0
        self._takes_s = takes_s

    async def serves(self, broker: str, bundle: str) -> bool:
        self._answer()
        return self.owners[bundle] == broker

    async def still_served(self, broker: str, bundles: Collection[str]) -> frozenset[str]:
        self._answer()
        self.looked_back += 1
        return frozenset(bundle for bundle in bundles if self.owners[bundle] == broker)

    async def unload(self, bundle: str, destination: str) -> None:
        self._answer()
        self.unloads.append((asyncio.get_running_loop().time(), bundle))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self._takes_s)
        self.at_once -= 1
        self.goes_to.setdefault(bundle, destination)
        self.owners[bundle] = None
        if self.silent:
            raise self.silent.pop(0)

    async def look_up(self, bundle: str) -> str:
        self._answer()
        if self.owners[bundle] is None and self.goes_back.get(bundle, 0):
            self.goes_back[bundle] -= 1
            self.owners[bundle] = A
        elif self.owners[bundle] is None:
            self.owners[bundle] = self.goes_to.get(bundle, A)
        return str(self.owners[bundle])

    def _answer(self) -> None:
        if self.answers:
            raise self.answers.pop(0)


class MoveLog:
    def __init__(self) -> None:
        self.entries: list[tuple[str, MoveState]] = []
        self.details: list[str] = []
        self.moves: list[PlannedMove] = []

    def __call__(self, move: PlannedMove, state: MoveState, detail: str, took_s: float | None) -> None:
        assert (took_s is None) == (state in (MoveState.BEGUN, MoveState.MOVED_AWAY))
        self.entries.append((move.bundle, state))
        self.details.append(detail)
        self.moves.append(move)


def moves(*bundles: str) -> list[PlannedMove]:
    return [PlannedMove(bundle=bundle, source=A, destination=B) for bundle in bundles]


def played(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    on_virtual_time(lambda _world: scene())


def test_each_move_is_written_down_before_it_begins_and_once_it_is_served() -> None:
    async def scene() -> None:
        cluster, told = Cluster({"x": A, "y": A}), MoveLog()
        outcome = await execute(moves("x", "y"), cluster, Pace(), told)
        assert outcome == Outcome(2, 0)
        assert cluster.owners == {"x": B, "y": B}
        begun, served = MoveState.BEGUN, MoveState.SERVED
        assert told.entries == [("x", begun), ("x", served), ("y", begun), ("y", served)]

    played(scene)


def test_moves_begin_no_faster_and_no_more_at_once_than_allowed() -> None:
    async def scene() -> None:
        names = [f"x{number}" for number in range(9)]
        cluster = Cluster(dict.fromkeys(names, A), takes_s=5.0)
        await execute(moves(*names), cluster, Pace(at_once=2, per_minute=30), MoveLog())
        times = [time for time, _ in cluster.unloads]
        assert cluster.most_at_once == 2
        assert all(after - before >= 2.0 - 1e-9 for before, after in pairwise(times))
        assert [bundle for _, bundle in cluster.unloads] == names

    played(scene)


def test_what_is_where_it_was_to_go_is_done_and_not_touched() -> None:
    async def scene() -> None:
        cluster, told = Cluster({"x": B}), MoveLog()
        assert await execute(moves("x"), cluster, Pace(), told) == Outcome(1, 0)
        assert (cluster.unloads, told.entries) == ([], [("x", MoveState.SERVED)])

    played(scene)


def test_a_bundle_that_was_on_its_way_when_the_tool_died_is_gone_on_with() -> None:
    async def scene() -> None:
        cluster = Cluster({"x": A})
        cluster.owners["x"] = None
        assert await execute(moves("x"), cluster, Pace(), MoveLog()) == Outcome(1, 0)
        assert cluster.owners["x"] == B

    played(scene)


@pytest.mark.parametrize("moved", ["before", "instead"])
def test_somebody_elses_move_stops_the_plan(moved: str) -> None:
    async def scene() -> None:
        cluster, told = Cluster({"x": C if moved == "before" else A, "y": A}), MoveLog()
        cluster.goes_to = {"x": C}
        outcome = await execute(moves("x", "y"), cluster, Pace(), told)
        assert (outcome.served, outcome.failed) == (0, 1)
        assert C in outcome.stopped_by
        assert cluster.owners["y"] == A
        assert told.entries[-1] == ("x", MoveState.FAILED)
        assert [bundle for _, bundle in cluster.unloads] == ([] if moved == "before" else ["x"])

    played(scene)


def test_answers_that_pass_are_waited_for_and_a_refusal_stops() -> None:
    async def scene() -> None:
        cluster = Cluster({"x": A, "y": A})
        cluster.answers = [NotNowError("503")] * 7
        assert await execute(moves("x"), cluster, Pace(), MoveLog()) == Outcome(1, 0)
        cluster.answers = [RefusedError("403: no")]
        assert await execute(moves("y"), cluster, Pace(), MoveLog()) == Outcome(0, 1, "y: 403: no")

    played(scene)


def test_an_unload_that_gave_no_answer_and_was_done_is_not_sent_again() -> None:
    async def scene() -> None:
        cluster = Cluster({"x": A})
        cluster.silent = [NotNowError("no answer")]
        assert await execute(moves("x"), cluster, Pace(), MoveLog()) == Outcome(1, 0)
        assert [bundle for _, bundle in cluster.unloads] == ["x"]

    played(scene)


def test_an_unload_that_was_not_done_is_sent_again() -> None:
    async def scene() -> None:
        cluster, refuses = Cluster({"x": A}), [NotNowError("409"), NotNowError("no answer")]
        done = cluster.unload

        async def unload(bundle: str, destination: str) -> None:
            if refuses:
                raise refuses.pop(0)
            await done(bundle, destination)

        cluster.unload = unload  # type: ignore[method-assign]
        assert await execute(moves("x"), cluster, Pace(), MoveLog()) == Outcome(1, 0)
        assert (refuses, cluster.owners) == ([], {"x": B})

    played(scene)


@pytest.mark.parametrize("went", [C, A])
def test_what_somebody_else_moved_away_after_it_was_served_is_told_in_the_end(went: str) -> None:
    async def scene() -> None:
        cluster, told = Cluster({"x": A, "y": A, "z": A}), MoveLog()
        running = asyncio.create_task(execute(moves("x", "y", "z"), cluster, Pace(per_minute=1), told))
        await asyncio.sleep(90)
        assert cluster.owners == {"x": B, "y": B, "z": A}
        cluster.owners["x"] = went
        outcome = await running
        assert (outcome.served, outcome.failed, outcome.moved_away) == (3, 0, 1)
        assert f"x: {went} serves it now" in outcome.stopped_by
        assert told.entries[-1] == ("x", MoveState.MOVED_AWAY)
        assert [bundle for _, bundle in cluster.unloads] == ["x", "y", "z"], "it is not moved again"
        assert cluster.looked_back == 1, "a question for each destination"
        assert await execute(moves("y"), cluster, Pace(looks_back=False), told) == Outcome(1, 0)
        assert cluster.looked_back == 1

    played(scene)


def test_who_cannot_tell_in_the_end_is_not_asked_for_ever() -> None:
    async def scene() -> None:
        cluster = Cluster({"x": A})

        async def silent(broker: str, bundles: Collection[str]) -> frozenset[str]:
            raise NotNowError("no answer")

        cluster.still_served = silent  # type: ignore[method-assign]
        outcome = await execute(moves("x"), cluster, Pace(), MoveLog())
        assert (outcome.served, outcome.failed, outcome.moved_away) == (1, 0, 0)
        assert "verify" in outcome.stopped_by

    played(scene)


def test_a_bundle_that_the_cluster_gives_back_to_its_source_is_unloaded_again() -> None:
    async def scene() -> None:
        cluster, told = Cluster({"x": A}), MoveLog()
        cluster.goes_back = {"x": 2}
        assert await execute(moves("x"), cluster, Pace(), told) == Outcome(1, 0)
        assert cluster.owners == {"x": B}
        times = [time for time, _ in cluster.unloads]
        assert len(times) == 3
        assert all(after - before >= 1.0 for before, after in pairwise(times)), "an old answer is not believed"
        assert told.entries == [("x", MoveState.BEGUN), ("x", MoveState.SERVED)]

    played(scene)


def test_a_caller_may_go_on_after_a_move_that_ended_otherwise() -> None:
    async def scene() -> None:
        cluster, told = Cluster({"x": A, "y": A}), MoveLog()
        cluster.goes_to = {"x": C}
        seen: list[tuple[str, str]] = []

        def goes_on(move: PlannedMove, error: Exception) -> str:
            assert isinstance(error, ElsewhereError)
            seen.append((move.bundle, error.owner))
            return ""

        outcome = await execute(moves("x", "y"), cluster, Pace(), told, stops_after=goes_on)
        assert outcome == Outcome(1, 1)
        assert seen == [("x", C)]
        assert [move.destination for move in told.moves] == [B, C, B, B], "the way back begins where the bundle is"
        assert cluster.owners == {"x": C, "y": B}
        assert ("x", MoveState.FAILED) in told.entries

    played(scene)


def test_a_source_that_ends_after_it_unloaded_the_bundle_does_not_hold_the_move_up() -> None:
    async def scene() -> None:
        cluster, serves = Cluster({"x": A}), 0
        answers = cluster.serves

        async def slow_destination(broker: str, bundle: str) -> bool:
            nonlocal serves
            if not cluster.unloads:
                return await answers(broker, bundle)
            if broker == A:
                raise NotNowError("no answer")
            serves += 1
            return serves > 20

        cluster.serves = slow_destination  # type: ignore[method-assign]
        assert await execute(moves("x"), cluster, Pace(), MoveLog()) == Outcome(1, 0)
        assert len(cluster.unloads) == 1

    played(scene)


@pytest.mark.parametrize("state", [MoveState.BEGUN, MoveState.SERVED, MoveState.FAILED])
def test_a_state_that_cannot_be_written_ends_the_plan_with_that_error(state: MoveState) -> None:
    async def scene() -> None:
        cluster = Cluster({"x": A, "y": A, "z": A})
        cluster.goes_to = {"x": C if state is MoveState.FAILED else B}

        def full(_move: PlannedMove, reached: MoveState, _detail: str, _took_s: float | None) -> None:
            if reached is state:
                raise OSError(errno.ENOSPC, "No space left on device", "a.journal")

        with pytest.raises(OSError, match="No space left"):
            await execute(moves("x", "y", "z"), cluster, Pace(per_minute=6000), full)
        assert cluster.owners["z"] == A

    played(scene)


def test_a_move_that_does_not_end_fails_in_time_and_others_under_way_end() -> None:
    async def scene() -> None:
        cluster, told = Cluster({"x": A, "y": A, "z": A}, takes_s=3.0), MoveLog()
        cluster.goes_to = {"x": A}
        outcome = await execute(moves("x", "y", "z"), cluster, Pace(at_once=2, per_minute=6000, timeout_s=30), told)
        assert (outcome.served, outcome.failed) == (2, 1)
        assert "does not serve it after 30 s" in outcome.stopped_by
        unloads = [bundle for _, bundle in cluster.unloads].count("x")
        assert f"gave it back to its source {A} after {unloads - 1} unloads" in outcome.stopped_by
        assert cluster.owners == {"x": A, "y": B, "z": B}

    played(scene)


def test_asked_to_stop_it_ends_what_is_under_way_and_begins_nothing_more() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        cluster = Cluster({"x": A, "y": A, "z": A}, takes_s=5.0)
        asked_at = loop.time() + 70
        outcome = await execute(
            moves("x", "y", "z"),
            cluster,
            Pace(per_minute=1),
            MoveLog(),
            lambda: "somebody asked to stop" if loop.time() >= asked_at else "",
        )
        assert outcome == Outcome(2, 0, "somebody asked to stop")
        assert cluster.owners == {"x": B, "y": B, "z": A}
        assert loop.time() - asked_at <= 1, "not only when the next one were to begin"

    played(scene)


def test_cancelled_it_begins_nothing_more() -> None:
    async def scene() -> None:
        cluster = Cluster({"x": A, "y": A}, takes_s=5.0)
        running = asyncio.create_task(execute(moves("x", "y"), cluster, Pace(), MoveLog()))
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(100)
        assert [bundle for _, bundle in cluster.unloads] == ["x"]

    played(scene)
