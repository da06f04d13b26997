"""The load managers and strategies that a configuration can name, known without numpy, so that every broker can check
its configuration at start.

A name is Pulsar's class name or its last part. A class of another package is not Pulsar's and cannot run here, even if
its last part is known. Each load manager has strategies of its own:

| load manager | shedding | placement |
|---|---|---|
| simple | its own | by `loadBalancerPlacementStrategy` |
| modular | by `loadBalancerLoadSheddingStrategy` | by `loadBalancerLoadPlacementStrategy` |
| extensible | TransferShedder | its own LeastResourceUsageWithWeight, another function than the modular one's |
| no-op | none | none |

Source: Pulsar's `LoadManager.create`, `ModularLoadManagerImpl.initialize` and `UnloadScheduler`.
"""

import difflib
import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barycenter.load.simple.settings import SimpleSettings

if TYPE_CHECKING:
    from barycenter.config.broker_config import BrokerConfig

MANAGER_KEY: Final = "loadManagerClassName"
SHEDDING_KEY: Final = "loadBalancerLoadSheddingStrategy"
PLACEMENT_KEY: Final = "loadBalancerLoadPlacementStrategy"
SIMPLE_PLACEMENT_KEY: Final = "loadBalancerPlacementStrategy"

_ROOT: Final = "org.apache.pulsar.broker.loadbalance"


class ManagerKind(enum.StrEnum):
    SIMPLE = "simple"
    MODULAR = "modular"
    EXTENSIBLE = "extensible"
    NOOP = "no-op"

    @property
    def class_name(self) -> str:
        """Pulsar's class name."""
        return _MANAGER_CLASSES[self][0]


_MANAGER_CLASSES: Final = {
    ManagerKind.SIMPLE: (f"{_ROOT}.impl.SimpleLoadManagerImpl",),
    ManagerKind.MODULAR: (
        f"{_ROOT}.impl.ModularLoadManagerImpl",
        f"{_ROOT}.impl.ModularLoadManagerWrapper",
        f"{_ROOT}.ModularLoadManager",
    ),
    ManagerKind.EXTENSIBLE: (
        f"{_ROOT}.extensions.ExtensibleLoadManagerImpl",
        f"{_ROOT}.extensions.ExtensibleLoadManagerWrapper",
        f"{_ROOT}.extensions.ExtensibleLoadManager",
    ),
    ManagerKind.NOOP: (f"{_ROOT}.NoopLoadManager",),
}
"""The class names of each manager, the one to write first."""


class Role(enum.StrEnum):
    SHEDDING = "shedding"
    PLACEMENT = "placement"


@dataclass(frozen=True, slots=True)
class StrategyClass:
    """A strategy of one load manager: its short name and Pulsar's class name."""

    name: str
    role: Role
    manager: ManagerKind
    class_name: str


def _modular(role: Role, *names: str) -> tuple[StrategyClass, ...]:
    return tuple(StrategyClass(name, role, ManagerKind.MODULAR, f"{_ROOT}.impl.{name}") for name in names)


STRATEGIES: Final = (
    *_modular(
        Role.SHEDDING,
        "ThresholdShedder",
        "OverloadShedder",
        "UniformLoadShedder",
        "AvgShedder",
        "RangeThresholdShedder",
        "DeviationShedder",
    ),
    *_modular(
        Role.PLACEMENT,
        "LeastLongTermMessageRate",
        "LeastResourceUsageWithWeight",
        "RoundRobinBrokerSelector",
        "AvgShedder",
    ),
    StrategyClass(
        "TransferShedder", Role.SHEDDING, ManagerKind.EXTENSIBLE, f"{_ROOT}.extensions.scheduler.TransferShedder"
    ),
    StrategyClass(
        "LeastResourceUsageWithWeight",
        Role.PLACEMENT,
        ManagerKind.EXTENSIBLE,
        f"{_ROOT}.extensions.strategy.LeastResourceUsageWithWeight",
    ),
)
"""What the two keys can name. What a manager does by itself (the simple one's shedding, all splitting) is not here."""

TRANSFER_SHEDDER: Final = "TransferShedder"
EXTENSIBLE_PLACEMENT: Final = "LeastResourceUsageWithWeight"

BOTH: Final = frozenset({"AvgShedder"})
"""Strategies that shed and place as one: both keys name it, or neither."""


def supported(manager: ManagerKind, role: Role) -> frozenset[str]:
    """Return the short names of the strategies that a load manager can be given."""
    return frozenset(each.name for each in STRATEGIES if each.manager is manager and each.role is role)


SHEDDER_NAMES: Final = supported(ManagerKind.MODULAR, Role.SHEDDING)
PLACER_NAMES: Final = supported(ManagerKind.MODULAR, Role.PLACEMENT)


class StrategyError(ValueError):
    """The configuration asks for what cannot be had; the text says what to set instead."""


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


class UnknownLoadManagerError(StrategyError):
    """No load manager of that name."""

    def __init__(self, class_name: str) -> None:
        known = [short_name(kind.class_name) for kind in ManagerKind]
        super().__init__(
            f"{MANAGER_KEY}={class_name!r} is not a load manager known here; {in_its_place(class_name, known)}"
        )


class LoadManagerNotOfferedError(StrategyError):
    """Brokers here do not run that load manager; its decisions can be had from a snapshot."""

    def __init__(self, class_name: str, kind: ManagerKind) -> None:
        super().__init__(
            f"{MANAGER_KEY}={class_name}: brokers here do not run the {kind} load manager (its strategies can be "
            f"tried on a snapshot with `barycenter decide`); set {MANAGER_KEY}={ManagerKind.MODULAR.class_name}"
        )


class ManagerSwitchRefusedError(StrategyError):
    """To and from the extensible load manager running brokers cannot go: it keeps ownership in another place."""

    def __init__(self, before: ManagerKind, after: ManagerKind) -> None:
        mend = "set it in broker.conf and restart the brokers"
        if after is ManagerKind.EXTENSIBLE:
            mend = (
                "brokers here do not run the extensible one after a restart either; try its strategies on a snapshot "
                "with `barycenter decide`"
            )
        super().__init__(
            f"{MANAGER_KEY} cannot be changed from the {before} to the {after} load manager while brokers run, because "
            f"the two keep ownership in different places; {mend}"
        )


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


def in_its_place(name: str, known: Collection[str]) -> str:
    """Return what to use instead of a name that there is not: the most similar known one first, if any is."""
    allowed = ", ".join(sorted(known))
    near = difflib.get_close_matches(short_name(name), sorted(known), n=1, cutoff=0.75)
    return f"did you mean {near[0]}? There are {allowed}" if near else f"use one of {allowed}"


def short_name(class_name: str) -> str:
    """Return the last part of a class name."""
    return class_name.strip().rpartition(".")[2]


# ---- load managers ----


def manager_kind(class_name: str) -> ManagerKind:
    """Return which load manager a value of `loadManagerClassName` names; a blank one names the simple, as in Pulsar.

    Raises:
        UnknownLoadManagerError: there is none of that name.
    """
    wanted = class_name.strip()
    if not wanted:
        return ManagerKind.SIMPLE
    for kind, names in _MANAGER_CLASSES.items():
        if wanted in names or wanted in map(short_name, names):
            return kind
    raise UnknownLoadManagerError(class_name)


def manager_in_force(config: "BrokerConfig") -> ManagerKind:
    """Return which load manager a configuration amounts to: of an unknown name the simple one, as in Pulsar."""
    try:
        return manager_kind(config.load_manager_class_name)
    except UnknownLoadManagerError:
        return ManagerKind.SIMPLE


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


# ---- strategies ----


def shedder_name(config: "BrokerConfig", manager: ManagerKind | None = None) -> str:
    """Return the short name of the shedder that a load manager uses: the one in force unless given.

    For the modular one that of `loadBalancerLoadSheddingStrategy`. The extensible one has TransferShedder and takes it
    whatever the key says, as in Pulsar; the simple one sheds by itself.

    Raises:
        UnknownStrategyError: there is none of that name, or it belongs to another load manager.
        MismatchedStrategiesError: it, or the placement strategy, sheds and places as one, and the other is another.
        NothingToDecideError: the load manager is the no-op one.
    """
    manager = manager or manager_in_force(config)
    match manager:
        case ManagerKind.EXTENSIBLE:
            return TRANSFER_SHEDDER
        case ManagerKind.SIMPLE:
            return short_name(manager.class_name)
        case ManagerKind.NOOP:
            raise NothingToDecideError(Role.SHEDDING)
    name = _of_modular(SHEDDING_KEY, config.load_balancer_load_shedding_strategy, Role.SHEDDING)
    placer = short_name(config.load_balancer_load_placement_strategy)
    if name != placer and name in BOTH:
        raise MismatchedStrategiesError(name, SHEDDING_KEY, PLACEMENT_KEY, placer)
    if name != placer and placer in BOTH:
        raise MismatchedStrategiesError(placer, PLACEMENT_KEY, SHEDDING_KEY, name)
    return name


def placer_name(config: "BrokerConfig", manager: ManagerKind | None = None) -> str:
    """Return the short name of the placement strategy that a load manager uses: the one in force unless given.

    For the modular one that of `loadBalancerLoadPlacementStrategy`, for the simple one that of
    `loadBalancerPlacementStrategy`, where an unknown name means weightedRandomSelection, as in Pulsar.

    Raises:
        UnknownStrategyError: there is none of that name, or it belongs to another load manager.
        NothingToDecideError: the load manager is the no-op one.
    """
    manager = manager or manager_in_force(config)
    match manager:
        case ManagerKind.EXTENSIBLE:
            return EXTENSIBLE_PLACEMENT
        case ManagerKind.SIMPLE:
            return SimpleSettings.of(config).strategy.value
        case ManagerKind.NOOP:
            raise NothingToDecideError(Role.PLACEMENT)
    return _of_modular(PLACEMENT_KEY, config.load_balancer_load_placement_strategy, Role.PLACEMENT)


def _of_modular(key: str, class_name: str, role: Role) -> str:
    wanted = class_name.strip()
    mine = [each for each in STRATEGIES if each.manager is ManagerKind.MODULAR and each.role is role]
    for each in mine:
        if wanted in (each.name, each.class_name):
            return each.name
    known = [each.name for each in mine]
    raise UnknownStrategyError(key, class_name, known, _why_not(wanted, role, known))


def _why_not(class_name: str, role: Role, known: Collection[str]) -> str:
    """Return what is wrong with a name that the modular load manager does not know; "" if nobody knows it."""
    name = short_name(class_name)
    other = next((each for each in STRATEGIES if class_name in (each.name, each.class_name)), None)
    if other is not None and other.role is not role:
        return f"is a strategy of {other.role}, not of {role}"
    if other is not None:
        return f"belongs to the {other.manager} load manager, and {MANAGER_KEY} names the modular one"
    return f"is a class that is not Pulsar's, and only Pulsar's {name} can run here" if name in known else ""
