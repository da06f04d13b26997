"""What is on its way, while reports are folded in."""

import asyncio

import pytest

from barycenter.load.reports.load_report import LocalBrokerData, default_bundle_data
from barycenter.naming.bundle import Bundle
from support.balanced_cluster import Balanced, settled, shed_scenario
from support.control_cluster import ControlCluster


@pytest.mark.parametrize("again", [False, True])
def test_a_report_ends_what_was_on_its_way_before_it_and_not_what_was_sent_elsewhere_since(
    again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second order is given in the turn after the report was folded in, before the refresh is over."""

    async def run(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        load_data, bundle = brokers[0].manager._load_data, str(bundles[0])
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
        await brokers[0].manager._watch.refresh()
        assert sent == [True] * again
        assert {name: each.broker for name, each in load_data.preallocations.items()} == (
            {bundle: brokers[2].id} if again else {}
        )

    shed_scenario(run)


def test_a_report_that_was_read_before_a_bundle_was_sent_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it took until it was folded in."""

    async def run(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        load_data, sent = brokers[0].manager._load_data, []

        async def remember(report: LocalBrokerData) -> None:
            if report.broker_id == brokers[0].id:
                sent.append(report.sequence)
                await asyncio.sleep(1)
                load_data.preallocate(str(bundles[0]), brokers[1].id, default_bundle_data())
                await asyncio.sleep(1)

        monkeypatch.setattr(load_data, "_remember_unknown", remember)
        await brokers[0].report(90)
        await settled(brokers)
        await brokers[0].manager._watch.refresh()
        assert sent == [load_data.fold.reports[brokers[0].id].sequence]
        assert load_data.preallocations[str(bundles[0])].broker == brokers[1].id

    shed_scenario(run)
