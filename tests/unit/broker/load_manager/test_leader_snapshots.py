"""A leader's snapshot in the presence of changes: it shows the moment at which it was started."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pulsar_barycenter.broker.load_manager.modular.load_data import LoadData
from pulsar_barycenter.broker.load_manager.modular.snapshots import Snapshots
from pulsar_barycenter.load.reports.load_report import LocalBrokerData, ResourceUsage, default_bundle_data, with_stats
from pulsar_barycenter.load.snapshot.load_snapshot import LoadSnapshot
from pulsar_barycenter.naming.bundle import Bundle
from support.balanced_cluster import Balanced, settled, shed_scenario, traffic
from support.control_cluster import ControlCluster


def meanwhile_scenario(
    scenario: Callable[[list[Balanced], list[Bundle], LoadData, Snapshots, "asyncio.Task[LoadSnapshot]"], Any],
    before: Callable[[list[Balanced], list[Bundle], LoadData], Any] = lambda *_: None,
) -> None:
    """Run `scenario` while the first of three brokers, which leads and owns all bundles, makes a snapshot."""

    async def run(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        load_data = brokers[0].manager.load_data
        snapshots = (await brokers[0].manager.leader()).snapshots
        before(brokers, bundles, load_data)
        load_data.changed()
        begun = snapshots.begun
        making = asyncio.create_task(snapshots.current())
        while snapshots.begun == begun:
            await asyncio.sleep(0)
        assert not making.done()
        await scenario(brokers, bundles, load_data, snapshots, making)

    shed_scenario(run)


def newer(load_data: LoadData, broker: str, figures: dict[Bundle, float], cpu: float) -> LocalBrokerData:
    """Return the broker's next report: these bundles at so many bytes/s, and a CPU of that percentage."""
    report = load_data.fold.reports[broker]
    stats = {str(bundle): traffic(throughput) for bundle, throughput in figures.items()}
    return msgspec.structs.replace(
        with_stats(report, stats), sequence=report.sequence + 1, cpu=ResourceUsage(cpu, 100.0)
    )


def figures_of(snapshot: LoadSnapshot, broker: str, bundle: Bundle) -> tuple[float, float, int]:
    """Return the broker's CPU, and the bundle's newest throughput and count of samples."""
    row = snapshot.bundles.names.index(str(bundle))
    column = snapshot.brokers.index[broker]
    return (
        float(snapshot.brokers.usage[0][column]),
        float(snapshot.bundles.latest.throughput_in[row]),
        int(snapshot.bundles.short_samples[row]),
    )


def on_its_way_to_the_second(brokers: list[Balanced], bundles: list[Bundle], load_data: LoadData) -> None:
    load_data.preallocate(str(bundles[0]), brokers[1].id, default_bundle_data())


def test_what_is_reported_while_a_snapshot_is_made_counts_with_the_next() -> None:
    """Its broker, bundles and windows alike, so that no snapshot is half of one report and half of another."""

    async def scenario(
        brokers: list[Balanced], bundles: list[Bundle], load_data: LoadData, snapshots: Snapshots, making: Any
    ) -> None:
        owner = brokers[0].id
        samples = load_data.fold.bundles[str(bundles[-1])].short_term_data.num_samples
        load_data.fold.accept(owner, newer(load_data, owner, dict.fromkeys(bundles, 7e6), cpu=33))
        load_data.changed()
        assert figures_of(await making, owner, bundles[-1]) == (90, 5e7, samples)
        assert figures_of(await snapshots.current(), owner, bundles[-1]) == (33, 7e6, samples + 1)

    meanwhile_scenario(scenario)


def test_all_who_ask_while_a_snapshot_is_made_share_the_next() -> None:
    async def scenario(_: Any, __: Any, load_data: LoadData, snapshots: Snapshots, making: Any) -> None:
        begun = snapshots.begun
        load_data.changed()
        others = [asyncio.create_task(snapshots.current()) for _ in range(5)]
        found = await asyncio.gather(*others)
        assert snapshots.begun == begun + 1
        assert all(each is found[0] for each in found)
        assert found[0] is not await making

    meanwhile_scenario(scenario)


def test_who_gives_up_leaves_the_making_to_the_next() -> None:
    async def scenario(brokers: list[Balanced], _: Any, __: Any, snapshots: Snapshots, making: Any) -> None:
        other = asyncio.create_task(snapshots.current())
        await asyncio.sleep(0)
        making.cancel()
        assert (await other).brokers.names == tuple(each.id for each in brokers)
        assert making.cancelled()

    meanwhile_scenario(scenario)


def test_a_bundle_sent_to_a_broker_while_a_snapshot_is_made_counts_there() -> None:
    async def scenario(
        brokers: list[Balanced], bundles: list[Bundle], _: Any, snapshots: Snapshots, making: Any
    ) -> None:
        for destination in (brokers[1].id, brokers[2].id):
            snapshots.preallocate(str(bundles[0]), destination, default_bundle_data())
        snapshot = await making
        assert [snapshot.is_on_its_way(str(bundles[0]), each.id) for each in brokers] == [False, False, True]

    meanwhile_scenario(scenario)


def test_a_bundle_that_arrived_while_a_snapshot_was_made_is_on_its_way_in_it_and_there_in_the_next() -> None:
    async def scenario(
        brokers: list[Balanced], bundles: list[Bundle], load_data: LoadData, snapshots: Snapshots, making: Any
    ) -> None:
        bundle, there = str(bundles[0]), brokers[1].id
        load_data.fold.accept(there, newer(load_data, there, {bundles[0]: 5e7}, cpu=10))
        del load_data.preallocations[bundle]
        load_data.changed()
        assert (await making).is_on_its_way(bundle, there)
        after = await snapshots.current()
        assert not after.is_on_its_way(bundle, there)
        rows = [row for row, name in enumerate(after.bundles.names) if name == bundle]
        assert after.brokers.index[there] in after.bundles.owner[rows].tolist()

    meanwhile_scenario(scenario, on_its_way_to_the_second)


def test_a_bundle_that_arrived_and_is_sent_on_counts_once_for_those_who_share_the_snapshot() -> None:
    async def scenario(
        brokers: list[Balanced], bundles: list[Bundle], load_data: LoadData, snapshots: Snapshots, making: Any
    ) -> None:
        bundle, begun = str(bundles[0]), snapshots.begun

        async def send_on() -> None:
            await snapshots.current()
            snapshots.preallocate(bundle, brokers[2].id, default_bundle_data())

        load_data.changed()
        asking = [asyncio.create_task(work) for work in (send_on(), snapshots.current())]
        while snapshots.begun == begun:
            await asyncio.sleep(0)
        del load_data.preallocations[bundle]  # as a report does that lists it
        load_data.changed()
        _, shared = await asyncio.gather(*asking)
        assert snapshots.begun == begun + 1
        assert [shared.is_on_its_way(bundle, each.id) for each in brokers] == [False, False, True]

    meanwhile_scenario(scenario, on_its_way_to_the_second)


def test_a_broker_that_leaves_while_a_snapshot_is_made_is_left_out() -> None:
    async def scenario(brokers: list[Balanced], _: Any, __: Any, snapshots: Snapshots, making: Any) -> None:
        registration = brokers[0].broker.plane.registration
        registration._brokers -= {brokers[1].id}
        assert (await making).brokers.names == (brokers[0].id, brokers[2].id)
        assert set(snapshots.averages) == {each.id for each in brokers}, "known until the reports are read again"

    meanwhile_scenario(scenario)


@pytest.mark.parametrize("again", [False, True])
def test_a_report_ends_what_was_on_its_way_before_it_and_not_what_was_sent_elsewhere_since(
    again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second order is given in the turn after the report was folded in, before the refresh is over."""

    async def run(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        load_data, bundle = brokers[0].manager.load_data, str(bundles[0])
        ended, sent = load_data._end_preallocations, []

        def send(generation: int) -> None:
            sent.append(generation == load_data.generation)
            load_data.preallocate(bundle, brokers[2].id, default_bundle_data())

        def end(report: LocalBrokerData, received_ms: int) -> None:
            ended(report, received_ms)
            if again and report.broker_id == brokers[0].id and not sent:
                asyncio.get_running_loop().call_soon(send, load_data.generation)

        monkeypatch.setattr(load_data, "_end_preallocations", end)
        load_data.preallocate(bundle, brokers[1].id, default_bundle_data())
        await brokers[0].report(90)
        await settled(brokers)
        await brokers[0].manager.watch.refresh()
        assert sent == [True] * again
        assert {name: each.broker for name, each in load_data.preallocations.items()} == (
            {bundle: brokers[2].id} if again else {}
        )

    shed_scenario(run)


def test_a_report_that_was_read_before_a_bundle_was_sent_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it took until it was folded in."""

    async def run(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        load_data, sent = brokers[0].manager.load_data, []

        async def remember(report: LocalBrokerData) -> None:
            if report.broker_id == brokers[0].id:
                sent.append(report.sequence)
                await asyncio.sleep(1)
                load_data.preallocate(str(bundles[0]), brokers[1].id, default_bundle_data())
                await asyncio.sleep(1)

        monkeypatch.setattr(load_data, "_remember_unknown", remember)
        await brokers[0].report(90)
        await settled(brokers)
        await brokers[0].manager.watch.refresh()
        assert sent == [load_data.fold.reports[brokers[0].id].sequence]
        assert load_data.preallocations[str(bundles[0])].broker == brokers[1].id

    shed_scenario(run)
