"""Switches the cluster's own shedding and splitting off while an operator moves bundles, and restores them.

Rules. What was there before is remembered before anything is changed, so that it can be written to disk first. A value
that somebody else has set meanwhile stays. A key that had no override gets its old value first and then loses the
override: brokers keep the last value of a deleted override until they restart.

`remember`, `to_pause` and `to_restore` are pure; `Balancing` sends the requests.

Source: Pulsar's `ServiceConfiguration` (both keys are dynamic and read in every cycle), `BrokersBase`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec

from pulsar_barycenter.operations.executor import NotNowError, RefusedError, when_told

SHEDDING: Final = "loadBalancerSheddingEnabled"
SPLITTING: Final = "loadBalancerAutoBundleSplitEnabled"
PAUSED_KEYS: Final = (SHEDDING, SPLITTING)
OFF: Final = "false"


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A key before the pause: the value in force on all brokers, and whether an override set it."""

    key: str
    value: str
    is_override: bool


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that restore keys: `values` are set, then the overrides of `deleted` are removed. `kept` says which
    keys stay as they are, and why."""

    values: Mapping[str, str]
    deleted: tuple[str, ...]
    kept: Mapping[str, str]


class ControlledSettings(Protocol):
    """A cluster whose settings can be read and changed. Every method raises NotNowError or RefusedError."""

    async def brokers(self) -> list[str]: ...
    async def settings(self, broker: str = "") -> dict[str, str]: ...
    async def overrides(self) -> dict[str, str]: ...
    async def set_override(self, key: str, value: str) -> None: ...
    async def delete_override(self, key: str) -> None: ...


def remember(overrides: Mapping[str, str], in_force: Mapping[str, Mapping[str, str]]) -> tuple[Remembered, ...]:
    """Return the keys before a pause. `in_force` has the settings of each broker.

    Raises:
        RefusedError: brokers do not have the same value of a key, or do not have the key.
    """
    found = []
    for key in PAUSED_KEYS:
        values = {settings.get(key, "").lower() for settings in in_force.values()}
        if len(values) != 1 or "" in values:
            told = ", ".join(f"{broker}: {settings.get(key, 'no value')}" for broker, settings in in_force.items())
            raise RefusedError(f"{key} is not the same on all brokers ({told}); set one value with `barycenter config`")
        found.append(Remembered(key=key, value=values.pop(), is_override=key in overrides))
    return tuple(found)


def to_pause(in_force: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return the keys that are not off on every broker."""
    return tuple(
        key for key in PAUSED_KEYS if any(settings.get(key, "").lower() != OFF for settings in in_force.values())
    )


def to_restore(before: Sequence[Remembered], overrides: Mapping[str, str]) -> Restoration:
    """Return the changes that restore the keys; `overrides` are the present ones."""
    values, deleted, kept = {}, [], {}
    for known in before:
        now = overrides.get(known.key, "").lower()
        if now and now not in (OFF, known.value):
            kept[known.key] = f"somebody set it to {now} meanwhile"
        elif now or known.is_override:
            values[known.key] = known.value
            if not known.is_override:
                deleted.append(known.key)
    changed = {key: value for key, value in values.items() if overrides.get(key, "").lower() != value}
    return Restoration(values=changed, deleted=tuple(deleted), kept=kept)


class Balancing:
    """The shedding and splitting of a running cluster. A change returns once every broker uses it; after `within_s`
    seconds it raises TimeoutError."""

    def __init__(self, cluster: ControlledSettings, *, within_s: float = 60.0) -> None:
        self._cluster = cluster
        self._within_s = within_s

    async def remembered(self) -> tuple[Remembered, ...]:
        """Return the keys as they are. Errors as of `remember`."""
        async with asyncio.timeout(self._within_s):
            overrides = await when_told(self._cluster.overrides)
            return remember(overrides, await self._in_force())

    async def pause(self) -> None:
        async with asyncio.timeout(self._within_s):
            for key in to_pause(await self._in_force()):
                await when_told(partial(self._cluster.set_override, key, OFF))
            await self._until_in_force(dict.fromkeys(PAUSED_KEYS, OFF))

    async def is_paused(self) -> bool:
        async with asyncio.timeout(self._within_s):
            return not to_pause(await self._in_force())

    async def restore(self, before: Sequence[Remembered]) -> Mapping[str, str]:
        """Restore the keys; return those that stay as they are, with the reason."""
        async with asyncio.timeout(self._within_s):
            plan = to_restore(before, await when_told(self._cluster.overrides))
            for key, value in plan.values.items():
                await when_told(partial(self._cluster.set_override, key, value))
            await self._until_in_force(plan.values)
            for key in plan.deleted:
                await when_told(partial(self._cluster.delete_override, key))
            return plan.kept

    async def _in_force(self) -> dict[str, dict[str, str]]:
        found = {}
        for broker in await when_told(self._cluster.brokers):
            found[broker] = await when_told(partial(self._cluster.settings, broker))
        return found

    async def _until_in_force(self, values: Mapping[str, str]) -> None:
        async def look() -> None:
            for broker, settings in (await self._in_force()).items():
                for key, value in values.items():
                    if settings.get(key, "").lower() != value:
                        raise NotNowError(f"{broker} does not use {key}={value} yet")

        await when_told(look)
