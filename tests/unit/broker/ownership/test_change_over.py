"""A cluster that changes from locks to ownership records, or back, broker by broker, on virtual time."""

import asyncio
from typing import Any

import pytest

from pulsar_barycenter.broker.cluster.lookup_answers import Redirect
from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.broker.ownership.channel.store_records import RECORDS_ROOT
from pulsar_barycenter.broker.ownership.record import lock_path
from pulsar_barycenter.broker.start_errors import MixedOwnershipError, RecordsElsewhereError
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.load.service_units.service_unit_state import (
    ServiceUnitState,
    ServiceUnitStateData,
    StorageType,
    encode_record,
)
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.internal_topics import SERVICE_UNIT_STATE_TOPIC
from pulsar_barycenter.naming.topic import TopicName
from support.control_cluster import ControlBroker, ControlCluster, HashLoadManager, channel_of, on_virtual_time, topic

CHANNEL = TopicName.parse(SERVICE_UNIT_STATE_TOPIC)


def extensible(context: LoadManagerContext) -> ExtensibleLoadManager:
    return ExtensibleLoadManager(context, LoadManagerEnvironment.in_memory(context))


async def by_locks(cluster: ControlCluster, port: int, **settings: Any) -> ControlBroker:
    """Start a broker after those that run, so that its load manager is the newest."""
    broker = cluster.make(port, HashLoadManager, **{"load_manager_migration_enabled": True, **settings})
    return await later(broker)


async def by_records(
    cluster: ControlCluster, port: int, place: str = "MetadataStore", **settings: Any
) -> ControlBroker:
    broker = cluster.make(
        port,
        extensible,
        load_manager_class_name=ManagerKind.EXTENSIBLE.class_name,
        load_manager_service_unit_state_table_view_class_name=f"ServiceUnitState{place}TableViewImpl",
        **{"load_manager_migration_enabled": True, **settings},
    )
    return await later(broker)


async def later(broker: ControlBroker) -> ControlBroker:
    await asyncio.sleep(1)
    await broker.start()
    return broker


async def the_bundle(broker: ControlBroker) -> Bundle:
    return await broker.run(broker.plane.lookup.bundle_of(topic("t")))


async def unload(broker: ControlBroker, bundle: Bundle) -> None:
    await broker.run(broker.plane.namespaces.unload_bundle(bundle, destination=None))


def test_an_owner_is_found_whoever_is_asked_and_however_it_owns() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        old = await by_locks(cluster, 8081)
        assert (await cluster.follow(topic("t"), old)).broker_id == old.broker_id
        new = await by_records(cluster, 8082)
        assert (await cluster.follow(topic("t"), new)).broker_id == old.broker_id
        assert new.plane.lookup.lookup_cached(topic("t")) is not None or new.owned == []

        bundle = await the_bundle(old)
        await unload(old, bundle)
        for asked in (old, new):
            assert (await cluster.follow(topic("t"), asked)).broker_id == new.broker_id
        assert (old.owned, new.owned) == ([], [bundle])
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_what_nobody_owns_goes_to_brokers_of_the_newest_load_manager_and_back_again() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        old = await by_locks(cluster, 8081)
        new = await by_records(cluster, 8082)
        assert isinstance(await old.lookup(topic("t")), Redirect)
        assert (await cluster.follow(topic("t"), old)).broker_id == new.broker_id

        newest = await by_locks(cluster, 8083)
        assert (await cluster.follow(topic("t"), newest)).broker_id == new.broker_id  # it is owned
        await unload(new, await the_bundle(new))
        assert (await cluster.follow(topic("t"), new)).broker_id in {old.broker_id, newest.broker_id}
        assert new.owned == []
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_numbers_of_terms_rise_from_one_kind_of_ownership_to_the_other() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        old = await by_locks(cluster, 8081)
        epochs = [(await cluster.follow(topic("t"), old)).epoch]
        bundle = await the_bundle(old)
        new = await by_records(cluster, 8082)
        await unload(old, bundle)
        epochs.append((await new.lookup(topic("t"))).epoch)
        third = await by_locks(cluster, 8083)
        await unload(new, bundle)
        owner = await cluster.follow(topic("t"), third)
        term = cluster.brokers[owner.broker_id].plane.ownership.owned(bundle)
        assert term is not None
        epochs.append(term.epoch)
        assert epochs == sorted({each for each in epochs if each is not None})

    on_virtual_time(scenario)


def test_a_record_is_given_up_where_the_lock_is_somebody_elses() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        old = await by_locks(cluster, 8081)
        new = await by_records(cluster, 8082)
        await unload(new, await the_bundle(new)) if new.owned else None
        await old.lookup(topic("t"), authoritative=True)
        bundle = await the_bundle(old)
        assert old.owned == [bundle]
        record = ServiceUnitStateData(ServiceUnitState.ASSIGNING, dst_broker=new.broker_id, timestamp=1, version_id=1)
        await cluster.admin.put(f"{RECORDS_ROOT}/{bundle}", encode_record(record))

        def is_given_up() -> bool:
            found = channel_of(new.plane).records.get(bundle)
            return found is not None and found.state is ServiceUnitState.FREE

        await cluster.until(is_given_up, "the record is given up")
        assert (old.owned, new.owned) == ([bundle], [])
        assert (await new.lookup(topic("t"))).broker_id == old.broker_id

    on_virtual_time(scenario)


def test_one_that_dies_leaves_its_bundles_to_either_kind() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        old = await by_locks(cluster, 8081)
        new, spare = await by_records(cluster, 8082), await by_records(cluster, 8083)
        owner = cluster.brokers[(await cluster.follow(topic("t"), old)).broker_id]
        owner.crash()
        other = spare if owner is new else new
        bundle = await the_bundle(other)
        await cluster.until(lambda: other.owned == [bundle], "the other one serves it")
        assert (await cluster.follow(topic("t"), old)).broker_id == other.broker_id

        stored = await cluster.admin.get(lock_path(bundle))
        assert stored is not None
        other.crash()
        taker = await by_locks(cluster, 8084)
        await cluster.until(lambda: not cluster.servers(bundle), "its session is over")
        await asyncio.sleep(30)
        assert (await cluster.follow(topic("t"), taker)).broker_id in {old.broker_id, taker.broker_id}
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_split_takes_the_locks_of_the_parts() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        await by_locks(cluster, 8081)
        new = await by_records(cluster, 8082)
        assert (await new.lookup(topic("t"))).broker_id == new.broker_id
        bundle = await the_bundle(new)
        await new.run(new.plane.namespaces.split_bundle(bundle, algorithm="range_equally_divide", unload=False))
        assert len(new.owned) == 2
        await cluster.until(lambda: True, "")
        for part in new.owned:
            assert await cluster.admin.exists(lock_path(part))
        await asyncio.sleep(10)
        assert not await cluster.admin.exists(lock_path(bundle))

    on_virtual_time(scenario)


def test_the_topics_of_the_channel_are_looked_up_at_who_reads_it() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        old = await by_locks(cluster, 8081)
        new = await by_records(cluster, 8082)
        answer = await old.lookup(CHANNEL)
        assert (type(answer), answer.broker_id) == (Redirect, new.broker_id)

    on_virtual_time(scenario)


def test_only_who_holds_locks_too_may_run_beside_those_who_own_by_locks() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await by_locks(cluster, 8081)
        with pytest.raises(MixedOwnershipError, match="loadManagerMigrationEnabled"):
            await by_records(cluster, 8082, load_manager_migration_enabled=False)

    on_virtual_time(scenario)


def test_nobody_who_owns_by_locks_joins_those_who_hold_none() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await by_records(cluster, 8081, load_manager_migration_enabled=False)
        with pytest.raises(MixedOwnershipError, match=r"127\.0\.0\.1:8081"):
            await by_locks(cluster, 8082)

    on_virtual_time(scenario)


def test_who_is_told_of_another_place_of_records_than_theirs_does_not_start() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await by_records(cluster, 8081)
        with pytest.raises(RecordsElsewhereError, match=r"are in the metadata store.*names the system topic"):
            await by_records(cluster, 8082, place="")

    on_virtual_time(scenario)


def test_who_is_told_of_another_place_starts_where_the_records_are_while_these_are_moved() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        first = await by_records(cluster, 8081)
        syncer = "MetadataStoreToSystemTopicSyncer"
        second = await by_records(cluster, 8082, place="", load_balancer_service_unit_table_view_syncer=syncer)
        owner = await cluster.follow(topic("t"), second)
        assert (await cluster.follow(topic("t"), first)).broker_id == owner.broker_id
        assert channel_of(second.plane).records.storage is StorageType.METADATA_STORE
        cluster.check_one_server()

    on_virtual_time(scenario)


def test_a_broker_that_tells_its_load_elsewhere_is_not_taken_for_an_idle_one() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        def modular(context: LoadManagerContext) -> ModularLoadManager:
            return ModularLoadManager(context, LoadManagerEnvironment.in_memory(context))

        old = await later(cluster.make(8081, modular, load_manager_migration_enabled=True))
        await by_records(cluster, 8082)
        manager = old.plane.load_manager
        assert isinstance(manager, ModularLoadManager)
        document = await old.run(manager.snapshot_document())
        assert list(document.brokers) == [old.broker_id]

    on_virtual_time(scenario)
