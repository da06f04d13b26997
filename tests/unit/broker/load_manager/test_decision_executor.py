"""Decisions that cannot be carried out are logged once each and never raised: on virtual time, with real managers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest

from pulsar_barycenter.load.decisions import Refusal, Split, Unload
from pulsar_barycenter.load.reasons import Code, Reason
from pulsar_barycenter.load.splitting.split_plan import SplitPlan
from pulsar_barycenter.naming.bundle import Bundle
from support.balanced_cluster import Balanced, balanced
from support.control_cluster import ControlCluster, on_virtual_time

WHY = Reason(code=Code.ABOVE_LIMIT)
GONE = "127.0.0.1:9999"


async def yes() -> bool:
    return True


async def unload(leader: Balanced, bundle: str) -> bool:
    return await leader.manager.executor.unload(Unload(bundle, GONE, WHY), None)


async def split(leader: Balanced, bundle: str) -> bool:
    return await leader.manager.executor.split(Split(bundle, GONE, WHY), unload=yes)


@pytest.mark.parametrize("order", [unload, split])
def test_what_nobody_can_be_asked_for_is_refused_once_with_the_reason(
    order: Callable[[Balanced, str], Awaitable[bool]],
) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle: Bundle = (await cluster.create_namespace(1)).bundles[0]
        (leader,) = await balanced(cluster, 1)
        for _ in range(2):
            assert not await leader.broker.run(order(leader, str(bundle)))
        (told,) = leader.told("refuse")
        assert (told.refused, told.bundle, told.source) == (order.__name__, str(bundle), GONE)
        assert (told.reason.code, told.reason.subject, told.reason.cause) == (Code.NO_OWNER, str(bundle), WHY)
        assert not await leader.broker.run(order(leader, "no bundle"))
        assert not leader.peers.unloads + leader.peers.splits

    on_virtual_time(scenario)


def test_others_go_on_while_many_refusals_of_splits_are_told() -> None:
    class Plan:
        def namespaces(self) -> frozenset[str]:
            return frozenset()

        def refusals(self) -> Iterator[Refusal]:
            return (Refusal("split", f"b{number}", WHY) for number in range(250))

    async def scenario(cluster: ControlCluster) -> None:
        (leader,) = await balanced(cluster, 1)
        told: list[int] = []

        async def look() -> None:
            while True:
                told.append(len(leader.told("refuse")))
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        await leader.broker.run(leader.manager.executor.counted_splits(lambda _: cast("SplitPlan", Plan())))
        looking.cancel()
        assert {100, 200, 250} <= set(told)
        assert len(leader.told("refuse")) == 250

    on_virtual_time(scenario)


@pytest.mark.parametrize("order", [unload, split])
def test_a_store_that_does_not_answer_is_a_refusal_too(order: Callable[[Balanced, str], Any]) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle: Bundle = (await cluster.create_namespace(1)).bundles[0]
        (leader,) = await balanced(cluster, 1)
        cluster.backend.partition(leader.broker.store)
        assert not await leader.broker.run(order(leader, str(bundle)))
        assert [told.reason.code for told in leader.told("refuse")] == [Code.FAILED]

    on_virtual_time(scenario)


def test_every_decision_is_counted_also_what_is_told_once() -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle: Bundle = (await cluster.create_namespace(1)).bundles[0]
        (leader,) = await balanced(cluster, 1)
        for _ in range(2):
            await leader.broker.run(unload(leader, str(bundle)))
            leader.manager.executor.log_round(WHY)

        def counted(kind: str, code: Code) -> float | None:
            registry = leader.broker.plane.env.instruments.registry
            return registry.get_sample_value("barycenter_decisions_total", {"kind": kind, "reason": code.value})

        assert counted("refuse", Code.NO_OWNER) == 2
        assert counted("shed", Code.ABOVE_LIMIT) == 2
        assert len(leader.told("refuse")) == 1

    on_virtual_time(scenario)
