"""Switches the cluster's own shedding off by dynamic configuration, and puts back what was there.

What was there is remembered before the first change. It counts until it is put back, also for the process that takes
over after a crash. If there was no override, the value that was in force is set again before the override is removed:
brokers keep the last value in use until their next start.

Source: Pulsar's `BrokerService.updateDynamicConfiguration`; its shedding tasks read the key in every round.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from pulsar_barycenter.operations.admin_cluster import AdminCluster
from pulsar_barycenter.operations.executor import NotNowError, when_told

SHEDDING_KEY: Final = "loadBalancerSheddingEnabled"
OFF: Final = "false"
_WITHIN_S: Final = 60.0


class TakenOver(msgspec.Struct, frozen=True, kw_only=True):
    """What was there before the shedding was switched off `at` (epoch ms): the override, None if there was none, and
    the value in force."""

    at: int
    override: str | None
    value: str

    @property
    def before(self) -> str:
        """The value that brokers get back."""
        return self.value if self.override is None else self.override


def is_on(settings: Mapping[str, str]) -> bool:
    """Return whether brokers with these settings shed bundles on their own."""
    return settings.get(SHEDDING_KEY, OFF).strip().lower() == "true"


async def switch_off(
    cluster: AdminCluster, before: TakenOver | None, remember: Callable[[TakenOver], Awaitable[None]], at_ms: int
) -> TakenOver:
    """Switch the shedding off on every broker, and return what is to be put back.

    `before` is what an earlier process remembered. Else `remember` is called with what is there now, before anything is
    changed.

    Raises:
        NotNowError, RefusedError, TimeoutError: the value cannot be set, or is not in force on every broker in time.
    """
    async with asyncio.timeout(_WITHIN_S):
        value = (await cluster.settings()).get(SHEDDING_KEY, OFF)
        if before is None:
            override = (await cluster.overrides()).get(SHEDDING_KEY)
            before = TakenOver(at=at_ms, override=override, value=value)
            await remember(before)
        await _set(cluster, OFF)
    return before


async def put_back(cluster: AdminCluster, before: TakenOver) -> None:
    """Put back what was there before the shedding was switched off.

    Raises:
        NotNowError, RefusedError, TimeoutError: as `switch_off`; a repetition goes on.
    """
    async with asyncio.timeout(_WITHIN_S):
        await _set(cluster, before.before)
        if before.override is None and SHEDDING_KEY in await cluster.overrides():
            await when_told(partial(cluster.delete_override, SHEDDING_KEY))


async def _set(cluster: AdminCluster, value: str) -> None:
    async def change() -> None:
        present = (await cluster.settings()).get(SHEDDING_KEY, OFF)
        if present != value:
            await cluster.set_dynamic(SHEDDING_KEY, value, expected=present)

    async def know(broker: str) -> None:
        if (await cluster.settings(broker)).get(SHEDDING_KEY, OFF) != value:
            raise NotNowError(f"{broker} does not use {SHEDDING_KEY}={value} yet")

    await when_told(change)
    for broker in await when_told(cluster.brokers):
        await when_told(partial(know, broker))
