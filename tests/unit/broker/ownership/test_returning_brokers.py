"""Brokers that are killed and return under their names: no client is sent to them before they serve."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import LookupFailedError, Owner
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.ownership.channel.machine.own_life import SESSIONS_ROOT
from pulsar_barycenter.broker.ownership.channel.store_records import RECORDS_ROOT
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.service_units.service_unit_state import decode_record
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from support.control_cluster import SESSION_S, ControlBroker, ControlCluster, on_virtual_time, topic
from support.known_failures import deaf, owner_first, served_within

SOON_S = 2.0
"""What everything besides a session takes at most."""


def modular(cluster: ControlCluster, port: int) -> ControlBroker:
    return cluster.make(port)


def extensible(cluster: ControlCluster, port: int) -> ControlBroker:
    def manager(context: LoadManagerContext) -> ExtensibleLoadManager:
        return ExtensibleLoadManager(context, LoadManagerEnvironment.in_memory(context))

    return cluster.make(
        port,
        manager,
        load_manager_class_name=ManagerKind.EXTENSIBLE.class_name,
        load_manager_service_unit_state_table_view_class_name="ServiceUnitStateMetadataStoreTableViewImpl",
    )


Make = Callable[[ControlCluster, int], ControlBroker]
of_both_managers = pytest.mark.parametrize("make", [modular, extensible])


async def three(cluster: ControlCluster, make: Make, bundles: int = 1) -> list[ControlBroker]:
    await cluster.create_namespace(bundles)
    brokers = [make(cluster, port) for port in (8081, 8082, 8083)]
    await asyncio.gather(*(broker.start() for broker in brokers))
    return brokers


def returned(cluster: ControlCluster, broker: ControlBroker, make: Make) -> ControlBroker:
    """Kill a broker, and return its next process, which is to be started."""
    broker.crash()
    return make(cluster, int(broker.broker_id.rpartition(":")[2]))


def put_late(broker: ControlBroker, root: str, *, after_s: float) -> None:
    """Delay a broker's writes below `root`."""
    at_once = broker.store.put

    async def late(path: str, *arguments: Any, **options: Any) -> Any:
        await asyncio.sleep(after_s if path.startswith(root) else 0)
        return await at_once(path, *arguments, **options)

    broker.store.put = late  # type: ignore[method-assign]


@of_both_managers
def test_a_broker_that_starts_again_holds_look_ups_until_it_can_answer(make: Make) -> None:
    """Refusals double a client's back-off, and so does an answer that sends it to a broker that does not serve."""

    async def scenario(cluster: ControlCluster) -> None:
        (owner, *_), bundle = await owner_first(cluster, await three(cluster, make))
        again = returned(cluster, owner, make)
        starting = asyncio.ensure_future(again.start())
        await asyncio.sleep(0.1)
        answer = await again.lookup(topic("t"))
        if isinstance(answer, Owner):
            assert answer.broker_id in cluster.servers(bundle)
        await starting

    on_virtual_time(scenario)


@of_both_managers
def test_a_cluster_of_which_all_brokers_start_again_refuses_no_look_up(make: Make) -> None:
    """However many clients ask while it starts: each is answered within a session."""

    async def scenario(cluster: ControlCluster) -> None:
        brokers = await three(cluster, make, bundles=4)
        names = [topic(f"t{number}") for number in range(12)]
        await asyncio.gather(*(cluster.follow(name, brokers[0]) for name in names))
        again = [returned(cluster, broker, make) for broker in brokers]
        refused: list[LookupFailedError] = []

        async def ask(name: TopicName, broker: ControlBroker) -> None:
            try:
                await cluster.follow(name, broker)
            except LookupFailedError as error:
                refused.append(error)

        async with asyncio.timeout(SESSION_S + SOON_S):
            asked = [ask(name, broker) for name in names for broker in again]
            await asyncio.gather(*(broker.start() for broker in again), *asked)
        assert refused == []

    on_virtual_time(scenario)


@of_both_managers
def test_a_client_that_comes_while_a_broker_starts_again_is_held_until_it_has(make: Make) -> None:
    """Other brokers send it there until they are notified that the former process is dead."""

    async def scenario(cluster: ControlCluster) -> None:
        (owner, *_), bundle = await owner_first(cluster, await three(cluster, make))
        again = returned(cluster, owner, make)
        starting = asyncio.ensure_future(again.start())
        await asyncio.sleep(0.1)
        attaching = asyncio.ensure_future(again.run(again.plane.ownership.require_served(topic("t"))))
        await asyncio.sleep(SESSION_S / 2)
        assert not starting.done(), "its former process may live for all it knows"
        assert not attaching.done()
        await starting
        await cluster.until(lambda: bool(cluster.servers(bundle)) or attaching.done(), "served, or refused")
        if make is extensible:
            assert (await attaching).bundle == bundle, "the record is its own"
        else:
            with pytest.raises(NotServedError):
                await attaching

    on_virtual_time(scenario)


def test_an_owner_that_is_back_is_not_named_by_the_record_of_its_former_life() -> None:
    """Its session is new and it is registered; until it has published the record again, it does not serve."""

    async def scenario(cluster: ControlCluster) -> None:
        (owner, other, _), bundle = await owner_first(cluster, await three(cluster, extensible))
        before = _number(cluster, bundle)
        again = returned(cluster, owner, extensible)
        put_late(again, RECORDS_ROOT, after_s=3)
        starting = asyncio.ensure_future(again.start())
        await cluster.until(lambda: again.plane.registration.is_registered, "it is registered")
        await asyncio.sleep(0.2)
        until = cluster.loop.time() + 8
        seen = set()
        while cluster.loop.time() < until:
            is_named = other.plane.ownership.owner_cached(bundle) is not None
            seen.add((is_named, _number(cluster, bundle) > before))
            await asyncio.sleep(0.02)
        assert (False, False) in seen
        assert (True, True) in seen
        assert (True, False) not in seen
        await starting

    on_virtual_time(scenario)


def test_a_broker_that_is_told_nothing_names_an_owner_that_is_back() -> None:
    """What was not there when it was read last is read again from time to time."""

    async def scenario(cluster: ControlCluster) -> None:
        (owner, other, _), bundle = await owner_first(cluster, await three(cluster, extensible))
        again = returned(cluster, owner, extensible)
        await cluster.until(lambda: owner.broker_id not in other.plane.registration.brokers, "it is gone")
        cluster.backend.route_notifications(other.store, deaf)
        put_late(again, SESSIONS_ROOT, after_s=7)
        await again.start()
        await asyncio.sleep(10)
        server = cluster.brokers[cluster.servers(bundle)[0]]
        await server.run(server.plane.namespaces.unload_bundle(bundle, destination=again.broker_id))

        def is_named() -> bool:
            named = other.plane.ownership.owner_cached(bundle)
            return named is not None and [named.broker_id] == [again.broker_id] == cluster.servers(bundle)

        await cluster.until(is_named, "it is named", within_s=20)

    on_virtual_time(scenario)


def _number(cluster: ControlCluster, bundle: Bundle) -> int:
    """Return the number of the bundle's record, as the store has it now."""
    stored = cluster.backend.keys.get(f"{RECORDS_ROOT}/{bundle}", session=None)
    assert stored is not None
    return decode_record(stored.value).epoch or 0


async def owned_by_all(cluster: ControlCluster, brokers: list[ControlBroker]) -> dict[str, tuple[Bundle, str]]:
    """Have bundles owned by all brokers; return one of each, and the name of a topic in it."""
    found: dict[str, tuple[Bundle, str]] = {}
    for number in range(200):
        owner = await cluster.follow(topic(f"t{number}"), brokers[0])
        bundle = await brokers[0].run(brokers[0].plane.lookup.bundle_of(topic(f"t{number}")))
        found.setdefault(owner.broker_id, (bundle, f"t{number}"))
    assert len(found) == len(brokers)
    return found


def test_a_leader_that_lost_its_session_takes_a_broker_that_dies_later_for_lost_when_its_session_ends() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers = await three(cluster, extensible, bundles=16)
        await owned_by_all(cluster, brokers)
        for broker in brokers:
            cluster.backend.expire_session(broker.store)
        await cluster.until(lambda: any(each.plane.leadership.is_leader() for each in brokers), "somebody leads")
        await asyncio.sleep(SOON_S)
        leader = next(each for each in brokers if each.plane.leadership.is_leader())
        victim = next(each for each in brokers if each is not leader)
        bundle, name = (await owned_by_all(cluster, brokers))[victim.broker_id]
        victim.crash()
        await served_within(cluster, bundle, SESSION_S + SOON_S, leader, name)

    on_virtual_time(scenario)


def test_a_leader_that_lost_its_session_waits_for_those_that_lost_theirs_with_it() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers = await three(cluster, extensible, bundles=16)
        before = await owned_by_all(cluster, brokers)
        leader = next(each for each in brokers if each.plane.leadership.is_leader())
        late = next(each for each in brokers if each is not leader)
        for broker in brokers:
            cluster.backend.expire_session(broker.store)
        cluster.backend.partition(late.store)
        await asyncio.sleep(SESSION_S / 2)
        cluster.backend.heal(late.store)
        bundle, _ = before[late.broker_id]
        await cluster.until(lambda: bool(cluster.servers(bundle)), "it is served", within_s=SESSION_S)
        assert cluster.servers(bundle) == [late.broker_id]

    on_virtual_time(scenario)
