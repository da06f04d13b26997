"""The catalogue of all strategies: the names in configurations, the load manager of each, and its module.

A name is Pulsar's class name or its last part; our own strategies are in the package `barycenter`. A class of another
package cannot run here, even if its last part is known. Each load manager has its own strategies:

| load manager | shedding | placement | splitting |
|---|---|---|---|
| simple | its own | by `loadBalancerPlacementStrategy` | its own |
| modular | by `loadBalancerLoadSheddingStrategy` | by `loadBalancerLoadPlacementStrategy` | its own |
| extensible | TransferShedder, or ours by the key | its own LeastResourceUsageWithWeight | its own |
| no-op | none | none | none |

Packages of others add strategies to the modular load manager (`load.strategy_plugins`); `catalogue` lists all.

A strategy is a file with one class (`load.strategy`), a row in STRATEGIES, and a page. A module is imported when its
strategy is first used, because it needs numpy, and every broker checks its configuration at start.

If a strategy differs much between versions of Pulsar, it has a row for each version.

Source: Pulsar's `ModularLoadManagerImpl.initialize` and `UnloadScheduler`.
"""

import enum
import importlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pulsar_barycenter.config.pulsar_version import VERSIONS, PulsarVersion
from pulsar_barycenter.load.managers import (
    MANAGER_KEY,
    PULSAR_PACKAGE,
    ManagerKind,
    ManagerSwitchRefusedError,
    StrategyError,
    in_its_place,
    manager_in_force,
    manager_kind,
    short_name,
)
from pulsar_barycenter.load.simple.simple_settings import SimpleSettings
from pulsar_barycenter.load.strategy_plugins import Plugin, plugins

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig
    from pulsar_barycenter.load.placement.placer import Placer
    from pulsar_barycenter.load.shedding.shedder import Shedder
    from pulsar_barycenter.load.splitting.splitter import Splitter
    from pulsar_barycenter.load.strategy import Strategy

OWN_PACKAGE: Final = "barycenter"
"""The package name of strategies that are not Pulsar's."""

SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"


class Role(enum.StrEnum):
    """What a strategy chooses: bundles to unload (shedding), the owner of a bundle (placement), or bundles to split
    (splitting).
    """

    SHEDDING = "shedding"
    PLACEMENT = "placement"
    SPLITTING = "splitting"


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """A row of the catalogue of strategies: a strategy of one load manager, with its short name, Pulsar's class name,
    and the Python class that implements it.

    `is_named` True: a configuration key selects the strategy; False: its load manager always uses it. `with_other`: the
    strategy both sheds and places; with barycenterPulsarCompatibility=4.x it must be named in both keys or in neither.
    `version`: the row counts only if barycenterPulsarCompatibility is this version of Pulsar; None: the row always
    counts.
    """

    name: str
    role: Role
    manager: ManagerKind
    class_name: str
    module: str
    implementation: str
    is_named: bool = True
    with_other: bool = False
    version: PulsarVersion | None = None

    def load(self) -> "type[Strategy[Any]]":
        """Import and return the class of the strategy."""
        module = importlib.import_module(f"pulsar_barycenter.load.{self.module}")
        found: type[Strategy[Any]] = getattr(module, self.implementation)
        return found


@dataclass(frozen=True, slots=True)
class PluginRow:
    """A row of the catalogue for a strategy of another package, which the modular load manager can use."""

    plugin: Plugin
    role: Role
    manager: ManagerKind = ManagerKind.MODULAR
    is_named: bool = True
    with_other: bool = False
    version: PulsarVersion | None = None

    @property
    def name(self) -> str:
        return self.plugin.name

    @property
    def class_name(self) -> str:
        return self.plugin.class_name

    def load(self) -> "type[Strategy[Any]]":
        """Import and return the class of the strategy.

        Raises:
            PluginError: the class cannot be imported, or is not a strategy of its role.
        """
        module = importlib.import_module(f"pulsar_barycenter.load.{_CONTRACTS[self.role]}")
        return self.plugin.load(getattr(module, _CONTRACTS[self.role].rpartition(".")[2].capitalize()))


_CONTRACTS: Final = {Role.SHEDDING: "shedding.shedder", Role.PLACEMENT: "placement.placer"}
"""The module of a role's contract; its class has the name of the module."""

AnyRow: TypeAlias = StrategyRow | PluginRow


def _row(
    name: str,
    manager: ManagerKind,
    place: str,
    module: str,
    *,
    as_: str = "",
    named: bool = True,
    both: bool = False,
    version: PulsarVersion | None = None,
) -> StrategyRow:
    role = Role(module.partition(".")[0]) if not module.startswith("simple.") else Role(module.partition(".")[2])
    class_name = f"{PULSAR_PACKAGE}.{place}.{name}" if place else f"{OWN_PACKAGE}.{name}"
    return StrategyRow(name, role, manager, class_name, module, as_ or name, named, both, version)


_MODULAR, _EXTENSIBLE, _SIMPLE = ManagerKind.MODULAR, ManagerKind.EXTENSIBLE, ManagerKind.SIMPLE
_OURS: Final = "LeastDisturbance"
_OUR_PLACE: Final = "least_disturbance.least_disturbance"
_SIMPLE_NAME: Final = short_name(_SIMPLE.class_name)

STRATEGIES: Final = (
    _row("ThresholdShedder", _MODULAR, "impl", "shedding.threshold_shedder"),
    _row("OverloadShedder", _MODULAR, "impl", "shedding.overload_shedder"),
    _row("UniformLoadShedder", _MODULAR, "impl", "shedding.uniform_load_shedder"),
    _row("AvgShedder", _MODULAR, "impl", "shedding.avg_shedder", both=True),
    _row("RangeThresholdShedder", _MODULAR, "impl", "shedding.range_threshold_shedder"),
    _row("DeviationShedder", _MODULAR, "impl", "shedding.deviation_shedder"),
    _row(_OURS, _MODULAR, "", f"shedding.{_OUR_PLACE}", both=True),
    _row("LeastLongTermMessageRate", _MODULAR, "impl", "placement.least_long_term_message_rate"),
    _row("LeastResourceUsageWithWeight", _MODULAR, "impl", "placement.least_resource_usage_with_weight"),
    _row("RoundRobinBrokerSelector", _MODULAR, "impl", "placement.round_robin_broker_selector"),
    _row("AvgShedder", _MODULAR, "impl", "placement.avg_shedder", as_="AvgShedderPlacement", both=True, version="5.x"),
    _row("AvgShedder", _MODULAR, "impl", "placement.avg_shedder_pins", as_="AvgShedderPins", both=True, version="4.x"),
    _row(_OURS, _MODULAR, "", "placement.least_disturbance", as_="LeastDisturbancePlacement", both=True),
    _row("BundleSplitterTask", _MODULAR, "impl", "splitting.bundle_splitter", named=False),
    _row("TransferShedder", _EXTENSIBLE, "extensions.scheduler", "shedding.transfer_shedder"),
    _row(_OURS, _EXTENSIBLE, "", f"shedding.{_OUR_PLACE}"),
    _row(
        "LeastResourceUsageWithWeight",
        _EXTENSIBLE,
        "extensions.strategy",
        "placement.least_resource_usage_with_weight_extensible",
    ),
    _row(
        "DefaultNamespaceBundleSplitStrategyImpl",
        _EXTENSIBLE,
        "extensions.strategy",
        "splitting.default_split_strategy",
        as_="DefaultSplitStrategy",
        named=False,
    ),
    _row(_SIMPLE_NAME, _SIMPLE, "impl", "simple.shedding", as_="SimpleShedder", named=False),
    _row(_SIMPLE_NAME, _SIMPLE, "impl", "simple.splitting", as_="SimpleSplitter", named=False),
)
"""All strategies; those of one role and load manager are in the order in which documents list them."""


def catalogue() -> tuple[AnyRow, ...]:
    """Return all strategies: those of this package, then those of other installed packages."""
    return (*STRATEGIES, *_plugin_rows())


def of_role(manager: ManagerKind, role: Role, version: PulsarVersion = VERSIONS[0]) -> tuple[AnyRow, ...]:
    """Return the strategies that a load manager has for a role, if barycenterPulsarCompatibility is `version`; those of
    other packages are the last.
    """
    return (*_built_in(manager, role, version), *_of_plugins(manager, role))


def _built_in(manager: ManagerKind, role: Role, version: PulsarVersion = VERSIONS[0]) -> tuple[StrategyRow, ...]:
    return tuple(
        row for row in STRATEGIES if row.manager is manager and row.role is role and row.version in (None, version)
    )


@cache
def _plugin_rows() -> tuple[PluginRow, ...]:
    return tuple(PluginRow(plugin, Role(plugin.role)) for plugin in plugins())


def _of_plugins(manager: ManagerKind, role: Role) -> tuple[PluginRow, ...]:
    """Return the strategies of other packages. A strategy that has the same name as a strategy of this package is left
    out.
    """
    own = {row.name for row in STRATEGIES}
    return tuple(row for row in _plugin_rows() if row.manager is manager and row.role is role and row.name not in own)


SHEDDER_NAMES: Final = frozenset(row.name for row in _built_in(ManagerKind.MODULAR, Role.SHEDDING))
PLACER_NAMES: Final = frozenset(row.name for row in _built_in(ManagerKind.MODULAR, Role.PLACEMENT))


def supported(manager: ManagerKind, role: Role) -> frozenset[str]:
    """Return the short names of the strategies that a load manager has for a role."""
    return frozenset(row.name for row in of_role(manager, role))


BOTH: Final = frozenset(row.name for row in STRATEGIES if row.with_other)
"""Strategies that both shed and place. With barycenterPulsarCompatibility=4.x, if one key names one of these, the other
key must name the same one.
"""

APART: Final = "LeastLongTermMessageRate"
"""The placement to use if the configured one also sheds, but another shedder is configured; not with
barycenterPulsarCompatibility=4.x.
"""
SHEDS_ALONE: Final = "ThresholdShedder"
"""A shedder that leaves placement to other strategies; the default of Pulsar 4.x."""


class UnknownStrategyError(StrategyError):
    """The load manager has no strategy of this name; the text has the key, the value and the allowed names."""

    def __init__(self, key: str, name: str, known: Collection[str], detail: str = "") -> None:
        mend = f"use one of {', '.join(sorted(known))}" if detail else in_its_place(name, known)
        if not detail:
            mend += ". A strategy of another package needs that package on every broker"
        super().__init__(f"{key}={name!r} {detail or 'is not a strategy known here'}; {mend}")
        self.key = key
        self.name = name


class MismatchedStrategiesError(StrategyError):
    """With barycenterPulsarCompatibility=4.x, a strategy that both sheds and places must be named in both keys, but is
    named in only one. The text names both keys and what to set.
    """

    def __init__(self, name: str, key: str, other_key: str, other: str) -> None:
        super().__init__(
            f"{key} is {name}, which both sheds and places, but {other_key} is {other}; "
            f"set {other_key}={name} as well, or another strategy in {key}"
        )
        self.key = key


class OwnStrategiesError(StrategyError):
    """Another strategy was requested for a role for which the load manager has a fixed strategy, which no key
    selects.
    """

    def __init__(self, manager: ManagerKind, role: Role) -> None:
        super().__init__(
            f"the {manager} load manager has its own {role}, which cannot be replaced; set {MANAGER_KEY}="
            f"{ManagerKind.MODULAR.class_name} to choose a strategy by name"
        )


class NothingToDecideError(StrategyError):
    """A strategy was requested for the no-op load manager, which has no strategies."""

    def __init__(self, role: Role) -> None:
        super().__init__(
            f"{MANAGER_KEY} is {ManagerKind.NOOP.class_name}, which has no {role}; "
            f"set {MANAGER_KEY}={ManagerKind.MODULAR.class_name}"
        )


def check_change(before: "BrokerConfig", after: "BrokerConfig") -> None:
    """Check whether running brokers can change from one configuration to the other.

    Raises:
        StrategyError: running brokers cannot make this change; the text says why and what to do.
    """
    if before.load_manager_class_name != after.load_manager_class_name:
        old, new = manager_in_force(before), manager_kind(after.load_manager_class_name)
        if old is not new and ManagerKind.EXTENSIBLE in (old, new):
            raise ManagerSwitchRefusedError(old, new)
    if manager_in_force(after) is ManagerKind.MODULAR:
        check_modular(after)


def check_modular(config: "BrokerConfig") -> None:
    """Check the strategies that a configuration names for the modular load manager.

    A strategy of another package is imported, and its settings are checked: only this shows whether a broker can use
    the strategy.

    Raises:
        StrategyError: a strategy does not exist, the two cannot be combined, or settings are not allowed.
    """
    for role, name in (
        (Role.SHEDDING, shedder_name(config, ManagerKind.MODULAR)),
        (Role.PLACEMENT, placer_name(config, ManagerKind.MODULAR)),
    ):
        if not any(row.name == name for row in _built_in(ManagerKind.MODULAR, role)):
            made_of(strategy(ManagerKind.MODULAR, role, name), config)


def shedder_name(config: "BrokerConfig", manager: ManagerKind | None = None) -> str:
    """Return the short name of the shedder of `manager`, or of the load manager in force if it is None.

    The modular load manager uses the shedder that `loadBalancerLoadSheddingStrategy` names. If this shedder also
    places, but another placement strategy is configured, then that strategy chooses the destinations; with
    barycenterPulsarCompatibility=4.x this is an error. The extensible load manager uses TransferShedder and ignores the
    key, as in Pulsar, unless the key names Barycenter's own strategy. The simple load manager always uses its own
    shedder.

    Raises:
        UnknownStrategyError: there is no strategy of this name, or it belongs to another load manager.
        MismatchedStrategiesError: barycenterPulsarCompatibility is 4.x, and only one of the two keys names a strategy
            that both sheds and places.
        NothingToDecideError: the load manager is the no-op one.
    """
    manager = manager or manager_in_force(config)
    match manager:
        case ManagerKind.EXTENSIBLE:
            return _of_extensible(config)
        case ManagerKind.SIMPLE:
            return of_role(manager, Role.SHEDDING)[0].name
        case ManagerKind.NOOP:
            raise NothingToDecideError(Role.SHEDDING)
    name = _of_modular(SHEDDING_KEY, config.load_balancer_load_shedding_strategy, Role.SHEDDING)
    if config.barycenter_pulsar_compatibility != "4.x":
        return name
    placer = short_name(config.load_balancer_load_placement_strategy)
    if name != placer and name in BOTH:
        raise MismatchedStrategiesError(name, SHEDDING_KEY, PLACEMENT_KEY, placer)
    if name != placer and placer in BOTH:
        raise MismatchedStrategiesError(placer, PLACEMENT_KEY, SHEDDING_KEY, name)
    return name


def placer_name(config: "BrokerConfig", manager: ManagerKind | None = None) -> str:
    """Return the short name of the placement strategy of `manager`, or of the load manager in force if it is None.

    The modular load manager uses the strategy that `loadBalancerLoadPlacementStrategy` names. If this strategy also
    sheds, but another shedder is configured, it uses LeastLongTermMessageRate instead, except with
    barycenterPulsarCompatibility=4.x. The simple load manager uses the strategy that `loadBalancerPlacementStrategy`
    names; an unknown name means weightedRandomSelection, as in Pulsar. The extensible load manager always uses the same
    strategy.

    Raises:
        UnknownStrategyError: there is no strategy of this name, or it belongs to another load manager.
        NothingToDecideError: the load manager is the no-op one.
    """
    manager = manager or manager_in_force(config)
    match manager:
        case ManagerKind.EXTENSIBLE:
            return of_role(manager, Role.PLACEMENT)[0].name
        case ManagerKind.SIMPLE:
            return SimpleSettings.of(config).strategy.value
        case ManagerKind.NOOP:
            raise NothingToDecideError(Role.PLACEMENT)
    name = _of_modular(PLACEMENT_KEY, config.load_balancer_load_placement_strategy, Role.PLACEMENT)
    is_alone = name in BOTH and name != short_name(config.load_balancer_load_shedding_strategy)
    return APART if is_alone and config.barycenter_pulsar_compatibility != "4.x" else name


def made_of(strategy: "type[Strategy[Any]]", config: "BrokerConfig") -> "Strategy[Any]":
    """Return an instance of the class `strategy` with the settings of `config`.

    Raises:
        ValueError: the strategy does not accept the settings; if its method `of` raised a StrategyError, it is that.
        StrategyError: the method `of` of the strategy failed with any other error.
    """
    try:
        return strategy.of(config)
    except (StrategyError, ValueError):
        raise
    except (Exception, SystemExit) as error:
        raise StrategyError(
            f"the strategy {strategy.name} cannot be created: {type(error).__name__}: {error}"
        ) from error


def are_apart(config: "BrokerConfig") -> bool:
    """Return whether the keys for shedding and for placement of the modular load manager name different strategies
    although one of the two both sheds and places.
    """
    shedder = short_name(config.load_balancer_load_shedding_strategy)
    placer = short_name(config.load_balancer_load_placement_strategy)
    return shedder != placer and bool(BOTH & {shedder, placer})


def is_own(name: str) -> bool:
    """Return whether a strategy, by its short or class name, is Barycenter's own, which Apache Pulsar cannot run."""
    return any(
        row.class_name.startswith(f"{OWN_PACKAGE}.") and name in (row.name, row.class_name) for row in STRATEGIES
    )


def _of_modular(key: str, class_name: str, role: Role) -> str:
    wanted = class_name.strip()
    rows: tuple[AnyRow, ...] = _built_in(ManagerKind.MODULAR, role)
    if not any(wanted in (row.name, row.class_name) for row in rows):
        rows += _of_plugins(ManagerKind.MODULAR, role)  # looked up last: it reads the metadata of all packages
    for row in rows:
        if wanted in (row.name, row.class_name):
            return row.name
    known = [row.name for row in rows]
    raise UnknownStrategyError(key, class_name, known, _why_not(wanted, role, known))


def _of_extensible(config: "BrokerConfig") -> str:
    """Return the shedder of the extensible load manager: TransferShedder, unless `loadBalancerLoadSheddingStrategy`
    names Barycenter's own strategy. Other values of this key have no effect, as in Pulsar.
    """
    wanted = config.load_balancer_load_shedding_strategy.strip()
    first, *others = of_role(ManagerKind.EXTENSIBLE, Role.SHEDDING)
    return next((row.name for row in others if wanted in (row.name, row.class_name)), first.name)


def _why_not(class_name: str, role: Role, known: Collection[str]) -> str:
    """Return why the modular load manager cannot use the strategy of this name, as the end of a sentence; "" if no load
    manager has a strategy of this name.
    """
    name = short_name(class_name)
    other = next((row for row in catalogue() if class_name in (row.name, row.class_name)), None)
    if other is not None and other.role is not role:
        return f"is a strategy for {other.role}, not for {role}"
    if other is not None:
        return f"belongs to the {other.manager} load manager, and {MANAGER_KEY} names the modular one"
    return f"is a class that is not Pulsar's, and only Pulsar's {name} can run here" if name in known else ""


def shedder_of(config: "BrokerConfig", manager: ManagerKind | None = None) -> "Shedder[Any]":
    """Return the shedder of `manager`, or of the load manager in force if it is None.

    Raises:
        UnknownStrategyError: there is no strategy of this name, or it belongs to another load manager.
        MismatchedStrategiesError: barycenterPulsarCompatibility is 4.x, and only one of the two keys names a strategy
            that both sheds and places.
        NothingToDecideError: the load manager is the no-op one.
    """
    manager = manager or manager_in_force(config)
    shedder: Shedder[Any] = strategy(manager, Role.SHEDDING, shedder_name(config, manager)).of(config)
    return shedder


def placer_of(config: "BrokerConfig", manager: ManagerKind | None = None) -> "Placer[Any]":
    """Return the placement strategy of `manager`, or of the load manager in force if it is None.

    Raises:
        UnknownStrategyError: there is no strategy of this name, or it belongs to another load manager.
        OwnStrategiesError: the load manager is the simple one, which has a fixed way to place bundles.
        NothingToDecideError: the load manager is the no-op one.
    """
    manager = manager or manager_in_force(config)
    placer: Placer[Any] = strategy(
        manager, Role.PLACEMENT, placer_name(config, manager), config.barycenter_pulsar_compatibility
    ).of(config)
    return placer


def splitter_of(config: "BrokerConfig", manager: ManagerKind | None = None) -> "Splitter[Any]":
    """Return the split strategy of `manager`, or of the load manager in force if it is None.

    Raises:
        NothingToDecideError: this load manager is the no-op one, which splits nothing.
    """
    manager = manager or manager_in_force(config)
    splitter: Splitter[Any] = strategy(manager, Role.SPLITTING, splitter_name(manager)).of(config)
    return splitter


def splitter_name(manager: ManagerKind) -> str:
    """Return the short name of the split strategy of a load manager.

    Raises:
        NothingToDecideError: the load manager is the no-op one.
    """
    if manager is ManagerKind.NOOP:
        raise NothingToDecideError(Role.SPLITTING)
    return of_role(manager, Role.SPLITTING)[0].name


def strategy(manager: ManagerKind, role: Role, name: str, version: PulsarVersion = VERSIONS[0]) -> Any:
    """Return the class of the strategy with this short name, in the given version of Pulsar.

    Raises:
        OwnStrategiesError: the load manager has no strategy of this name that can be loaded.
    """
    rows: tuple[AnyRow, ...] = _built_in(manager, role, version)
    row = next((row for row in rows if row.name == name), None) or next(
        (row for row in _of_plugins(manager, role) if row.name == name), None
    )
    if row is None:
        raise OwnStrategiesError(manager, role)
    return row.load()
