"""Known failures of Apache Pulsar, by the numbers of its issues and pull requests, and the behaviour here.

Each is one history on virtual time, of real control planes on a store with the faults that caused it.
"""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH, LeaderValue
from pulsar_barycenter.broker.cluster.lookup_answers import (
    LookupFailedError,
)
from pulsar_barycenter.broker.cluster.registration import BROKERS_ROOT
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.load_manager.modular.load_data import BROKER_AVERAGES_ROOT
from pulsar_barycenter.broker.ownership.channel.store_records import RECORDS_ROOT
from pulsar_barycenter.broker.ownership.record import lock_path
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.service_units import events
from pulsar_barycenter.load.service_units.service_unit_state import ServiceUnitState, decode_record, encode_record
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from support.balanced_cluster import Balanced, balanced, own, settled, shed_scenario
from support.control_cluster import NAMESPACE, SESSION_S, ControlBroker, ControlCluster, on_virtual_time, topic
from support.known_failures import HAND_OVER_S, deaf, owner_first, served_within, three, unanswered

pytestmark = pytest.mark.simulation
FAIL_OVER_S = SESSION_S + 2.0
"""Within what the bundles of a broker that died are served by others."""
CLIENT_TIMEOUT_S = 30.0
"""After what a client gives up a request, by its default."""


def make_extensible(cluster: ControlCluster, port: int) -> ControlBroker:
    """Make a broker whose ownership records are in the metadata store."""

    def manager(context: LoadManagerContext) -> ExtensibleLoadManager:
        return ExtensibleLoadManager(context, LoadManagerEnvironment.in_memory(context))

    return cluster.make(
        port,
        manager,
        load_manager_class_name=ManagerKind.EXTENSIBLE.class_name,
        load_manager_service_unit_state_table_view_class_name="ServiceUnitStateMetadataStoreTableViewImpl",
    )


async def watch_one_server(cluster: ControlCluster, for_s: float) -> None:
    """Check at many instants that no two brokers serve one bundle."""
    until = cluster.loop.time() + for_s
    while cluster.loop.time() < until:
        cluster.check_one_server()
        await asyncio.sleep(0.02)


# ---- who owns a bundle ----


def test_24478_two_brokers_do_not_load_one_topic_after_the_store_was_restarted() -> None:
    """Pulsar: sessions ended with ZooKeeper's restart, and others took a broker's bundles. Its own view of the records
    had missed that and still named it: both served.

    Here: a record counts only if its number was taken in the broker's present session, so a broker that returns
    requests the bundle again, and is refused.
    """

    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        brokers = [make_extensible(cluster, port) for port in (8081, 8082, 8083)]
        await asyncio.gather(*(broker.start() for broker in brokers))
        (owner, *others), bundle = await owner_first(cluster, brokers)
        for broker in brokers:
            cluster.backend.expire_session(broker.store)
        cluster.backend.partition(owner.store)
        cluster.backend.route_notifications(owner.store, deaf)
        await watch_one_server(cluster, SESSION_S)
        await cluster.until(lambda: bool(cluster.servers(bundle)), "taken by another", within_s=400)
        assert owner.broker_id not in cluster.servers(bundle)
        cluster.backend.latency = lambda operation, path: 1.0 if path.startswith(RECORDS_ROOT) else 0.0
        cluster.backend.heal(owner.store)
        await watch_one_server(cluster, 3 * SESSION_S)
        answers = {(await cluster.follow(topic("t"), broker)).broker_id for broker in [owner, *others]}
        assert [*answers] == cluster.servers(bundle)

    on_virtual_time(scenario)


def test_25379_a_bundle_that_was_assigned_to_a_broker_while_it_restarted_is_served_when_it_is_back() -> None:
    """Pulsar: at its start a broker handled only records in the state Owned. A record that assigned a bundle to it
    stayed for 60 s, until the leader looked for stuck records.

    Here: the next duty follows from the record, whenever it was written.
    """

    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        broker = make_extensible(cluster, 8081)
        bundle = Bundle.full(NAMESPACE)
        assigning = events.assigning(None, broker.broker_id, round(cluster.loop.time() * 1000))
        await cluster.admin.put(f"{RECORDS_ROOT}/{bundle}", encode_record(assigning))
        await broker.start()
        await served_within(cluster, bundle, HAND_OVER_S, broker)
        stored = await cluster.admin.get(f"{RECORDS_ROOT}/{bundle}")
        assert stored is not None
        assert decode_record(stored.value).state is ServiceUnitState.OWNED

    on_virtual_time(scenario)


@pytest.mark.parametrize("is_done", [True, False], ids=["deleted", "not deleted"])
def test_7517_an_unload_whose_end_is_not_answered_leaves_one_server(is_done: bool) -> None:
    """Pulsar: the connection broke after ZooKeeper had deleted the lock of a bundle and before it answered. The broker
    considered the unload failed and continued to serve, while another could own the bundle.

    Here: a term that ended stays ended, and a remaining lock is removed in the background.
    """

    async def scenario(cluster: ControlCluster) -> None:
        (owner, other, _), bundle = await owner_first(cluster, await three(cluster))
        term = owner.plane.ownership.owned(bundle)
        assert term is not None
        lost = unanswered(owner, "delete", lock_path(bundle), is_done=is_done)
        await owner.run(owner.plane.namespaces.unload_bundle(bundle))
        assert lost == [lock_path(bundle)]
        assert not term.may_acknowledge
        assert not cluster.servers(bundle)
        await served_within(cluster, bundle, 2 * HAND_OVER_S, other)
        await watch_one_server(cluster, SESSION_S)

    on_virtual_time(scenario)


def test_913_a_broker_does_not_serve_on_its_predecessors_registration() -> None:
    """Pulsar: restarted within the session of its former incarnation, a broker found its key and took it for its own.
    When that session ended, the key was deleted, and the broker was in no list any more.

    Here: the broker waits for the key to expire and takes it again, in a session of this process.
    """

    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        first = await cluster.add(8081)
        path = f"{BROKERS_ROOT}/{first.broker_id}"
        first.crash()
        assert await cluster.admin.exists(path)
        began = cluster.loop.time()
        second = await cluster.add(8081)
        assert cluster.loop.time() - began <= FAIL_OVER_S
        for pause_s in (0.0, 3 * SESSION_S):
            await asyncio.sleep(pause_s)
            stored = await second.run(second.store.get(path))
            assert stored is not None
            assert stored.stat.created_by_self
        assert second.broker_id in second.plane.registration.brokers

    on_virtual_time(scenario)


@pytest.mark.parametrize("is_reported", [True, False])
def test_478_a_bundle_is_not_given_to_a_broker_that_died_after_it_was_chosen(is_reported: bool) -> None:
    """Pulsar: the broker chosen for a bundle stayed chosen after it had loaded the bundle, and even after its death:
    look-ups were sent to it for ever.

    Here: a choice ends when the bundle is reported, and when its broker leaves.
    """

    async def scenario(cluster: ControlCluster) -> None:
        bundle, *more = (await cluster.create_namespace(4)).bundles
        brokers = await balanced(cluster, 3)
        leader, *others = brokers
        await leader.report(90)  # so that another is chosen
        await settled(brokers)
        load_data = leader.manager.load_data
        for each in (bundle, *more):
            await leader.do(lambda manager, each=each: manager.select_broker(each))
        chosen = {name: each.broker for name, each in load_data.preallocations.items()}
        dead, alive = sorted(others, key=lambda each: each.id != chosen[str(bundle)])
        assert [*chosen.values()].count(dead.id) == 2  # of the other nobody asks again
        await own(cluster, dead, bundle)
        if is_reported:
            await dead.report()
            await settled(brokers)
            assert str(bundle) not in load_data.preallocations
        dead.broker.crash()
        cluster.brokers.pop(dead.id)
        cluster.backend.expire_session(dead.broker.store)
        placement = await leader.do(lambda manager: manager.select_broker(bundle))
        assert placement.broker not in (None, dead.id)
        await cluster.until(lambda: load_data.brokers == {leader.id, alive.id}, "the leader looked again")
        assert dead.id not in {each.broker for each in load_data.preallocations.values()}

    on_virtual_time(scenario)


# ---- who leads ----


class _Interrupted:
    """Does something in the middle of a leader's round: after it has requested one change."""

    def __init__(self, leader: Balanced, then: Callable[[], object]) -> None:
        self.ordered: list[str] = []
        self._then = then
        self._honest = leader.peers.unload_bundle
        leader.peers.unload_bundle = self._unload_bundle  # type: ignore[method-assign]

    async def _unload_bundle(self, broker_url: str, bundle: Bundle, *, destination: str | None, epoch: int) -> None:
        self.ordered.append(str(bundle))
        await self._honest(broker_url, bundle, destination=destination, epoch=epoch)
        if len(self.ordered) == 1:
            self._then()
            await asyncio.sleep(0.001)


def test_26253_a_former_leader_orders_no_more_unloads() -> None:
    """Pulsar: a running round of shedding continued when another broker led, because cancelling a task does not stop
    running code. Here the first of four unloads is requested; then the leader's process is paused, and another leads.

    Here: each step of a round checks whether this broker leads, and a broker whose session may be over does not.
    """

    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        leader, *others = brokers
        interrupted = _Interrupted(leader, leader.broker.node.pause)
        shedding = asyncio.ensure_future(leader.do(lambda manager: manager.shed()))
        await cluster.until(
            lambda: any(each.broker.plane.leadership.is_leader() for each in others), "another leads", within_s=60
        )
        assert len(interrupted.ordered) == 1
        leader.broker.node.resume()
        await asyncio.wait([shedding])
        assert len(interrupted.ordered) == 1
        await asyncio.sleep(SESSION_S)
        assert sum(each.broker.plane.leadership.is_leader() for each in brokers) == 1

    shed_scenario(scenario)


def test_26253_a_former_leader_writes_no_more_load_data() -> None:
    """The same for the load data of bundles and brokers, which a leader writes periodically."""

    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        leader, *others = brokers
        written: list[str] = []
        paths = [f"{BROKER_AVERAGES_ROOT}/{each.id}" for each in others]
        cluster.admin.add_listener(lambda told: written.append(told.path) if told.path in paths else None)
        refresh = leader.manager.watch.refresh

        async def lose_the_lead() -> None:
            leader.manager.watch.refresh = refresh  # type: ignore[method-assign]
            cluster.backend.partition(leader.broker.store)
            await cluster.until(
                lambda: any(each.broker.plane.leadership.is_leader() for each in others), "another leads"
            )
            cluster.backend.heal(leader.broker.store)
            await cluster.until(lambda: not leader.broker.store.session_is_overdue, "it has another session")
            await refresh()

        leader.manager.watch.refresh = lose_the_lead  # type: ignore[method-assign]
        await leader.do(lambda manager: manager.write_resource_quotas())
        await asyncio.sleep(0.1)  # until all is told
        assert not written
        successor = next(each for each in others if each.broker.plane.leadership.is_leader())
        await successor.do(lambda manager: manager.write_resource_quotas())
        await asyncio.sleep(0.1)
        assert written

    shed_scenario(scenario)


def test_23125_who_is_elected_knows_that_it_leads_although_the_store_did_not_say_so() -> None:
    """Pulsar: with a slow ZooKeeper a broker became leader without an answer, found a leader's key, took it for
    another's, and followed itself: no broker shed load any more.

    Here: a key that this session created is its own, whatever was answered, and the election checks again by itself.
    """

    async def scenario(cluster: ControlCluster) -> None:
        brokers = await three(cluster)
        (leader,) = [broker for broker in brokers if broker.plane.leadership.is_leader()]
        others = [broker for broker in brokers if broker is not leader]
        lost = [unanswered(broker, "put", LEADER_PATH, is_done=True) for broker in others]
        for broker in others:
            cluster.backend.route_notifications(broker.store, deaf)
        leader.crash()
        cluster.brokers.pop(leader.broker_id)
        await cluster.until(
            lambda: sum(broker.plane.leadership.is_leader() for broker in others) == 1,
            "another leads and knows it",
            within_s=SESSION_S + 15,
        )
        assert any(lost)
        await asyncio.sleep(10)
        (successor,) = [broker for broker in others if broker.plane.leadership.is_leader()]
        stored = await cluster.admin.get(LEADER_PATH)
        assert stored is not None
        assert msgspec.json.decode(stored.value, type=LeaderValue).broker_id == successor.broker_id
        for broker in others:
            known = broker.plane.leadership.leader()
            assert known is not None
            assert known.broker_id == successor.broker_id

    on_virtual_time(scenario)


# ---- look-ups ----


def test_8093_clients_find_their_topics_again_after_all_brokers_were_restarted() -> None:
    """Pulsar: after a restart of all brokers clients asked, timed out and asked again, for ever.

    Here: each look-up is answered or refused long before the client times out, and each is a search of its own. As
    soon as the sessions of the former processes are over, all are answered with the serving broker.
    """

    async def scenario(cluster: ControlCluster) -> None:
        names = [topic(f"t{number}") for number in range(12)]
        for broker in await three(cluster, bundles=4):
            await asyncio.gather(*(cluster.follow(name, broker) for name in names))
        for broker in cluster.brokers.values():
            broker.crash()
        brokers = [cluster.make(port) for port in (8081, 8082, 8083)]
        found: dict[tuple[TopicName, str], str] = {}

        async def ask(name: TopicName, broker: ControlBroker) -> None:
            while (name, broker.broker_id) not in found:
                began = cluster.loop.time()
                try:
                    owner = await cluster.follow(name, broker)
                    if cluster.brokers[owner.broker_id].plane.ownership.served(name) is not None:
                        found[name, broker.broker_id] = owner.broker_id
                except (LookupFailedError, MetadataError):
                    pass  # the client asks again
                assert cluster.loop.time() - began < CLIENT_TIMEOUT_S / 2
                await asyncio.sleep(0.1)

        async with asyncio.timeout(FAIL_OVER_S + 5 * HAND_OVER_S):
            asking = [ask(name, broker) for name in names for broker in brokers]
            await asyncio.gather(*(broker.start() for broker in brokers), *asking)
        for name in names:
            assert len({found[name, broker.broker_id] for broker in brokers}) == 1
        cluster.check_one_server()

    on_virtual_time(scenario)
