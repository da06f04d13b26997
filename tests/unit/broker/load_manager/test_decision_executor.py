"""DecisionExecutor that cannot be carried out are told, each once, and never raised: on virtual time, with real
managers."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from barycenter.load.decisions import Split, Unload
from barycenter.load.reasons import Code, Reason
from barycenter.naming.bundle import Bundle
from support.balanced_cluster import Balanced, balanced
from support.control_cluster import ControlCluster, on_virtual_time

WHY = Reason(code=Code.ABOVE_LIMIT)
GONE = "127.0.0.1:9999"


async def yes() -> bool:
    return True


async def unload(leader: Balanced, bundle: str) -> bool:
    return await leader.manager._executor.unload(Unload(bundle, GONE, WHY), None)


async def split(leader: Balanced, bundle: str) -> bool:
    return await leader.manager._executor.split(Split(bundle, GONE, WHY), unload=yes)


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


@pytest.mark.parametrize("order", [unload, split])
def test_a_store_that_does_not_answer_is_a_refusal_too(order: Callable[[Balanced, str], Any]) -> None:
    async def scenario(cluster: ControlCluster) -> None:
        bundle: Bundle = (await cluster.create_namespace(1)).bundles[0]
        (leader,) = await balanced(cluster, 1)
        cluster.backend.partition(leader.broker.store)
        assert not await leader.broker.run(order(leader, str(bundle)))
        assert [told.reason.code for told in leader.told("refuse")] == [Code.FAILED]

    on_virtual_time(scenario)
