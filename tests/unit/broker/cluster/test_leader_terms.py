"""Terms of leadership: an epoch before anything else, and nothing after another one is taken."""

import asyncio
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.leader_term import TRANSITIONS, TermAction, TermEvent, TermState
from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH
from pulsar_barycenter.metadata.coordination.epochs import EpochRecord, epoch_path
from pulsar_barycenter.metadata.errors import FormerEpochError, GuardError, NotLeadingError, SessionLostError
from pulsar_barycenter.naming.bundle import Bundle
from support.control_cluster import (
    SESSION_S,
    ControlBroker,
    ControlCluster,
    HashLoadManager,
    on_virtual_time,
    topic,
)

EPOCH_PATH = epoch_path(LEADER_PATH)


def test_a_broker_leads_only_between_an_epoch_that_it_took_and_the_end_of_its_duties() -> None:
    """Along every way through the table."""
    ways: set[tuple[TermState, bool]] = {(TermState.FOLLOWS, False)}
    for _ in TRANSITIONS:
        for state, has_duties in tuple(ways):
            for event in TermEvent:
                after, actions = TRANSITIONS.get((state, event), (state, ()))
                has_them = (has_duties or TermAction.BEGIN in actions) and TermAction.END not in actions
                ways.add((after, has_them))
    assert ways == {(TermState.FOLLOWS, False), (TermState.TAKES, False), (TermState.LEADS, True)}
    for (_, event), (after, actions) in TRANSITIONS.items():
        assert (after is TermState.TAKES) == (TermAction.TAKE in actions)
        assert (TermAction.BEGIN in actions) == (event is TermEvent.TAKEN)


async def brokers_of(cluster: ControlCluster, count: int = 3) -> list[ControlBroker]:
    await cluster.create_namespace(2)
    return [await cluster.add(8081 + number) for number in range(count)]


def leader_of(brokers: list[ControlBroker]) -> ControlBroker:
    [leader] = [broker for broker in brokers if broker.node.alive and broker.plane.leadership.is_leader()]
    return leader


async def stored_epoch(cluster: ControlCluster) -> EpochRecord:
    record = await cluster.admin.get(EPOCH_PATH)
    assert record is not None
    return msgspec.json.decode(record.value, type=EpochRecord)


async def successor_of(cluster: ControlCluster, leader: ControlBroker) -> ControlBroker:
    others = [broker for broker in cluster.brokers.values() if broker is not leader]
    await cluster.until(lambda: any(each.plane.leadership.is_leader() for each in others), "another leads")
    return leader_of(others)


def test_each_leader_takes_the_next_epoch_whatever_ended_the_term_before() -> None:
    """A crash, an orderly end, a session that ended; and after all brokers were restarted."""

    async def scenario(cluster: ControlCluster) -> None:
        brokers = await brokers_of(cluster)
        first = leader_of(brokers)
        assert await stored_epoch(cluster) == EpochRecord(1, first.broker_id)
        assert first.plane.leadership.epoch().number == 1
        first.crash()
        second = await successor_of(cluster, first)
        assert await stored_epoch(cluster) == EpochRecord(2, second.broker_id)
        await second.run(second.plane.leadership.resign())
        [third] = [broker for broker in brokers if broker not in (first, second)]
        await cluster.until(third.plane.leadership.is_leader, "the third leads")
        cluster.backend.expire_session(third.store)
        await cluster.until(lambda: third.plane.leadership.times_won == 2, "it leads again")
        assert await stored_epoch(cluster) == EpochRecord(4, third.broker_id)
        for broker in (second, third):
            broker.crash()
        again = await cluster.add(8091)
        await cluster.until(again.plane.leadership.is_leader, "one that was started anew leads")
        assert await stored_epoch(cluster) == EpochRecord(5, again.broker_id)

    on_virtual_time(scenario)


def test_a_leader_that_stood_still_finds_every_write_and_command_refused() -> None:
    """It was stopped for longer than its session, another one was elected, and it continues."""

    async def scenario(cluster: ControlCluster) -> None:
        brokers = await brokers_of(cluster)
        former = leader_of(brokers)
        epoch, store = former.plane.leadership.epoch(), former.plane.leadership.store
        await former.run(store.put("/loadbalance/bundle-data/b", b"1"))
        owner = await cluster.follow(topic("t"), brokers[0])
        bundle = Bundle.parse(str(await brokers[0].run(brokers[0].plane.lookup.bundle_of(topic("t")))))
        serving = cluster.brokers[owner.broker_id]
        former.node.pause()
        successor = await successor_of(cluster, former)
        serving = serving if serving is not former else successor
        before = {path: await cluster.admin.get(path) for path in await paths(cluster, "/")}
        attempts: list[Exception] = []

        async def go_on() -> None:
            """What a task of it does next that had looked a moment before the pause whether it leads; in the session
            that ended meanwhile, and in the next."""
            with pytest.raises(SessionLostError):
                await former.store.put("/loadbalance/bundle-data/b", b"2", guard=epoch.guard)
            await asyncio.sleep(1)
            for write in (
                lambda: store.put("/loadbalance/bundle-data/b", b"2"),
                lambda: store.put("/loadbalance/bundle-data/c", b"2"),
                lambda: store.delete("/loadbalance/bundle-data/b"),
                lambda: former.store.put("/loadbalance/bundle-data/b", b"2", guard=epoch.guard),
            ):
                try:
                    await write()
                except (NotLeadingError, GuardError) as error:
                    attempts.append(error)

        going_on = former.node.spawn(go_on(), "goes on")
        former.node.resume()
        await going_on
        assert len(attempts) == 4
        assert not former.plane.leadership.is_leader()
        assert {path: await cluster.admin.get(path) for path in before} == before
        for command in (
            serving.plane.namespaces.unload_bundle(bundle, leader_epoch=epoch.number),
            serving.plane.namespaces.split_bundle(bundle, algorithm="range_equally_divide", leader_epoch=epoch.number),
        ):
            with pytest.raises(FormerEpochError, match="leader epoch 1, which is over: the current epoch is 2"):
                await serving.run(command)

    on_virtual_time(scenario)


async def paths(cluster: ControlCluster, below: str) -> list[str]:
    """Return the persistent keys that only a leader writes, or splits."""
    found = []
    for name in await cluster.admin.children(below):
        path = f"{below.rstrip('/')}/{name}"
        if path.startswith(("/loadbalance/bundle-data", "/admin")) or path == "/loadbalance":
            found += [path, *await paths(cluster, path)]
    return found


def test_a_split_that_a_former_leader_ordered_is_not_written_though_it_passed_the_owner() -> None:
    """The next leader takes its epoch between the owner's look at the record and the write of the boundaries."""

    async def scenario(cluster: ControlCluster) -> None:
        brokers = await brokers_of(cluster, 2)
        leader = leader_of(brokers)
        await cluster.follow(topic("t"), brokers[0])
        bundle = await brokers[0].run(brokers[0].plane.lookup.bundle_of(topic("t")))
        owner = next(broker for broker in brokers if broker.plane.ownership.is_owned(bundle))
        before = await cluster.boundaries()
        split = owner.plane.ownership.split

        async def split_late(parent: Bundle, children: list[Bundle], write: Any) -> None:
            record = await cluster.admin.get(EPOCH_PATH)
            assert record is not None
            if record.stat.version == 0:
                await cluster.admin.put(EPOCH_PATH, b'{"epoch":2,"brokerId":"c:1"}')
            await split(parent, children, write)

        owner.plane.ownership.split = split_late  # type: ignore[method-assign]
        number = leader.plane.leadership.epoch().number
        with pytest.raises(FormerEpochError):
            await owner.run(
                owner.plane.namespaces.split_bundle(bundle, algorithm="range_equally_divide", leader_epoch=number)
            )
        assert await cluster.boundaries() == before
        assert owner.plane.ownership.is_owned(bundle), "the parent goes on"

    on_virtual_time(scenario)


def test_a_leader_whose_epoch_somebody_passed_ends_its_duties_and_takes_another() -> None:
    """It is still elected: the record was restored from elsewhere, or another broker led unnoticed."""

    class Interrupted(HashLoadManager):
        ended = 0

        async def check_splits(self) -> None:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                Interrupted.ended += 1
                raise

    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        leader = await cluster.add(8081, Interrupted)
        await asyncio.sleep(120)
        await cluster.admin.put(EPOCH_PATH, b'{"epoch":41,"brokerId":"c:1"}')
        await cluster.until(lambda: leader.plane.leadership.times_won == 2, "another term")
        assert Interrupted.ended == 1
        assert leader.plane.leadership.epoch().number == 42
        cluster.backend.route_notifications(leader.store, lambda told: None)
        await cluster.admin.put(EPOCH_PATH, b'{"epoch":50,"brokerId":"c:1"}')
        with pytest.raises(NotLeadingError, match="the write is of leader epoch 42"):
            await leader.run(leader.plane.leadership.store.put("/data", b""))
        await cluster.until(lambda: leader.plane.leadership.times_won == 3, "a third term")
        assert leader.plane.leadership.epoch().number == 51

    on_virtual_time(scenario)


def test_nobody_leads_while_the_epochs_cannot_be_told() -> None:
    """Lookups continue: owned bundles are served, and the queried broker decides."""

    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        await cluster.admin.put(EPOCH_PATH, b"?")
        broker = await cluster.add(8081)
        await asyncio.sleep(SESSION_S)
        assert not broker.plane.leadership.is_leader()
        with pytest.raises(NotLeadingError):
            broker.plane.leadership.epoch()
        await cluster.follow(topic("t"), broker)
        await cluster.admin.put(EPOCH_PATH, b'{"epoch":7,"brokerId":"c:1"}')
        await cluster.until(broker.plane.leadership.is_leader, "it leads")
        assert broker.plane.leadership.epoch().number == 8

    on_virtual_time(scenario)


def test_a_leader_that_is_told_of_nothing_finds_out_by_its_next_duty() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        leader = await cluster.add(8081)
        await cluster.pass_by(leader)
        await cluster.until(lambda: leader.plane.leadership.times_won == 2, "it begins another term", within_s=200)
        assert leader.plane.leadership.epoch().number == 3

    on_virtual_time(scenario)
