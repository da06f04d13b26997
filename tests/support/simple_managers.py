"""Settings and reports of brokers with the simple load manager."""

from collections.abc import Callable
from typing import Any

import msgspec

from pulsar_barycenter.load.reports.simple_load_report import LoadReport, decode_load_report
from pulsar_barycenter.load.simple.simple_settings import SETTING_NODES
from pulsar_barycenter.naming.bundle import Bundle
from support.balanced_cluster import SimplyBalanced, own, simply_balanced, simply_settled, traffic
from support.control_cluster import ControlCluster, on_virtual_time

Scenario = Callable[[ControlCluster, list[SimplyBalanced], list[Bundle]], Any]


async def setting(cluster: ControlCluster, name: str, value: str) -> None:
    await cluster.admin.put(SETTING_NODES[name], msgspec.json.encode({name: value}))


async def stored_report(cluster: ControlCluster, broker: SimplyBalanced) -> LoadReport:
    record = await cluster.admin.get(f"/loadbalance/brokers/{broker.id}")
    assert record is not None
    return decode_load_report(record.value)


def shed_scenario(scenario: Scenario, *, cpu: tuple[float, ...] = (90, 10, 20), **settings: Any) -> None:
    """Run `scenario` with b0 owning all four bundles, at rates 100 to 400 msg/s in the order of their names."""

    async def run(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(4)).bundles)
        brokers = await simply_balanced(cluster, len(cpu), **settings)
        await own(cluster, brokers[0], *made)
        brokers[0].carries(*(traffic(1e6, rate=100.0 * (1 + place)) for place in range(4)))
        for each, percent in zip(brokers, cpu, strict=True):
            await each.report(percent)
        await simply_settled(brokers)
        await scenario(cluster, brokers, made)

    on_virtual_time(run)
