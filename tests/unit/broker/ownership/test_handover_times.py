"""The duration of transfers in Prometheus metrics, on virtual time: both ways of owning bundles."""

import asyncio

import pytest

from pulsar_barycenter.broker.load_manager.environment import LoadManagerEnvironment
from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager
from pulsar_barycenter.broker.ownership import handover_times
from pulsar_barycenter.broker.ownership.handover_times import HandoverTimes
from pulsar_barycenter.load.managers import ManagerKind
from pulsar_barycenter.naming.bundle import Bundle
from support.control_cluster import ControlBroker, ControlCluster, HashLoadManager, on_virtual_time, topic

CLOSING_S = 3.0


def make(cluster: ControlCluster, port: int, *, by_records: bool) -> ControlBroker:
    if not by_records:
        return cluster.make(port, HashLoadManager)
    return cluster.make(
        port,
        lambda context: ExtensibleLoadManager(context, LoadManagerEnvironment.in_memory(context)),
        load_manager_class_name=ManagerKind.EXTENSIBLE.class_name,
        load_manager_service_unit_state_table_view_class_name="ServiceUnitStateMetadataStoreTableViewImpl",
    )


def phases(broker: ControlBroker) -> dict[str, tuple[float, float]]:
    """What was observed of each phase: how often, and the seconds together."""
    registry = broker.plane.env.instruments.registry
    found = {}
    for phase in ("close", "give_up", "served", "take"):
        values = [
            registry.get_sample_value(f"barycenter_handover_seconds_{part}", {"phase": phase})
            for part in ("count", "sum")
        ]
        found[phase] = (values[0] or 0.0, values[1] or 0.0)
    return found


@pytest.mark.parametrize("by_records", [False, True], ids=["locks", "records"])
def test_giver_and_taker_tell_each_phase_once(by_records: bool) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        brokers = [make(cluster, port, by_records=by_records) for port in (8081, 8082)]
        await asyncio.gather(*(broker.start() for broker in brokers))
        first = await brokers[0].lookup(topic("t"))
        giver, taker = sorted(brokers, key=lambda broker: broker.broker_id != first.broker_id)
        bundle = giver.owned[0]
        taken_before, given_before = phases(taker)["take"][0], phases(giver)

        giver.topics.closing = lambda _bundle: asyncio.sleep(CLOSING_S)
        await giver.run(giver.plane.namespaces.unload_bundle(bundle, destination=taker.broker_id))
        if not by_records:
            await taker.run(taker.plane.ownership.acquire(bundle, reason="test"))
        await cluster.until(lambda: taker.owned == [bundle], "it is taken")
        await cluster.until(lambda: phases(giver)["served"][0] > given_before["served"][0], "the giver hears of it")

        given = phases(giver)
        assert all(given[phase][0] == given_before[phase][0] + 1 for phase in ("close", "give_up", "served"))
        assert CLOSING_S <= given["close"][1] <= given["give_up"][1] <= given["served"][1] < 2 * CLOSING_S
        assert phases(taker)["take"][0] == taken_before + 1

    on_virtual_time(scenario)


def test_no_more_bundles_are_timed_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover_times, "_MAX_TIMED", 2)
    bundles = [Bundle.parse(f"public/ns/0x{at:08x}_0x{at + 1:08x}") for at in range(3)]

    async def scenario(_cluster: ControlCluster) -> None:
        times, told = HandoverTimes(), []
        times.observe = lambda phase, _seconds: told.append(phase)
        for bundle in bundles:
            times.giving(bundle)
            times.taking(bundle)
        for bundle in bundles:
            times.served(bundle)
            times.not_taken(bundle)
            times.taken(bundle)
        assert told == ["served", "served"]

    on_virtual_time(scenario)
