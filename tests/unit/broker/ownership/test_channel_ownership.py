"""Bundles owned by records in the metadata store, on virtual time: the actions of brokers and their reasons."""

import asyncio
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import BundleNotAcquiredError
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.ownership.channel.machine.own_life import SESSIONS_ROOT
from pulsar_barycenter.broker.ownership.channel.machine.steps import NextStep
from pulsar_barycenter.broker.ownership.channel.store_records import RECORDS_ROOT
from pulsar_barycenter.broker.start_errors import MixedOwnershipError
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.service_units.duties import Duty
from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    decode_record,
    encode_record,
)
from pulsar_barycenter.naming.bundle import Bundle
from support.control_cluster import ControlBroker, ControlCluster, channel_of, on_virtual_time, topic

IN_STORE = "ServiceUnitStateMetadataStoreTableViewImpl"


def extensible(context: LoadManagerContext) -> ExtensibleLoadManager:
    return ExtensibleLoadManager(context, LoadManagerEnvironment.in_memory(context))


def make(cluster: ControlCluster, port: int) -> ControlBroker:
    return cluster.make(
        port,
        extensible,
        load_manager_class_name=ManagerKind.EXTENSIBLE.class_name,
        load_manager_service_unit_state_table_view_class_name=IN_STORE,
    )


async def three(cluster: ControlCluster, bundles: int = 1) -> list[ControlBroker]:
    await cluster.create_namespace(bundles)
    brokers = [make(cluster, port) for port in (8081, 8082, 8083)]
    await asyncio.gather(*(broker.start() for broker in brokers))
    return brokers


async def record_of(cluster: ControlCluster, bundle: Bundle) -> ServiceUnitStateData:
    stored = await cluster.admin.get(f"{RECORDS_ROOT}/{bundle}")
    assert stored is not None
    return decode_record(stored.value)


async def owned_by_first(cluster: ControlCluster) -> tuple[list[ControlBroker], Bundle]:
    """Return three brokers, the owner of the one bundle first, and that bundle."""
    brokers = await three(cluster)
    owner = (await brokers[0].lookup(topic("t"))).broker_id
    bundle = await brokers[0].run(brokers[0].plane.lookup.bundle_of(topic("t")))
    return sorted(brokers, key=lambda broker: broker.broker_id != owner), bundle


def release(broker: ControlBroker, bundle: Bundle, destination: ControlBroker | None = None) -> Any:
    to = None if destination is None else destination.broker_id
    return broker.run(broker.plane.namespaces.unload_bundle(bundle, destination=to))


def test_any_broker_assigns_and_all_agree() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        brokers = await three(cluster)
        answers = await asyncio.gather(*(broker.lookup(topic("t")) for broker in brokers))
        assert len({answer.broker_id for answer in answers}) == 1
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_transfer_goes_to_whom_it_is_for_and_its_clients_are_sent_there() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (source, destination, _), bundle = await owned_by_first(cluster)
        before = await record_of(cluster, bundle)
        await release(source, bundle, destination)
        after = await record_of(cluster, bundle)
        assert (after.state, after.dst_broker, after.source_broker) == (
            ServiceUnitState.OWNED,
            destination.broker_id,
            source.broker_id,
        )
        assert after.version_id == before.version_id + 3
        assert (after.epoch or 0) > (before.epoch or 0)
        assert source.topics.sent_to == [(bundle, destination.broker_id)]
        assert destination.owned == [bundle]
        assert source.owned == []

    on_virtual_time(scenario)


def test_a_term_that_is_lost_is_followed_by_one_of_a_higher_number() -> None:
    """Its late writes would else not be fenced."""

    async def scenario(cluster: ControlCluster) -> None:
        (owner, *_), bundle = await owned_by_first(cluster)
        term = owner.plane.ownership.owned(bundle)
        assert term is not None
        owner.node.call(owner.plane.ownership.lost, term, "a ledger was fenced")
        assert owner.plane.ownership.owned(bundle) is None
        await cluster.until(lambda: owner.plane.ownership.owned(bundle) is not None, "it serves again")
        again = owner.plane.ownership.owned(bundle)
        assert again is not None
        assert again.epoch > term.epoch

    on_virtual_time(scenario)


def test_the_next_owner_opens_what_producers_wait_at_for_the_term_that_it_then_begins() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (source, destination, other), bundle = await owned_by_first(cluster)
        source.topics.written = ["persistent://public/default/t", "persistent://public/default/u"]
        await release(source, bundle, destination)
        after = await record_of(cluster, bundle)
        assert after.topics is None
        told = (bundle, tuple(source.topics.written), after.epoch)
        assert destination.topics.prepared == [(*told, False), (*told, True)], "before they are closed, and after"
        assert [*source.topics.prepared, *other.topics.prepared] == []
        await release(destination, bundle)
        await other.lookup(topic("t"))
        assert len([each for broker in (source, destination, other) for each in broker.topics.prepared]) == 2

    on_virtual_time(scenario)


def test_a_number_that_was_not_taken_ahead_of_the_hand_over_opens_nothing_before_its_term() -> None:
    """Another broker may have been given a lower number meanwhile, which that one would keep from the ledgers."""

    async def scenario(cluster: ControlCluster) -> None:
        (source, destination, _), bundle = await owned_by_first(cluster)
        before = await record_of(cluster, bundle)
        handed = ServiceUnitStateData(
            ServiceUnitState.ASSIGNING,
            dst_broker=destination.broker_id,
            source_broker=source.broker_id,
            version_id=before.version_id + 1,
            topics=("persistent://public/default/t",),
        )
        await cluster.admin.put(f"{RECORDS_ROOT}/{bundle}", encode_record(handed))
        await cluster.until(lambda: destination.owned == [bundle], "it was taken", within_s=30)
        assert destination.topics.prepared == []

    on_virtual_time(scenario)


def test_a_transfer_does_not_wait_for_the_key_that_drew_its_number_to_be_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (source, destination, _), bundle = await owned_by_first(cluster)

        async def never(store: object, path: str) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr("pulsar_barycenter.metadata.coordination.counter._delete", never)
        moving = asyncio.ensure_future(release(source, bundle, destination))
        await cluster.until(lambda: destination.owned == [bundle], "it is served there", within_s=1)
        await moving

    on_virtual_time(scenario)


def test_an_unload_for_nobody_leaves_the_bundle_free_until_it_is_looked_up() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (owner, other, _), bundle = await owned_by_first(cluster)
        await release(owner, bundle)
        assert (await record_of(cluster, bundle)).state is ServiceUnitState.FREE
        assert cluster.servers(bundle) == []
        await other.lookup(topic("t"))
        assert len(cluster.servers(bundle)) == 1

    on_virtual_time(scenario)


def test_a_dead_brokers_bundles_go_to_others_once_its_session_has_ended() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (owner, other, _), bundle = await owned_by_first(cluster)
        owner.crash()
        await cluster.until(lambda: len(cluster.servers(bundle)) == 1, "another owner", within_s=30)
        record = await record_of(cluster, bundle)
        assert record.dst_broker != owner.broker_id
        assert record.force
        assert (await other.lookup(topic("t"))).broker_id == record.dst_broker

    on_virtual_time(scenario)


def test_a_broker_whose_registration_alone_is_gone_keeps_what_it_owns() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (owner, _, _), bundle = await owned_by_first(cluster)
        before = await record_of(cluster, bundle)
        await cluster.admin.delete(f"/loadbalance/brokers/{owner.broker_id}")
        await asyncio.sleep(30)
        assert await record_of(cluster, bundle) == before
        assert cluster.servers(bundle) == [owner.broker_id]
        assert await cluster.admin.exists(f"{SESSIONS_ROOT}/{owner.broker_id}")

    on_virtual_time(scenario)


def test_whoever_lost_its_session_serves_again_by_a_number_of_its_next_life() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        broker = make(cluster, 8081)
        await broker.start()
        await broker.lookup(topic("t"))
        (bundle,) = broker.owned
        before = await record_of(cluster, bundle)
        cluster.backend.expire_session(broker.store)

        def serves_again() -> bool:
            term = broker.plane.ownership.owned(bundle)
            return term is not None and term.epoch > (before.epoch or 0)

        await cluster.until(serves_again, "served again", within_s=60)
        after = await record_of(cluster, bundle)
        assert after.force
        assert after.version_id == before.version_id + 1

    on_virtual_time(scenario)


def test_a_split_keeps_topics_open_and_leaves_the_parent_deleted() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (owner, _, _), bundle = await owned_by_first(cluster)
        work = owner.plane.namespaces.split_bundle(bundle, algorithm="range_equally_divide")
        children = await owner.run(work)
        assert owner.owned == children
        assert owner.topics.closed == []
        assert (await record_of(cluster, bundle)).state is ServiceUnitState.DELETED
        for child in children:
            assert (await record_of(cluster, child)).dst_broker == owner.broker_id

    on_virtual_time(scenario)


def test_a_split_that_its_broker_began_and_did_not_survive_is_gone_on_with() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (owner, other, _), bundle = await owned_by_first(cluster)
        before = await record_of(cluster, bundle)
        owner.crash()
        halves = dict.fromkeys(("0x00000000_0x80000000", "0x80000000_0xffffffff"))
        begun = ServiceUnitStateData(
            ServiceUnitState.SPLITTING,
            source_broker=owner.broker_id,
            split_service_unit_to_dest_broker=halves,
            version_id=before.version_id + 1,
        )
        await cluster.admin.put(f"{RECORDS_ROOT}/{bundle}", encode_record(begun))
        await cluster.until(lambda: len(cluster.servers(bundle)) == 2, "both halves are served", within_s=60)
        assert await cluster.boundaries() == ["0x00000000", "0x80000000", "0xffffffff"]
        assert (await record_of(cluster, bundle)).state is ServiceUnitState.DELETED
        assert (await other.lookup(topic("t"))).broker_id != owner.broker_id

    on_virtual_time(scenario)


def test_whoever_leaves_hands_over_before_it_unregisters() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (owner, *others), bundle = await owned_by_first(cluster)
        await owner.run(owner.plane.leave(reason="test"))
        assert owner.owned == []
        (successor,) = cluster.servers(bundle)
        assert successor in {broker.broker_id for broker in others}
        assert owner.topics.sent_to == [(bundle, successor)]
        assert owner.broker_id not in await cluster.admin.children("/loadbalance/brokers")

    on_virtual_time(scenario)


def test_a_client_that_comes_before_the_record_was_read_is_held_not_refused() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (source, destination, _), bundle = await owned_by_first(cluster)
        assigned = asyncio.get_running_loop().create_future()

        def on_record(_: Bundle, __: object, after: ServiceUnitStateData | None) -> None:
            if after is not None and after.state is ServiceUnitState.ASSIGNING:
                assigned.set_result(None)

        channel_of(destination.plane).ownership.on_record(on_record)
        moving = asyncio.ensure_future(release(source, bundle, destination))
        await assigned
        assert destination.owned == []
        served = await destination.run(destination.plane.ownership.require_served(topic("t")))
        assert served.bundle == bundle
        await moving

    on_virtual_time(scenario)


@pytest.mark.parametrize("document", [b"", b"{", b'{"state":"Upgrading","dstBroker":"b"}', b'{"state":"Owned"}'])
def test_a_record_that_cannot_be_read_is_ignored_and_stops_nobody(document: bytes) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(2)
        await cluster.admin.put(f"{RECORDS_ROOT}/public/default/0x00000000_0x80000000", document)
        await cluster.admin.put(f"{RECORDS_ROOT}/public/default/nothing", b"{}")
        broker = make(cluster, 8081)
        await broker.start()
        names = [topic(f"t{number}") for number in range(8)]
        served = [name for name in names if name.hash32 >= 0x80000000]
        assert served
        for name in served:
            assert (await broker.lookup(name)).broker_id == broker.broker_id

    on_virtual_time(scenario)


def test_brokers_that_keep_ownership_elsewhere_are_no_company() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        await cluster.add(8081)  # by locks
        with pytest.raises(MixedOwnershipError, match=r"127\.0\.0\.1:8081"):
            await make(cluster, 8082).start()

    on_virtual_time(scenario)


def test_what_a_broker_registers_is_its_addresses_and_no_load() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (broker, *_) = await three(cluster)
        stored = await cluster.admin.get(f"/loadbalance/brokers/{broker.broker_id}")
        assert stored is not None
        fields = msgspec.json.decode(stored.value)
        assert fields["loadManagerClassName"] == ManagerKind.EXTENSIBLE.class_name
        assert fields["pulsarServiceUrl"] == broker.urls.broker_url
        assert "cpu" not in fields

    on_virtual_time(scenario)


def without_splits(broker: ControlBroker) -> None:
    """Have a broker carry out no split that a record asks for, as one without session does."""

    async def wait(*_: object) -> NextStep:
        return NextStep.WAIT

    settling = channel_of(broker.plane).ownership.settling
    settling.actions = {**settling.actions, Duty.SPLIT: wait}


def test_a_split_that_another_broker_goes_on_with_ends_for_whoever_asked_for_it_here() -> None:
    """The owner is without session, as its splits then wait, and the leader gives the record to another broker."""

    async def scenario(cluster: ControlCluster) -> None:
        (owner, other, _), bundle = await owned_by_first(cluster)

        without_splits(owner)
        split = asyncio.ensure_future(
            owner.run(owner.plane.namespaces.split_bundle(bundle, algorithm="range_equally_divide"))
        )
        while (begun := await record_of(cluster, bundle)).state is not ServiceUnitState.SPLITTING:
            await asyncio.sleep(0.1)
        handed_on = msgspec.structs.replace(begun, source_broker=other.broker_id, version_id=begun.version_id + 1)
        await cluster.admin.put(f"{RECORDS_ROOT}/{bundle}", encode_record(handed_on))
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(BundleNotAcquiredError, match="another broker"):
            async with asyncio.timeout(600):
                await split
        assert asyncio.get_running_loop().time() - began_s < 60
        await cluster.until(lambda: len(other.owned) == 2, "the other has both halves")
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_split_that_nobody_carries_out_ends_for_whoever_asked_for_it() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        (owner, *_), bundle = await owned_by_first(cluster)

        without_splits(owner)
        with pytest.raises(BundleNotAcquiredError, match="not split in time"):
            async with asyncio.timeout(600):
                await owner.run(owner.plane.namespaces.split_bundle(bundle, algorithm="range_equally_divide"))

    on_virtual_time(scenario)
