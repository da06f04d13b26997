"""The requested runs: strategies × settings × seeds × periods, each with a name and a configuration."""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pulsar_barycenter.config.broker_conf import keys, similar_keys, with_overrides
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.managers import (
    MANAGER_KEY,
    ManagerKind,
    StrategyError,
    in_its_place,
    manager_kind,
    short_name,
)
from pulsar_barycenter.load.strategies import (
    APART,
    BOTH,
    PLACEMENT_KEY,
    SHEDDING_KEY,
    Role,
    catalogue,
    placer_name,
    shedder_name,
)
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.replay.errors import ReplayInputError

MOST_RUNS: Final = 100_000


class Scenario(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One run in a grid of replays, in which strategies, settings, seeds and periods are combined.

    `settings` are keys of broker.conf with their values as texts. `period` is the first step (inclusive) and the end
    (exclusive) of the replayed part of the input.
    """

    strategy: str
    settings: dict[str, str] = {}
    seed: int = 0
    period: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """A name for the files of the run: a hash of its fields. Equal runs have equal names, also in different
        grids.
        """
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:16]

    @property
    def title(self) -> str:
        """The name of the run in tables: its strategy, then its settings. Runs that differ only in seed or period have
        the same title.
        """
        return " ".join([self.strategy, *(f"{key}={value}" for key, value in sorted(self.settings.items()))])

    @property
    def told(self) -> str:
        """The description of the run in messages: its title, its seed and its period."""
        return f"{self.title}, seed {self.seed}, steps {self.period[0]} to {self.period[1]}"

    def config(self, base: Mapping[str, str]) -> BrokerConfig:
        """Return the configuration of the run: `base`, changed by the keys that select the strategy, then by the
        settings of the run.

        Raises:
            StrategyError: the strategy does not exist.
            ConfigError: a value is not allowed.
        """
        config = with_overrides(BrokerConfig(), {**base, **settings_of(self.strategy, base), **self.settings})
        if manager_kind(config.load_manager_class_name) is not ManagerKind.NOOP:
            shedder_name(config)
            placer_name(config)
        return config


CONFIGURED: Final = "configured"
"""The name of the load manager and strategies that the settings of the input select."""


def settings_of(strategy: str, base: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of broker.conf, with values, that select a strategy. `strategy` names a shedder, a shedder and a
    placement strategy (`A+B`), or a load manager. For CONFIGURED, return {}: `base` selects the strategy.

    A shedder alone keeps the placement strategy of `base`. If the two cannot be combined, the result also selects a
    placement strategy with which the shedder can be combined.

    Raises:
        StrategyError: no strategy has this name, or a placement strategy is given for a load manager that has its own.
    """
    if strategy == CONFIGURED:
        return {}
    name, _, placement = (part.strip() for part in strategy.partition("+"))
    managers = {each for kind in ManagerKind for each in (kind.value, kind.class_name, short_name(kind.class_name))}
    if name in managers and not placement:
        kind = next(kind for kind in ManagerKind if name == kind.value) if name in list(ManagerKind) else None
        return {MANAGER_KEY: (kind or manager_kind(name)).class_name}
    rows = [row for row in catalogue() if name in (row.name, row.class_name) and row.role is Role.SHEDDING]
    if not rows:
        known = {row.name for row in catalogue() if row.role is Role.SHEDDING} | set(ManagerKind)
        raise StrategyError(f"there is no shedder or load manager {name!r}; {in_its_place(name, known)}")
    found = {MANAGER_KEY: rows[0].manager.class_name}
    if rows[0].manager is not ManagerKind.MODULAR:
        if placement:
            raise StrategyError(
                f"{name} belongs to the {rows[0].manager} load manager, which has its own placement; leave out the "
                "placement strategy"
            )
        return found
    found[SHEDDING_KEY] = name
    if placement:
        found[PLACEMENT_KEY] = placement
    elif short_name(name) in BOTH:
        found[PLACEMENT_KEY] = name
    elif short_name(base.get(PLACEMENT_KEY, BrokerConfig().load_balancer_load_placement_strategy)) in BOTH:
        found[PLACEMENT_KEY] = APART
    return found


def scenarios(
    strategies: Sequence[str],
    sets: Sequence[str],
    seeds: Sequence[int],
    periods: Sequence[tuple[int, int]],
    base: Mapping[str, str],
) -> list[Scenario]:
    """Return the runs of a grid: each of `strategies` with each combination of settings, seed and period. Their
    configurations are checked.

    `sets` are texts of the form key=value,value: the values of the key to try. So a value that itself contains a comma
    cannot be given. `base` is the configuration to which a run's settings are added.

    Raises:
        ReplayInputError: a key is unknown, or there are no or too many runs.
        StrategyError: a strategy does not exist.
        ConfigError: a value is not allowed.
    """
    return scenarios_of(strategies, [_varied(text) for text in sets], seeds, periods, base)


def scenarios_of(
    strategies: Sequence[str],
    varied: Sequence[Sequence[tuple[str, str]]],
    seeds: Sequence[int],
    periods: Sequence[tuple[int, int]],
    base: Mapping[str, str],
) -> list[Scenario]:
    """Return the runs of a grid, as `scenarios` does. Each item of `varied` has the values of one key to try, as pairs
    of the key and a value.

    Raises the same errors as `scenarios`.
    """
    for values in varied:
        for key, _ in values:
            _check_key(key, key)
    found = [
        Scenario(strategy=strategy, settings=dict(chosen), seed=seed, period=period)
        for strategy in strategies
        for chosen in itertools.product(*varied)
        for seed in seeds
        for period in periods
    ]
    if not 1 <= len(found) <= MOST_RUNS:
        raise ReplayInputError(
            f"the grid has {count_of(len(found), 'run')}; choose values so that it has 1 to {MOST_RUNS}"
        )
    for each in found:
        each.config(base)
    return found


def _varied(text: str) -> list[tuple[str, str]]:
    key, separator, values = text.partition("=")
    key = key.strip()
    if not separator:
        raise ReplayInputError(f"--set {text}: give key=value, or key=value,value to vary it")
    _check_key(key, f"--set {text}")
    return [(key, value.strip()) for value in values.split(",")]


def _check_key(key: str, source: str) -> None:
    if key not in keys():
        raise ReplayInputError(f"{source}: there is no key {key}; {similar_keys(key)}")


def periods_of(steps: int, parts: int) -> list[tuple[int, int]]:
    """Divide `steps` steps into `parts` periods of about the same length. Return for each period its first step
    (inclusive) and its end (exclusive).

    Raises:
        ReplayInputError: `parts` is less than 1, or greater than `steps`.
    """
    if not 1 <= parts <= steps:
        raise ReplayInputError(
            f"{count_of(steps, 'step')} cannot be divided into {parts} periods; give 1 or more with --parts, and no"
            " more than there are steps"
        )
    return [(steps * part // parts, steps * (part + 1) // parts) for part in range(parts)]
