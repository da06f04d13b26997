"""Switches the cluster's own shedding and splitting off while something else moves bundles, and restores them.

Rules. The values from before are read before any setting is changed, so that they can be written to disk first. They
are the values to restore, also for a process that takes over after a crash. A value that another client has set
meanwhile is not changed. A key that had no override gets its old value first and then loses the override: brokers keep
the last value of a deleted override until they restart.

`remember`, `to_pause` and `to_restore` are pure; `Balancing` sends the requests. `operations.rolling` switches both
keys off, `balancer` those that it takes over.

Source: Pulsar's `ServiceConfiguration` (both keys are dynamic and read in every cycle), `BrokersBase`,
`BrokerService.updateDynamicConfiguration`.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec

from pulsar_barycenter.operations.executor import NotNowError, RefusedError, when_told

SHEDDING: Final = "loadBalancerSheddingEnabled"
SPLITTING: Final = "loadBalancerAutoBundleSplitEnabled"
PAUSED_KEYS: Final = (SHEDDING, SPLITTING)
OFF: Final = "false"
_AT_ONCE: Final = 16
"""The number of brokers whose settings are read at the same time."""


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a key before the cluster's own balancing was switched off: the value that was in force on all
    brokers, and whether an override (a stored dynamic value) had set it.
    """

    key: str
    value: str
    is_override: bool


class TakenOver(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a process has switched off, each with its value before that. `at` is the time of this record
    (epoch ms).
    """

    at: int
    before: tuple[Remembered, ...]

    @property
    def sentence(self) -> str:
        return ", ".join(f"{known.key} was {known.value}" for known in self.before)


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that restore the settings of a cluster: the keys in `values` are to be set, then the overrides of the
    keys in `deleted` are to be removed. `kept` maps each key that is not to be restored to the reason.
    """

    values: Mapping[str, str]
    deleted: tuple[str, ...]
    kept: Mapping[str, str]


class ControlledSettings(Protocol):
    """A running cluster whose dynamic settings can be read and changed. Every method raises NotNowError or
    RefusedError.
    """

    async def brokers(self) -> list[str]: ...
    async def settings(self, broker: str = "") -> dict[str, str]: ...
    async def overrides(self) -> dict[str, str]: ...
    async def set_override(self, key: str, value: str) -> None: ...
    async def delete_override(self, key: str) -> None: ...


def is_on(key: str, settings: Mapping[str, str]) -> bool:
    """Return whether `key` (which enables shedding or splitting) is true in the `settings` of a broker; False if the
    key is missing.
    """
    return settings.get(key, OFF).strip().lower() == "true"


def remember(
    overrides: Mapping[str, str], in_force: Mapping[str, Mapping[str, str]], keys: Sequence[str] = PAUSED_KEYS
) -> tuple[Remembered, ...]:
    """Return `keys` with their present values, so that they can be restored after the cluster's own balancing was
    switched off. `overrides` are the stored values of dynamic keys, `in_force` the settings of each broker.

    Raises:
        RefusedError: brokers do not have the same value of a key, or do not have the key.
    """
    found = []
    for key in keys:
        values = {settings.get(key, "").lower() for settings in in_force.values()}
        if len(values) != 1 or "" in values:
            told = ", ".join(f"{broker}: {settings.get(key, 'no value')}" for broker, settings in in_force.items())
            raise RefusedError(
                f"the brokers have different values of {key} ({told}); set one value with `barycenter config`"
            )
        found.append(Remembered(key=key, value=values.pop(), is_override=key in overrides))
    return tuple(found)


def to_pause(in_force: Mapping[str, Mapping[str, str]], keys: Sequence[str] = PAUSED_KEYS) -> tuple[str, ...]:
    """Return those of `keys` that are not off on every broker, and so have to be switched off."""
    return tuple(key for key in keys if _values(key, in_force) != {OFF})


def to_restore(
    before: Sequence[Remembered], overrides: Mapping[str, str], in_force: Mapping[str, Mapping[str, str]]
) -> Restoration:
    """Return the changes that restore the keys in `before`. A key is left as it is if another client has set it to a
    value that is neither `false` (off) nor its value in `before`. `overrides` are the stored values of dynamic keys,
    `in_force` the present settings of each broker.
    """
    values, deleted, kept = {}, [], {}
    for known in before:
        now = overrides.get(known.key, "").lower()
        used = _values(known.key, in_force)
        if now and now not in (OFF, known.value):
            kept[known.key] = f"another client set it to {now} meanwhile"
            continue
        if now != known.value and (now or known.is_override or used != {known.value}):
            values[known.key] = known.value
        if not known.is_override and (now or known.key in values):
            deleted.append(known.key)
    return Restoration(values=values, deleted=tuple(deleted), kept=kept)


def _values(key: str, in_force: Mapping[str, Mapping[str, str]]) -> set[str]:
    return {settings.get(key, "").lower() for settings in in_force.values()}


class Balancing:
    """Switches off a running cluster's own shedding and splitting (the settings in `keys`), and restores these
    settings. A method that changes a setting returns once every broker uses the new value. Each method raises
    TimeoutError after `within_s` seconds.
    """

    def __init__(
        self, cluster: ControlledSettings, keys: Collection[str] = PAUSED_KEYS, *, within_s: float = 60.0
    ) -> None:
        self._cluster = cluster
        self._keys = tuple(keys)
        self._within_s = within_s

    async def remembered(self) -> tuple[Remembered, ...]:
        """Return the keys with their present values. Raises what `remember` does."""
        async with asyncio.timeout(self._within_s):
            overrides = await when_told(self._cluster.overrides)
            return remember(overrides, await self._in_force(), self._keys)

    async def pause(self) -> None:
        async with asyncio.timeout(self._within_s):
            for key in to_pause(await self._in_force(), self._keys):
                await when_told(partial(self._cluster.set_override, key, OFF))
            await self._until_in_force(dict.fromkeys(self._keys, OFF))

    async def is_paused(self) -> bool:
        async with asyncio.timeout(self._within_s):
            return not to_pause(await self._in_force(), self._keys)

    async def restore(self, before: Sequence[Remembered]) -> Mapping[str, str]:
        """Restore the keys in `before`. Return the keys that are not restored because another client has set them
        meanwhile, each with a text that says so. A call that failed may be repeated; it then restores the remaining
        keys.
        """
        async with asyncio.timeout(self._within_s):
            overrides = await when_told(self._cluster.overrides)
            plan = to_restore(before, overrides, await self._in_force())
            for key, value in plan.values.items():
                await when_told(partial(self._cluster.set_override, key, value))
            # also of a key that has its override already: perhaps the brokers do not use it yet
            await self._until_in_force({known.key: known.value for known in before if known.key not in plan.kept})
            for key in plan.deleted:
                await when_told(partial(self._cluster.delete_override, key))
            return plan.kept

    async def _in_force(self) -> dict[str, dict[str, str]]:
        """Return the settings of each broker. A broker that does not answer is asked again as long as it is listed."""
        gate = asyncio.Semaphore(_AT_ONCE)
        found: dict[str, dict[str, str]] = {}

        async def ask(broker: str) -> None:
            async with gate:
                found[broker] = await self._cluster.settings(broker)

        async def ask_all() -> dict[str, dict[str, str]]:
            listed = await self._cluster.brokers()
            results = await asyncio.gather(
                *(ask(broker) for broker in listed if broker not in found), return_exceptions=True
            )
            if failures := [result for result in results if result is not None]:
                raise next((one for one in failures if not isinstance(one, NotNowError)), failures[0])
            return {broker: found[broker] for broker in listed}

        return await when_told(ask_all)

    async def _until_in_force(self, values: Mapping[str, str]) -> None:
        async def look() -> None:
            for broker, settings in (await self._in_force()).items():
                for key, value in values.items():
                    if settings.get(key, "").lower() != value:
                        raise NotNowError(
                            f"{broker} does not use the new setting {key}={value} yet; wait and try again"
                        )

        await when_told(look)
