"""The one catalogue of strategies: what configurations can name, for which load manager, and where each lives.

A name is Pulsar's class name or its last part; one that is not Pulsar's is of the package `barycenter`. A class of any
other package cannot run here, even if its last part is known. Each load manager has strategies of its own:

| load manager | shedding | placement | splitting |
|---|---|---|---|
| simple | its own | by `loadBalancerPlacementStrategy` | its own |
| modular | by `loadBalancerLoadSheddingStrategy` | by `loadBalancerLoadPlacementStrategy` | its own |
| extensible | TransferShedder, or ours by the key | its own LeastResourceUsageWithWeight | its own |
| no-op | none | none | none |

A strategy is a file with one class (`load.strategy`), a row in STRATEGIES, and a page. Modules are imported when the
first of their strategies is asked for, since they need numpy and every broker checks its configuration at start.

Where versions of Pulsar differ so much that a strategy is another one, it has a row for each of them.

Source: Pulsar's `ModularLoadManagerImpl.initialize` and `UnloadScheduler`.
"""

import enum
import importlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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
from pulsar_barycenter.load.simple.settings import SimpleSettings

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig
    from pulsar_barycenter.load.placement.placer import Placer
    from pulsar_barycenter.load.shedding.shedder import Shedder
    from pulsar_barycenter.load.splitting.splitter import Splitter
    from pulsar_barycenter.load.strategy import Strategy

OWN_PACKAGE: Final = "barycenter"
"""Of strategies that are none of Pulsar's."""

SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"


class Role(enum.StrEnum):
    SHEDDING = "shedding"
    PLACEMENT = "placement"
    SPLITTING = "splitting"


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """A strategy of one load manager: its short name, Pulsar's class name, and its class here.

    `is_named`: a configuration key names it; else its load manager has it whatever is configured. `with_other`: it
    sheds and places as one, so both keys name it, or neither. `version`: it is so in that version of Pulsar alone.
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
        """Return the class."""
        module = importlib.import_module(f"pulsar_barycenter.load.{self.module}")
        found: type[Strategy[Any]] = getattr(module, self.implementation)
        return found


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
"""All strategies; those of one role and load manager that a key names in the order in which they are told."""


def of_role(manager: ManagerKind, role: Role, version: PulsarVersion = VERSIONS[0]) -> tuple[StrategyRow, ...]:
    """Return the strategies that a load manager can be given, by a version of Pulsar."""
    return tuple(
        row for row in STRATEGIES if row.manager is manager and row.role is role and row.version in (None, version)
    )


def supported(manager: ManagerKind, role: Role) -> frozenset[str]:
    """Return the short names of the strategies that a load manager can be given."""
    return frozenset(row.name for row in of_role(manager, role))


SHEDDER_NAMES: Final = supported(ManagerKind.MODULAR, Role.SHEDDING)
PLACER_NAMES: Final = supported(ManagerKind.MODULAR, Role.PLACEMENT)
BOTH: Final = frozenset(row.name for row in STRATEGIES if row.with_other)
"""Strategies that shed and place as one: both keys name it, or neither."""

APART: Final = "LeastLongTermMessageRate"
"""What places where the configured placement would need to shed, too, and another one sheds."""
SHEDS_ALONE: Final = "ThresholdShedder"
"""A shedder that leaves placement to others, the default by Pulsar 4.x."""


class UnknownStrategyError(StrategyError):
    """No strategy of that name for the load manager; the text names the key, the value and what is allowed."""

    def __init__(self, key: str, name: str, known: Collection[str], detail: str = "") -> None:
        mend = f"use one of {', '.join(sorted(known))}" if detail else in_its_place(name, known)
        super().__init__(f"{key}={name!r} {detail or 'is not a strategy known here'}; {mend}")
        self.key = key
        self.name = name


class MismatchedStrategiesError(StrategyError):
    """A strategy that sheds and places as one is named by one key only; the text names both keys and the mend."""

    def __init__(self, name: str, key: str, other_key: str, other: str) -> None:
        super().__init__(
            f"{key} is {name}, which sheds and places as one, but {other_key} is {other}; "
            f"set {other_key}={name}, too, or another strategy in {key}"
        )
        self.key = key


class OwnStrategiesError(StrategyError):
    """The load manager decides by itself, not by a strategy that a key names."""

    def __init__(self, manager: ManagerKind, role: Role) -> None:
        super().__init__(
            f"the {manager} load manager has a {role} of its own, which no other can use; set {MANAGER_KEY}="
            f"{ManagerKind.MODULAR.class_name} to choose one by its name"
        )


class NothingToDecideError(StrategyError):
    """The no-op load manager has no strategies."""

    def __init__(self, role: Role) -> None:
        super().__init__(
            f"{MANAGER_KEY} is {ManagerKind.NOOP.class_name}, which has no {role}; "
            f"set {MANAGER_KEY}={ManagerKind.MODULAR.class_name}"
        )


def check_change(before: "BrokerConfig", after: "BrokerConfig") -> None:
    """Tell whether running brokers can go from one configuration to the other.

    Raises:
        StrategyError: they cannot; the text says why and what to do.
    """
    if before.load_manager_class_name != after.load_manager_class_name:
        old, new = manager_in_force(before), manager_kind(after.load_manager_class_name)
        if old is not new and ManagerKind.EXTENSIBLE in (old, new):
            raise ManagerSwitchRefusedError(old, new)
    if manager_in_force(after) is ManagerKind.MODULAR:
        shedder_name(after)
        placer_name(after)


def shedder_name(config: "BrokerConfig", manager: ManagerKind | None = None) -> str:
    """Return the short name of the shedder that a load manager uses: the one in force unless given.

    For the modular one that of `loadBalancerLoadSheddingStrategy`. The extensible one has TransferShedder and takes it
    whatever the key says, as in Pulsar, unless that is a strategy of our own; the simple one sheds by itself. Since 5.x
    the modular one takes a shedder that places, too, without its placement; its bundles go where the configured one
    says.

    Raises:
        UnknownStrategyError: there is none of that name, or it belongs to another load manager.
        MismatchedStrategiesError: it, or the placement strategy, sheds and places as one, and the other is another,
            in 4.x.
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
    """Return the short name of the placement strategy that a load manager uses: the one in force unless given.

    For the modular one that of `loadBalancerLoadPlacementStrategy`, or since 5.x LeastLongTermMessageRate if that one
    sheds as well and another one is to shed; for the simple one that of `loadBalancerPlacementStrategy`, where an
    unknown name means weightedRandomSelection, as in Pulsar.

    Raises:
        UnknownStrategyError: there is none of that name, or it belongs to another load manager.
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


def are_apart(config: "BrokerConfig") -> bool:
    """Whether one of the two strategies of the modular load manager sheds and places as one, and the other is
    another."""
    shedder = short_name(config.load_balancer_load_shedding_strategy)
    placer = short_name(config.load_balancer_load_placement_strategy)
    return shedder != placer and bool(BOTH & {shedder, placer})


def is_own(name: str) -> bool:
    """Tell whether a strategy, by its short or class name, is Barycenter's own, which Apache Pulsar cannot run."""
    return any(
        row.class_name.startswith(f"{OWN_PACKAGE}.") and name in (row.name, row.class_name) for row in STRATEGIES
    )


def _of_modular(key: str, class_name: str, role: Role) -> str:
    wanted = class_name.strip()
    mine = of_role(ManagerKind.MODULAR, role)
    for each in mine:
        if wanted in (each.name, each.class_name):
            return each.name
    known = [each.name for each in mine]
    raise UnknownStrategyError(key, class_name, known, _why_not(wanted, role, known))


def _of_extensible(config: "BrokerConfig") -> str:
    """Return TransferShedder, unless the key names a strategy of our own: Pulsar's key is read by no other."""
    wanted = config.load_balancer_load_shedding_strategy.strip()
    first, *others = of_role(ManagerKind.EXTENSIBLE, Role.SHEDDING)
    return next((row.name for row in others if wanted in (row.name, row.class_name)), first.name)


def _why_not(class_name: str, role: Role, known: Collection[str]) -> str:
    """Return what is wrong with a name that the modular load manager does not know; "" if nobody knows it."""
    name = short_name(class_name)
    other = next((each for each in STRATEGIES if class_name in (each.name, each.class_name)), None)
    if other is not None and other.role is not role:
        return f"is a strategy of {other.role}, not of {role}"
    if other is not None:
        return f"belongs to the {other.manager} load manager, and {MANAGER_KEY} names the modular one"
    return f"is a class that is not Pulsar's, and only Pulsar's {name} can run here" if name in known else ""


def shedder_of(config: "BrokerConfig", manager: ManagerKind | None = None) -> "Shedder[Any]":
    """Return the shedder of a load manager, the one in force unless given.

    Raises:
        UnknownStrategyError: there is none of that name, or it belongs to another load manager.
        MismatchedStrategiesError: one of the two keys alone names a strategy that sheds and places as one.
        NothingToDecideError: the load manager is the no-op one.
    """
    manager = manager or manager_in_force(config)
    shedder: Shedder[Any] = strategy(manager, Role.SHEDDING, shedder_name(config, manager)).of(config)
    return shedder


def placer_of(config: "BrokerConfig", manager: ManagerKind | None = None) -> "Placer[Any]":
    """Return the placement strategy of a load manager, the one in force unless given.

    Raises:
        UnknownStrategyError: there is none of that name, or it belongs to another load manager.
        OwnStrategiesError: it decides by itself (`load.simple`).
        NothingToDecideError: it is the no-op one.
    """
    manager = manager or manager_in_force(config)
    placer: Placer[Any] = strategy(
        manager, Role.PLACEMENT, placer_name(config, manager), config.barycenter_pulsar_compatibility
    ).of(config)
    return placer


def splitter_of(config: "BrokerConfig", manager: ManagerKind | None = None) -> "Splitter[Any]":
    """Return the split strategy of a load manager, the one in force unless given.

    Raises:
        NothingToDecideError: it is the no-op one.
    """
    manager = manager or manager_in_force(config)
    splitter: Splitter[Any] = strategy(manager, Role.SPLITTING, splitter_name(manager)).of(config)
    return splitter


def splitter_name(manager: ManagerKind) -> str:
    """Return the short name of the split strategy of a load manager.

    Raises:
        NothingToDecideError: it is the no-op one.
    """
    if manager is ManagerKind.NOOP:
        raise NothingToDecideError(Role.SPLITTING)
    return of_role(manager, Role.SPLITTING)[0].name


def strategy(manager: ManagerKind, role: Role, name: str, version: PulsarVersion = VERSIONS[0]) -> Any:
    """Return the class of the strategy of that short name, by a version of Pulsar.

    Raises:
        OwnStrategiesError: there is none: the load manager decides by itself.
    """
    row = next((row for row in of_role(manager, role, version) if row.name == name), None)
    if row is None:
        raise OwnStrategiesError(manager, role)
    return row.load()
