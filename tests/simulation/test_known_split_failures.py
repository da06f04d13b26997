"""Known failures of splits in Apache Pulsar, by numbers of issues and pull requests; and the behaviour here."""

import asyncio
from typing import Any

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import (
    BundleNotAcquiredError,
    BundleNotFoundError,
)
from pulsar_barycenter.broker.ownership.record import lock_path
from pulsar_barycenter.naming.bundle import Bundle
from support.balanced_cluster import HEAVY, balanced, own, settled, traffic
from support.control_cluster import NAMESPACE, ControlBroker, ControlCluster, on_virtual_time, topic
from support.known_failures import HAND_OVER_S, deaf, owner_first, served_within, three, unanswered

pytestmark = pytest.mark.simulation


def split(broker: ControlBroker, bundle: Bundle, **options: Any) -> "asyncio.Future[list[Bundle]]":
    work = broker.plane.namespaces.split_bundle(bundle, algorithm="range_equally_divide", **options)
    return asyncio.ensure_future(broker.run(work))


# ---- splits ----


def test_25031_a_bundle_that_was_split_is_not_split_again() -> None:
    """Pulsar: with load data from before a split a leader requested it again, and the owner made children of a bundle
    that no longer existed: boundaries and owners differed.

    Here: the leader compares with the boundaries before it requests a split, and the owner before it carries it out.
    """

    async def scenario(cluster: ControlCluster) -> None:
        (parent,) = (await cluster.create_namespace(1)).bundles
        leader, owner = brokers = await balanced(cluster, 2)
        await own(cluster, owner, parent)
        owner.carries(traffic(HEAVY, topics=10_000))
        await owner.report()
        await settled(brokers)
        for _ in range(3):  # the owner's report still lists the parent
            await leader.do(lambda manager: manager.check_splits())
        assert [bundle for _, bundle, _, _ in leader.peers.splits] == [str(parent)]
        boundaries = await cluster.boundaries()
        with pytest.raises(BundleNotFoundError):
            await split(owner.broker, parent)
        assert await cluster.boundaries() == boundaries
        assert len(boundaries) == 3
        assert parent not in owner.broker.plane.ownership.held_bundles()

    on_virtual_time(scenario)


def test_5510_of_several_splits_of_one_bundle_at_once_one_is_carried_out() -> None:
    """Pulsar: several producers on one hot bundle caused concurrent splits. The second met the changes of the first,
    failed with an internal error and left topics without a server.

    Here: changes of one bundle run one after the other, and the second gets the answer that the bundle no longer
    exists.
    """

    async def scenario(cluster: ControlCluster) -> None:
        (owner, other, _), parent = await owner_first(cluster, await three(cluster))
        answers = await asyncio.gather(*(split(owner, parent) for _ in range(4)), return_exceptions=True)
        (children,) = [answer for answer in answers if isinstance(answer, list)]
        refused = [answer for answer in answers if not isinstance(answer, list)]
        assert len(await cluster.boundaries()) == 3
        assert owner.plane.ownership.held_bundles()[:2] == children
        assert len(refused) == 3
        for refusal in refused:
            assert isinstance(refusal, (BundleNotFoundError, BundleNotAcquiredError))
        assert (await cluster.follow(topic("t"), other)).broker_id == owner.broker_id
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_821_a_broker_that_did_not_hear_of_a_split_still_finds_the_owner() -> None:
    """Pulsar: a broker with outdated boundaries answered look-ups with "is being unloaded", until its cache was
    dropped.

    Here: it answers at once with the parent's owner, which serves the children; and when these have moved, with the
    broker that serves them, because an owner is checked against the boundaries in the store.
    """

    async def scenario(cluster: ControlCluster) -> None:
        deafened, owner, third = await three(cluster)
        assert deafened.plane.leadership.is_leader()  # it is asked whoever shall own what nobody owns
        parent = Bundle.full(NAMESPACE)
        deafened.plane.namespaces.set_destination(parent, owner.broker_id)
        await served_within(cluster, parent, HAND_OVER_S, deafened)
        cluster.backend.route_notifications(deafened.store, deaf)
        children = await split(owner, parent)
        child = next(child for child in children if child.contains(topic("t")))
        assert (await served_within(cluster, child, HAND_OVER_S, deafened)).broker_id == owner.broker_id
        await owner.run(owner.plane.namespaces.unload_bundle(child))
        for asked in (third, deafened):
            await served_within(cluster, child, 5 * HAND_OVER_S, asked)
        cluster.check_one_server()
        assert await cluster.admin.get(lock_path(parent)) is None

    on_virtual_time(scenario)


def test_5919_a_topic_of_another_bundle_is_served_while_the_boundaries_are_read_again() -> None:
    """Pulsar: a split dropped a broker's bundles of the namespace, and until it had read them again it refused the
    clients of every other bundle there: "not served by this instance".

    Here: a client that attaches waits for the boundaries.
    """

    async def scenario(cluster: ControlCluster) -> None:
        brokers = await three(cluster, bundles=2)
        names = [topic(f"t{number}") for number in range(20)]
        owners = {name: (await cluster.follow(name, brokers[0])).broker_id for name in names}
        bundles = await brokers[0].run(brokers[0].plane.bundles.get(NAMESPACE))
        one, other = bundles.bundles
        splitting = cluster.brokers[owners[next(name for name in names if one.contains(name))]]
        name = next(name for name in names if other.contains(name))
        serving = cluster.brokers[owners[name]]
        await split(splitting, one)
        serving.plane.bundles.invalidate(NAMESPACE)
        term = await serving.run(serving.plane.ownership.require_served(name))
        assert term.bundle == other
        assert term.active

    on_virtual_time(scenario)


@pytest.mark.parametrize("is_answered", [True, False])
def test_13677_a_parent_is_gone_when_its_children_are_there(is_answered: bool) -> None:
    """Pulsar: after a split the lock of the parent stayed next to those of its children, in the store and in the
    owner's list, while the owner ran.

    Here: it is deleted in the same step, and if the store does not answer that, soon after.
    """

    async def scenario(cluster: ControlCluster) -> None:
        (owner, *_), parent = await owner_first(cluster, await three(cluster))
        if not is_answered:
            unanswered(owner, "delete", lock_path(parent), is_done=False)
        children = await split(owner, parent)
        await asyncio.sleep(0 if is_answered else 2 * HAND_OVER_S)
        assert parent not in owner.plane.ownership.held_bundles()
        assert await cluster.admin.get(lock_path(parent)) is None
        for child in children:
            assert await cluster.admin.exists(lock_path(child))
        assert owner.owned == children

    on_virtual_time(scenario)
