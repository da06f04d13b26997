"""A leader that was replaced without noticing: what it sheds, splits and stores is refused.

The tests of the extensible load manager are in `test_extensible_load_manager`.
"""

import asyncio
from typing import Any

import pytest

from pulsar_barycenter.broker.cluster.leadership import LEADER_PATH, Leadership
from pulsar_barycenter.broker.load_manager.modular.load_data import BROKER_AVERAGES_ROOT
from pulsar_barycenter.load.reports.load_report import ResourceQuota
from pulsar_barycenter.metadata.coordination.epochs import epoch_path
from pulsar_barycenter.metadata.errors import NotLeadingError
from pulsar_barycenter.naming.bundle import Bundle
from support.balanced_cluster import (
    Balanced,
    SimplyBalanced,
    balanced,
    own,
    settled,
    shed_scenario,
    simply_balanced,
    simply_settled,
    traffic,
)
from support.control_cluster import ControlCluster, on_virtual_time


async def all_below(cluster: ControlCluster, path: str) -> dict[str, bytes]:
    found = {}
    for name in await cluster.admin.children(path):
        record = await cluster.admin.get(f"{path}/{name}")
        if record is not None:
            found[f"{path}/{name}"] = record.value
        found |= await all_below(cluster, f"{path}/{name}")
    return found


def test_the_modular_leader_sheds_nothing() -> None:
    async def scenario(cluster: ControlCluster, brokers: list[Balanced], bundles: list[Bundle]) -> None:
        b0 = brokers[0]
        await cluster.pass_by(b0.broker)
        await b0.do(lambda manager: manager.shed())
        assert b0.peers.unloads, "it tried"
        assert b0.broker.owned == bundles
        assert b0.told("unload") == []
        assert "leader epoch 1, which is over: the current epoch is 2" in b0.told("refuse")[0].sentence

    shed_scenario(scenario)


def test_the_modular_leader_splits_nothing() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(2)).bundles)
        b0, b1 = brokers = await balanced(cluster, 2)
        await own(cluster, b1, *made)
        b1.carries(traffic(0, topics=5000))
        await b1.report()
        await settled(brokers)
        await cluster.pass_by(b0.broker)
        before = await all_below(cluster, "/loadbalance/bundle-data")
        await b0.do(lambda manager: manager.check_splits())
        assert b0.peers.splits, "it tried"
        assert await cluster.boundaries() == ["0x00000000", "0x80000000", "0xffffffff"]
        assert await all_below(cluster, "/loadbalance/bundle-data") == before
        assert b1.broker.owned == made

    on_virtual_time(scenario)


def test_the_modular_leader_that_is_passed_during_a_split_leaves_the_figures_of_the_parent() -> None:
    """They may belong to a bundle that the next leader created again."""

    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(2)).bundles)
        b0, b1 = brokers = await balanced(cluster, 2)
        await own(cluster, b1, *made)
        b1.carries(traffic(0, topics=5000))
        await b1.report()
        await settled(brokers)
        await b0.do(lambda manager: manager.write_resource_quotas())
        before, split = await all_below(cluster, "/loadbalance/bundle-data"), b0.peers.split_bundle
        assert before

        async def split_and_pass_by(*arguments: Any, **options: Any) -> None:
            await split(*arguments, **options)
            await cluster.pass_by(b0.broker)

        b0.peers.split_bundle = split_and_pass_by  # type: ignore[method-assign]
        with pytest.raises(NotLeadingError):
            await b0.do(lambda manager: manager.check_splits())
        assert await all_below(cluster, "/loadbalance/bundle-data") == before

    on_virtual_time(scenario)


def test_the_modular_leader_deletes_nothing_of_brokers_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def blind(self: Leadership) -> None:
        return

    monkeypatch.setattr(Leadership, "_check_epoch", blind)

    async def scenario(cluster: ControlCluster) -> None:
        await cluster.create_namespace(1)
        b0, b1 = brokers = await balanced(cluster, 2)
        await settled(brokers)
        await cluster.pass_by(b0.broker)
        b1.broker.crash()
        await cluster.until(lambda: b1.id not in b0.manager.available_brokers(), "b1 is gone")
        await asyncio.sleep(30)
        assert await cluster.admin.exists(f"{BROKER_AVERAGES_ROOT}/{b1.id}")

    on_virtual_time(scenario)


def test_the_modular_leader_stores_nothing_of_what_it_learned_and_then_begins_another_term() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(64)).bundles)
        b0, b1 = brokers = await balanced(cluster, 2)
        await own(cluster, b1, *made)
        b1.carries(*[traffic(1e6, rate=10)] * 64)
        await b1.report()
        await settled(brokers)
        before = await all_below(cluster, "/loadbalance")
        await cluster.pass_by(b0.broker)
        await b0.do(lambda manager: manager.write_resource_quotas())
        after = await all_below(cluster, "/loadbalance")
        assert {path for path in after if after[path] != before.get(path)} == {epoch_path(LEADER_PATH)}
        await cluster.until(lambda: b0.broker.plane.leadership.times_won == 2, "it is still elected, and begins anew")
        await b0.do(lambda manager: manager.write_resource_quotas())
        assert await all_below(cluster, "/loadbalance/bundle-data")

    on_virtual_time(scenario)


def test_the_simple_leader_sheds_and_stores_nothing() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        made = list((await cluster.create_namespace(4)).bundles)
        brokers: list[SimplyBalanced] = await simply_balanced(cluster, 3)
        b0 = brokers[0]
        await own(cluster, b0, *made)
        b0.carries(*(traffic(1e6, rate=100.0 * (1 + place)) for place in range(4)))
        for each, cpu in zip(brokers, (90, 10, 20), strict=True):
            await each.report(cpu)
        await simply_settled(brokers)
        before = await all_below(cluster, "/loadbalance")
        await cluster.pass_by(b0.broker)
        await b0.do(lambda manager: manager.shed())
        assert b0.peers.unloads, "it tried"
        assert b0.broker.owned == made
        with pytest.raises(NotLeadingError):
            await b0.broker.run(b0.manager.load_data._stored.write([(str(made[0]), ResourceQuota())]))
        await b0.do(lambda manager: manager.write_resource_quotas())
        after = await all_below(cluster, "/loadbalance")
        assert {path for path in after if after[path] != before.get(path)} == {epoch_path(LEADER_PATH)}

    on_virtual_time(scenario)
