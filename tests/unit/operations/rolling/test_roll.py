"""A roll on a cluster in virtual time: its order, its waits, what stops it, and killed at every request."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.operations.executor import Pace, RefusedError
from pulsar_barycenter.operations.own_balancing import PAUSED_KEYS, SHEDDING
from pulsar_barycenter.operations.rolling.contract import RollOptions, RollStopped, RollTold
from pulsar_barycenter.operations.rolling.order import Wanted, backwards_plan, ordered
from pulsar_barycenter.operations.rolling.plan import Cluster, Limit
from pulsar_barycenter.operations.rolling.progress import (
    Progress,
    RollEntry,
    RollEvent,
    RollState,
    backwards,
    condition,
    progress_of,
)
from pulsar_barycenter.operations.rolling.reports import Where
from pulsar_barycenter.operations.rolling.run import Roll, view_of
from support.rolled_cluster import Killed, RolledCluster
from support.virtual_time import on_virtual_time

NAMES = ("a:1", "b:1", "c:1")
OWNERS = {f"t/n/0x{number}0000000_0x{number + 1}0000000": NAMES[number % 3] for number in range(6)}
EVERY = Wanted()
FAST = RollOptions(pace=Pace(at_once=2, per_minute=6000, looks_back=False))
RESTORED: tuple[dict[str, str], dict[str, str]] = ({}, dict.fromkeys(PAUSED_KEYS, "true"))


def played(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    on_virtual_time(lambda _world: scene())


class MemoryJournal:
    """Entries as text, as in a file, without its waits for the disk."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def read(self) -> list[RollEntry]:
        return [msgspec.json.decode(line, type=RollEntry) for line in self.lines]

    def append(self, entry: RollEntry) -> None:
        self.lines.append(msgspec.json.encode(entry))


class Operator:
    """Types the command: each `roll` is a process that reads the journal."""

    def __init__(self, cluster: RolledCluster, wanted: Wanted = EVERY, options: RollOptions = FAST) -> None:
        self.cluster = cluster
        self.wanted = wanted
        self.options = options
        self.said: list[str] = []
        self.stop = ""
        self.journal = MemoryJournal()
        self.moves: Counter[str] = Counter()

    def open(self) -> Roll:
        return Roll(
            self.cluster,
            self.cluster,
            self.journal,
            self.options,
            RollTold(self.said.append, lambda *_: None),
            by="me",
            clock_ms=lambda: round(asyncio.get_running_loop().time() * 1000),
            stop=lambda: self.stop,
        )

    async def roll(self) -> Progress:
        roll = self.open()
        if roll.progress.state is RollState.NOT_BEGUN:
            names = {*self.cluster.names, *self.wanted.pool}
            view = await view_of(self.cluster, names, serving=2, room=1.5)
            await roll.begin(ordered("c1", view.brokers, view.leader, view.plan, self.wanted).order)
        self.moves = roll.moves
        return await roll.run()

    @property
    def events(self) -> list[str]:
        return [entry.event for entry in self.journal.read()]


def settings_of(cluster: RolledCluster) -> tuple[dict[str, str], dict[str, str]]:
    return cluster.stored, {key: {**cluster.in_file, **cluster.stored}[key] for key in PAUSED_KEYS}


def test_a_roll_restarts_each_broker_once_empty_and_the_leader_last() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS, dict.fromkeys(OWNERS, 1.0))
        operator = Operator(cluster)
        assert (await operator.roll()).state is RollState.FINISHED
        assert cluster.restarts[-1] == "a:1"
        assert sorted(cluster.restarts) == list(NAMES)
        assert cluster.lost == []
        assert settings_of(cluster) == RESTORED
        assert set(cluster.owners.values()) == set(NAMES)
        assert operator.events[:2] == ["begun", "paused"]
        assert operator.events[-3:] == ["refilled", "restored", "finished"]
        assert len(cluster.unloads) == len(OWNERS) + 2 + 2  # those of the first broker twice, and two for the last

    played(scene)


def test_the_next_broker_waits_for_the_reports_of_this_one_and_of_the_receivers() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS, dict.fromkeys(OWNERS, 1.0))
        await Operator(cluster).roll()
        events = cluster.events
        for at, event in enumerate(events):
            if event.startswith("restart ") and event.split()[1] != cluster.restarts[-1]:
                following = events[at + 1 :]
                next_move = next(index for index, name in enumerate(following) if name.startswith("move"))
                assert f"report {event.split()[1]}" in following[:next_move]

    played(scene)


@pytest.mark.parametrize("kills_after", [False, True])
def test_a_roll_that_is_killed_at_any_request_goes_on_and_ends_the_same(kills_after: bool) -> None:
    killed, at = 0, 0
    while True:
        at += 1
        was_killed, calls = False, 0

        async def scene(at: int = at) -> None:
            nonlocal was_killed, calls
            cluster = RolledCluster(NAMES, OWNERS)
            cluster.kill_at, cluster.kills_after = at, kills_after
            operator = Operator(cluster)
            try:
                await operator.roll()
            except* Killed:
                was_killed = True
                assert "finished" not in operator.events
            calls = cluster.calls
            if was_killed:
                assert (await operator.roll()).state is RollState.FINISHED
            assert cluster.lost == []
            assert settings_of(cluster) == RESTORED
            assert set(cluster.restarts) == set(NAMES)
            assert len(cluster.restarts) == len(NAMES)
            assert len(cluster.unloads) <= 10

        try:
            played(scene)
        except BaseExceptionGroup as group:
            raise AssertionError(f"killed at request {at}") from group
        killed += was_killed
        if at > calls:
            break
    assert killed > (10 if kills_after else 200)


@pytest.mark.parametrize("event", list(RollEvent)[:12])
def test_a_roll_that_is_killed_before_or_after_each_line_of_its_journal_goes_on(
    event: RollEvent,
) -> None:
    """The journal ends after the first line with an event, and the cluster is as it was when the line was written."""

    async def scene() -> None:
        for is_written in (False, True):
            cluster = RolledCluster(NAMES, OWNERS)
            operator = Operator(cluster)
            whole = operator.journal.append

            def append(entry: RollEntry, whole: Any = whole, is_written: bool = is_written) -> None:
                if entry.event is event:
                    if is_written:
                        whole(entry)
                    raise Killed
                whole(entry)

            operator.journal.append = append  # type: ignore[method-assign]
            try:
                await operator.roll()
            except Killed:
                operator.journal.append = whole  # type: ignore[method-assign]
                assert (await operator.roll()).state is RollState.FINISHED
            assert settings_of(cluster) == RESTORED
            assert sorted(cluster.restarts) == sorted(NAMES)
            assert cluster.lost == []

    played(scene)


def test_a_broker_that_got_a_bundle_after_it_was_emptied_is_emptied_again() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        operator = Operator(cluster)
        whole, bundle = operator.journal.append, min(OWNERS)

        def append(entry: RollEntry) -> None:
            whole(entry)
            if entry.event is RollEvent.EMPTIED:
                cluster.owners[bundle] = entry.brokers[0]

        operator.journal.append = append  # type: ignore[method-assign]
        await operator.roll()
        assert cluster.lost == []
        assert any("got 1 bundle since it was emptied" in line for line in operator.said)

    played(scene)


def test_a_bundle_that_the_cluster_puts_on_another_broker_does_not_stop_the_roll() -> None:
    async def scene() -> None:
        cluster = RolledCluster((*NAMES, "d:1"), OWNERS, dict.fromkeys(OWNERS, 1.0))
        first, second = (bundle for bundle, owner in OWNERS.items() if owner == "b:1")
        cluster.puts_elsewhere = {first: ["a:1", "d:1"], second: ["c:1", "d:1"]}
        operator = Operator(cluster, Wanted(batch=2))
        assert (await operator.roll()).state is RollState.FINISHED
        assert operator.moves == dict(Counter(cluster.unloads)), "a move to another broker counts, too"
        assert sorted(cluster.restarts) == [*NAMES, "d:1"]
        assert cluster.lost == []
        assert settings_of(cluster) == RESTORED

    played(scene)


def test_a_bundle_that_comes_back_too_often_is_planned_again_and_at_last_stops_the_roll() -> None:
    async def scene(times: int, is_finished: bool) -> None:
        cluster = RolledCluster(NAMES, OWNERS, dict.fromkeys(OWNERS, 1.0))
        bundle = next(bundle for bundle, owner in OWNERS.items() if owner == "b:1")
        cluster.puts_elsewhere = {bundle: ["b:1"] * times}
        operator = Operator(cluster)
        if is_finished:
            assert (await operator.roll()).state is RollState.FINISHED
            assert cluster.lost == []
            return
        assert "b:1 has 1 bundle after 5 passes of moves" in await stopped(operator)
        assert cluster.restarts == []
        assert (await operator.roll()).state is RollState.FINISHED

    played(lambda: scene(10, True))
    played(lambda: scene(40, False))


def test_moves_of_which_several_do_not_end_stop_the_roll_soon() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS, dict.fromkeys(OWNERS, 1.0))
        cluster.puts_elsewhere = {bundle: ["b:1"] * 1000 for bundle, owner in OWNERS.items() if owner == "b:1"}
        began_s = asyncio.get_running_loop().time()
        assert "does not serve it after 60 s" in await stopped(Operator(cluster))
        assert asyncio.get_running_loop().time() - began_s < 100
        assert cluster.restarts == []

    played(scene)


def test_a_leader_that_changes_restarts_last() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        operator = Operator(cluster)
        whole = operator.journal.append

        def append(entry: RollEntry) -> None:
            whole(entry)
            if entry.event is RollEvent.PAUSED:
                cluster.leads = progress_of(operator.journal.read()).batch[0]

        operator.journal.append = append  # type: ignore[method-assign]
        await operator.roll()
        assert "reordered" in operator.events
        assert cluster.restarts[-1] in ("b:1", "c:1")
        assert sorted(cluster.restarts) == list(NAMES)

    played(scene)


async def stopped(operator: Operator) -> str:
    with pytest.raises(RollStopped) as stop:
        await operator.roll()
    return str(stop.value)


def test_what_does_not_fit_stops_the_roll_and_it_goes_on_later() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        operator = Operator(cluster, options=RollOptions(pace=FAST.pace, back_s=20))
        cluster.sick.add("c:1")
        assert "c:1 is not healthy" in await stopped(operator) or "b:1" in cluster.restarts
        cluster.sick.clear()
        cluster.hook_comes_back = False
        assert "is not listed among the brokers" in await stopped(operator)
        (away,) = cluster.restarts
        assert f"the restart of {away} was requested" in condition(operator.open().progress)
        cluster.come(away)
        cluster.unresolved.add(away)
        assert "has no address here" in await stopped(operator)
        cluster.unresolved.clear()
        cluster.hook_comes_back = True
        operator.stop = "interrupted"
        assert await stopped(operator) == "interrupted"
        operator.stop = ""
        cluster.stored[SHEDDING] = "true"
        assert "is on again; set loadBalancerSheddingEnabled" in await stopped(operator)
        cluster.stored[SHEDDING] = "false"
        assert (await operator.roll()).state is RollState.FINISHED
        assert sorted(cluster.restarts) == list(NAMES)
        assert cluster.lost == []

    played(scene)


def test_a_bundle_that_may_not_leave_stops_the_roll_unless_it_is_left_behind() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        kept = min(bundle for bundle, owner in OWNERS.items() if owner == "b:1")
        cluster.allowed[kept] = frozenset(["b:1"])
        operator = Operator(cluster)
        assert "--leave-behind" in await stopped(operator)
        assert "b:1" not in cluster.restarts
        operator.options = RollOptions(pace=FAST.pace, leaves_behind=True)
        await operator.roll()
        assert cluster.lost == [kept]

    played(scene)


def test_an_abort_restores_the_settings_and_nothing_else() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        cluster.stored[SHEDDING] = "true"
        operator = Operator(cluster)
        cluster.hook_comes_back = False
        operator.options = RollOptions(pace=FAST.pace, back_s=5)
        await stopped(operator)
        assert cluster.stored == dict.fromkeys(PAUSED_KEYS, "false")
        assert await operator.open().abort() == {}
        assert cluster.stored == {SHEDDING: "true"}
        assert operator.open().progress.state is RollState.ABORTED
        assert len(cluster.restarts) == 1

    played(scene)


def test_settings_that_somebody_changed_meanwhile_stay() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        cluster.in_file = dict.fromkeys(PAUSED_KEYS, "false")
        operator = Operator(cluster)
        whole = operator.journal.append

        def append(entry: RollEntry) -> None:
            whole(entry)
            if entry.event is RollEvent.REFILLED:
                cluster.stored[SHEDDING] = "true"

        operator.journal.append = append  # type: ignore[method-assign]
        await operator.roll()
        assert cluster.stored == {SHEDDING: "true"}
        assert any("another client set it to true meanwhile" in line for line in operator.said)

    played(scene)


@pytest.mark.parametrize("runs_already", [False, True])
def test_with_a_second_pool_each_bundle_moves_once_and_the_old_brokers_end(runs_already: bool) -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        cluster.hook_comes_back = False
        pool = ("d:1", "e:1", "f:1")
        if runs_already:
            for broker in pool:
                cluster.come(broker)
        operator = Operator(cluster, Wanted(pool=pool))
        assert (await operator.roll()).state is RollState.FINISHED
        assert cluster.listed == set(pool)
        assert cluster.lost == []
        assert sorted(cluster.unloads) == sorted(OWNERS)
        assert cluster.restarts[-1] == "a:1"
        assert settings_of(cluster) == RESTORED

    played(scene)


def test_a_roll_is_rolled_back_in_place_over_the_brokers_that_restarted() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        operator = Operator(cluster)
        whole = operator.journal.append

        def append(entry: RollEntry) -> None:
            whole(entry)
            if operator.events.count("settled") == 2:
                operator.stop = "interrupted"

        operator.journal.append = append  # type: ignore[method-assign]
        await stopped(operator)
        first = tuple(cluster.restarts)
        assert len(first) == 2
        operator.stop, operator.journal.append = "", whole  # type: ignore[method-assign]
        roll = operator.open()
        order = backwards(roll.progress)
        view = await view_of(cluster, NAMES, serving=2, room=1.5)
        assert not backwards_plan(order, view.plan).no_room
        await roll.roll_back(order)
        assert (await operator.roll()).state is RollState.FINISHED
        assert tuple(cluster.restarts[2:]) == first[::-1]
        assert cluster.lost == []
        assert settings_of(cluster) == RESTORED

    played(scene)


def test_a_second_pool_is_rolled_back_to_the_old_brokers() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        cluster.hook_comes_back = False
        operator = Operator(cluster, Wanted(pool=("d:1", "e:1", "f:1")))
        whole = operator.journal.append

        def append(entry: RollEntry) -> None:
            whole(entry)
            if operator.events.count("settled") == 1:
                operator.stop = "interrupted"

        operator.journal.append = append  # type: ignore[method-assign]
        await stopped(operator)
        operator.stop, operator.journal.append = "", whole  # type: ignore[method-assign]
        roll = operator.open()
        await roll.roll_back(backwards(roll.progress))
        assert (await operator.roll()).state is RollState.FINISHED
        assert cluster.listed == set(NAMES)
        assert cluster.lost == []
        assert settings_of(cluster) == RESTORED

    played(scene)


def test_without_an_identity_a_broker_must_be_seen_away_and_without_reports_time_decides() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        cluster.shows_identity = False
        cluster.where = Where.UNSEEN
        operator = Operator(cluster)
        began = asyncio.get_running_loop().time()
        await operator.roll()
        assert sorted(cluster.restarts) == list(NAMES)
        details = [entry.detail for entry in operator.journal.read() if entry.event is RollEvent.SETTLED]
        assert all("not visible" in detail for detail in details)
        assert asyncio.get_running_loop().time() - began > 3 * 63

    played(scene)


def test_what_an_operator_cannot_mean_is_refused() -> None:
    world = Cluster(OWNERS, {}, dict.fromkeys(NAMES, Limit()), lambda _: frozenset(NAMES))
    for wanted, words in (
        (Wanted(only=("x:1",)), "there is no broker x:1"),
        (Wanted(batch=3), "cannot restart at once"),
        (Wanted(pool=NAMES), "no broker would be replaced"),
        (Wanted(pool=("d:1",), batch=2), "leave --batch out"),
    ):
        with pytest.raises(RefusedError, match=words):
            ordered("c1", NAMES, "a:1", world, wanted)
    with pytest.raises(RefusedError, match="at most 1,000"):
        ordered("c1", [f"b{number}:1" for number in range(1_001)], "a:1", world, EVERY)
    only = ordered("c1", NAMES, "a:1", world, Wanted(only=("b:1", "b:1")))
    assert only.order.batches == (("b:1",),)
    assert set(only.order.ready) == {"a:1", "c:1"}


def test_canary_brokers_restart_first_and_get_their_bundles_back_before_the_roll_stops_once() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        leader, *others = NAMES
        canary = others[-1]
        operator = Operator(cluster, Wanted(canary=(canary, leader)))  # the leader stays the last
        shown = await operator.roll()
        assert (shown.state, shown.is_shown, shown.is_restored) == (RollState.UNDER_WAY, True, False)
        assert cluster.restarts == [canary]
        assert canary in cluster.owners.values()
        assert cluster.stored == dict.fromkeys(PAUSED_KEYS, "false")
        assert (await operator.roll()).state is RollState.FINISHED
        assert sorted(cluster.restarts) == sorted(NAMES)
        assert cluster.restarts[-1] == leader
        assert cluster.lost == []
        assert operator.events.count("canaries shown") == 1

    played(scene)


def test_a_roll_that_stopped_for_its_canaries_is_rolled_back_without_another_stop() -> None:
    async def scene() -> None:
        cluster = RolledCluster(NAMES, OWNERS)
        operator = Operator(cluster, Wanted(canary=(NAMES[1],)))
        await operator.roll()
        roll = operator.open()
        await roll.roll_back(backwards(roll.progress))
        assert (await roll.run()).state is RollState.FINISHED
        assert cluster.restarts == [NAMES[1]] * 2

    played(scene)


def test_canaries_of_whom_only_the_leader_is_one_are_refused() -> None:
    async def scene() -> None:
        operator = Operator(RolledCluster(NAMES, OWNERS), Wanted(canary=(NAMES[0],)))
        with pytest.raises(RefusedError, match="none can restart first"):
            await operator.roll()
        assert operator.events == []

    played(scene)
