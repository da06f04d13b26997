"""Ownership as a lock that can be lost: terms, epochs, unloads, deletions, leaving."""

import asyncio

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotFoundError, Owner
from pulsar_barycenter.broker.lookup.namespace_service import BrokerNotActiveError
from pulsar_barycenter.broker.ownership.contract import InTransit
from pulsar_barycenter.broker.ownership.locks import EPOCH_COUNTER
from pulsar_barycenter.broker.ownership.serving import NotServedError
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.errors import LockBusyError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.namespace import NamespaceName
from support.control_cluster import NAMESPACE, SESSION_S, on_virtual_time, topic
from support.owned_bundles import owner_of, record_of, split, three, unload

# ---- terms and epochs ----


def test_the_lock_record_has_pulsars_fields_and_the_epoch_of_the_term():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        stored = await cluster.admin.get(f"/namespace/public/default/{bundle.range}")
        fields = msgspec.json.decode(stored.value)
        assert stored.stat.ephemeral
        assert fields["nativeUrl"] == owner.urls.broker_url
        assert fields["httpUrl"] == owner.urls.web_url
        assert fields["brokerId"] == owner.broker_id
        assert fields["disabled"] is False
        assert fields["epoch"] == owner.plane.ownership.owned(bundle).epoch

    on_virtual_time(scenario)


def test_each_term_has_a_higher_epoch_whichever_broker_tried_first():
    """Brokers draw numbers in between; the number that counts is drawn while the lock is held."""

    async def scenario(cluster):
        brokers = await three(cluster)
        [bundle] = (await brokers[0].run(brokers[0].plane.bundles.get(NAMESPACE))).bundles
        epochs = []
        for number in range(9):
            await next_counter_value(cluster.admin, EPOCH_COUNTER)
            racing = [brokers[number % 3], brokers[(number + 1) % 3]]
            acquiring = (broker.run(broker.plane.ownership.acquire(bundle, reason="test")) for broker in racing)
            answers = await asyncio.gather(*acquiring, return_exceptions=True)
            [winner] = [each for each, answer in zip(racing, answers, strict=True) if isinstance(answer, Owner)]
            assert sum(isinstance(answer, LockBusyError) for answer in answers) == 1
            epochs.append(winner.plane.ownership.owned(bundle).epoch)
            await unload(winner, bundle)
        assert epochs == sorted(set(epochs))

    on_virtual_time(scenario)


def test_acquiring_again_what_is_served_is_the_same_term():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        again = await owner.run(owner.plane.ownership.acquire(bundle, reason="test"))
        assert again.epoch == term.epoch
        assert owner.plane.ownership.owned(bundle) is term

    on_virtual_time(scenario)


def test_a_range_that_is_no_bundle_cannot_be_acquired_and_its_lock_is_not_left():
    async def scenario(cluster):
        first, _, _ = await three(cluster, bundles=4)
        wrong = Bundle.full(NAMESPACE)
        with pytest.raises(BundleNotFoundError):
            await first.run(first.plane.ownership.acquire(wrong, reason="test"))
        missing = Bundle.full(NamespaceName.parse("public/missing"))
        with pytest.raises(BundleNotFoundError):
            await first.run(first.plane.ownership.acquire(missing, reason="test"))
        await asyncio.sleep(0.1)
        assert await record_of(cluster, wrong) is None
        assert await record_of(cluster, missing) is None

    on_virtual_time(scenario)


def test_topics_are_served_only_in_a_term():
    async def scenario(cluster):
        brokers = await three(cluster)
        owner = await owner_of(cluster)
        other = next(broker for broker in brokers if broker is not owner)
        term = await owner.run(owner.plane.ownership.require_served(topic("t")))
        assert term.active
        assert term.may_acknowledge
        with pytest.raises(NotServedError):
            await other.run(other.plane.ownership.require_served(topic("t")))

    on_virtual_time(scenario)


# ---- unload ----


def test_an_unload_closes_topics_before_it_gives_the_lock_up_and_others_see_it_leaving():
    async def scenario(cluster):
        brokers = await three(cluster)
        owner = await owner_of(cluster)
        other = next(broker for broker in brokers if broker is not owner)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        gate = asyncio.Event()
        owner.topics.closing = lambda closing: gate.wait()
        unloading = unload(owner, bundle)
        await cluster.until(lambda: not term.active, "leaving")
        await asyncio.sleep(0.2)
        assert (await record_of(cluster, bundle)).disabled
        assert isinstance(await other.run(other.plane.ownership.owner_of(bundle)), InTransit)
        assert term.may_acknowledge  # what was written is still told
        assert owner.plane.ownership.served(topic("t")) is None
        gate.set()
        assert await unloading == 1
        assert not term.may_acknowledge
        assert owner.topics.closed == [(bundle, "admin request")]
        assert await record_of(cluster, bundle) is None

    on_virtual_time(scenario)


def test_an_unload_that_takes_too_long_revokes_the_term_and_goes_on():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        owner.topics.closing = lambda closing: asyncio.sleep(3600)
        await owner.run(owner.plane.dynamic_configuration.set("namespaceBundleUnloadingTimeoutMs", "2000"))
        began = cluster.loop.time()
        await unload(owner, bundle)
        assert 2 <= cluster.loop.time() - began < 3
        assert not term.may_acknowledge
        assert await record_of(cluster, bundle) is None

    on_virtual_time(scenario)


def test_two_unloads_at_once_are_one_and_the_second_leaves_the_next_term_alone():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        owner.topics.closing = lambda closing: asyncio.sleep(1)
        first, second = unload(owner, bundle), unload(owner, bundle)
        again = asyncio.ensure_future(owner.run(owner.plane.ownership.acquire(bundle, reason="test")))
        assert await asyncio.gather(first, second) == [1, None]
        assert (await again).is_local
        assert owner.owned == [bundle]

    on_virtual_time(scenario)


def test_an_unload_is_carried_out_although_its_caller_went_away():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        owner.topics.closing = lambda closing: asyncio.sleep(1)
        caller = unload(owner, bundle)
        await asyncio.sleep(0.1)
        caller.cancel()
        await asyncio.sleep(2)
        assert await record_of(cluster, bundle) is None

    on_virtual_time(scenario)


def test_a_late_loss_of_an_old_term_does_not_touch_the_new_one():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        old = owner.plane.ownership.owned(bundle)
        await unload(owner, bundle)
        await owner.run(owner.plane.ownership.acquire(bundle, reason="test"))
        owner.node.call(owner.plane.ownership.lost, old, "late")
        await asyncio.sleep(1)
        new = owner.plane.ownership.owned(bundle)
        assert new.active
        assert new.epoch > old.epoch

    on_virtual_time(scenario)


def test_a_fenced_ledger_ends_the_term_and_frees_the_bundle():
    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        owner.node.call(owner.plane.ownership.lost, term, "ledger fenced")
        assert not term.active
        assert not term.may_acknowledge
        await asyncio.sleep(0.5)
        assert [closed for closed, _ in owner.topics.closed] == [bundle]
        assert (await owner_of(cluster)).owned == [bundle]

    on_virtual_time(scenario)


def test_an_unload_to_a_destination_goes_there_and_only_there():
    async def scenario(cluster):
        brokers = await three(cluster, bundles=4)
        leader = brokers[0]
        await asyncio.gather(*(cluster.follow(topic(f"t{n}"), leader) for n in range(40)))
        for bundle in (await leader.run(leader.plane.bundles.get(NAMESPACE))).bundles:
            for wanted in brokers:
                [current] = [broker for broker in brokers if bundle in broker.owned]
                leader.plane.namespaces.set_destination(bundle, wanted.broker_id)
                await unload(current, bundle)
                name = next(name for name in map(topic, map(str, range(100))) if bundle.contains(name))
                answers = await asyncio.gather(*(cluster.follow(name, broker) for broker in brokers * 3))
                assert {answer.broker_id for answer in answers} == {wanted.broker_id}
        with pytest.raises(BrokerNotActiveError, match=r"127\.0\.0\.1:9"):
            leader.plane.namespaces.set_destination(bundle, "127.0.0.1:9")

    on_virtual_time(scenario)


def test_lookups_go_on_while_a_bundle_is_unloaded_again_and_again():
    """No lookup fails, and after each answer the broker it names serves the bundle or has just left it."""

    async def scenario(cluster):
        brokers = await three(cluster, bundles=2)
        answered = 0
        done = False

        async def ask(broker):
            nonlocal answered
            while not done:
                assert isinstance(await cluster.follow(topic("t"), broker), Owner)
                cluster.check_one_server()
                answered += 1
                await asyncio.sleep(0.01)

        asking = [asyncio.ensure_future(ask(broker)) for broker in brokers]
        for _ in range(20):
            owner = await owner_of(cluster)
            owner.topics.closing = lambda closing: asyncio.sleep(0.05)
            await asyncio.gather(*(unload(owner, bundle) for bundle in owner.owned))
            await asyncio.sleep(0.05)
        done = True
        await asyncio.gather(*asking)
        assert answered > 100

    on_virtual_time(scenario)


# ---- split ----


def test_a_split_keeps_topics_open_and_gives_its_children_higher_epochs():
    async def scenario(cluster):
        brokers = await three(cluster)
        owner = await owner_of(cluster)
        [parent] = owner.owned
        term = owner.plane.ownership.owned(parent)
        children = await split(owner, parent)
        assert [str(child.range) for child in children] == ["0x00000000_0x7fffffff", "0x7fffffff_0xffffffff"]
        assert owner.owned == children
        assert owner.topics.closed == []
        assert owner.topics.bundles_refreshed == 1
        assert all(owner.plane.ownership.owned(child).epoch > term.epoch for child in children)
        assert not term.active
        assert await cluster.boundaries() == ["0x00000000", "0x7fffffff", "0xffffffff"]
        policies = msgspec.json.decode((await cluster.admin.get(f"/admin/policies/{NAMESPACE}")).value)
        assert policies["bundles"] == {"boundaries": await cluster.boundaries(), "numBundles": 2}
        assert await record_of(cluster, parent) is None
        for broker in brokers:
            assert (await cluster.follow(topic("t"), broker)).broker_id == owner.broker_id

    on_virtual_time(scenario)


def test_a_leaving_broker_hands_over_one_bundle_after_the_other_and_another_leads():
    async def scenario(cluster):
        brokers = await three(cluster, bundles=8)
        await asyncio.gather(*(cluster.follow(topic(f"t{n}"), brokers[0]) for n in range(50)))
        leader = brokers[0]
        owned = leader.owned
        assert owned
        leader.topics.closing = lambda closing: asyncio.sleep(0.1)
        leaving = asyncio.ensure_future(leader.run(leader.plane.leave(reason="broker stops")))
        await asyncio.sleep(0.05)
        names = [topic(f"t{n}") for n in range(50)]
        answers = await asyncio.gather(*(cluster.follow(name, brokers[1]) for name in names))
        await leaving
        closed = [bundle for bundle, _ in leader.topics.closed]
        assert [bundle for bundle in closed if bundle in owned] == owned
        await cluster.until(lambda: any(broker.plane.leadership.is_leader() for broker in brokers[1:]), "another leads")
        assert not leader.plane.leadership.is_leader()
        answers = await asyncio.gather(*(cluster.follow(name, leader) for name in names))
        assert leader.broker_id not in {answer.broker_id for answer in answers}
        await leader.run(leader.plane.close())
        await leader.run(leader.plane.close())
        cluster.check_one_server()

    on_virtual_time(scenario)


@pytest.mark.parametrize("is_overdue", [True, False], ids=["the session was overdue", "the clock was wrong"])
def test_a_term_that_withheld_a_receipt_never_gives_another(is_overdue):
    """The store answers after all, or the clock is corrected, before the broker checks: the term is over
    nevertheless. Otherwise its clients would get the following receipts and not the withheld one."""

    async def scenario(cluster):
        await three(cluster)
        owner = await owner_of(cluster)
        [bundle] = owner.owned
        term = owner.plane.ownership.owned(bundle)
        pauses = owner.plane.ownership._terms.pauses
        doubtful = "_is_overdue" if is_overdue else "_now_ms"
        honest = getattr(pauses, doubtful)
        setattr(pauses, doubtful, (lambda: True) if is_overdue else (lambda: honest() + 3_600_000))
        assert not term.may_acknowledge
        setattr(pauses, doubtful, honest)
        assert not term.may_acknowledge
        await cluster.until(lambda: owner.owned == [bundle], "served anew", within_s=SESSION_S / 10)
        assert not term.may_acknowledge
        new = owner.plane.ownership.owned(bundle)
        assert new.may_acknowledge
        assert new.epoch > term.epoch

    on_virtual_time(scenario)
