"""The load managers that a configuration can name.

A name is Pulsar's class name or its last part. Needs no numpy, so that every broker can check its configuration.

Source: Pulsar's `LoadManager.create`.
"""

import difflib
import enum
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

MANAGER_KEY: Final = "loadManagerClassName"

PULSAR_PACKAGE: Final = "org.apache.pulsar.broker.loadbalance"


class ManagerKind(enum.StrEnum):
    """The load managers of Pulsar."""

    SIMPLE = "simple"
    MODULAR = "modular"
    EXTENSIBLE = "extensible"
    NOOP = "no-op"

    @property
    def class_name(self) -> str:
        """Pulsar's class name."""
        return _MANAGER_CLASSES[self][0]


_MANAGER_CLASSES: Final = {
    ManagerKind.SIMPLE: (f"{PULSAR_PACKAGE}.impl.SimpleLoadManagerImpl",),
    ManagerKind.MODULAR: (
        f"{PULSAR_PACKAGE}.impl.ModularLoadManagerImpl",
        f"{PULSAR_PACKAGE}.impl.ModularLoadManagerWrapper",
        f"{PULSAR_PACKAGE}.ModularLoadManager",
    ),
    ManagerKind.EXTENSIBLE: (
        f"{PULSAR_PACKAGE}.extensions.ExtensibleLoadManagerImpl",
        f"{PULSAR_PACKAGE}.extensions.ExtensibleLoadManagerWrapper",
        f"{PULSAR_PACKAGE}.extensions.ExtensibleLoadManager",
    ),
    ManagerKind.NOOP: (f"{PULSAR_PACKAGE}.NoopLoadManager",),
}
"""The class names of each load manager; the first one is for writing."""


class StrategyError(ValueError):
    """The configuration names a load manager, strategy or setting that does not exist; the text says what to set
    instead.
    """


class UnknownLoadManagerError(StrategyError):
    """The name of a load manager is unknown; the text has the name and the known ones."""

    def __init__(self, class_name: str) -> None:
        known = [short_name(kind.class_name) for kind in ManagerKind]
        super().__init__(
            f"{MANAGER_KEY}={class_name!r} is not a load manager known here; {in_its_place(class_name, known)}"
        )


class ManagerSwitchRefusedError(StrategyError):
    """Running brokers cannot change to or from the extensible load manager: the extensible one stores the owners of
    bundles under other keys.
    """

    def __init__(self, before: ManagerKind, after: ManagerKind) -> None:
        super().__init__(
            f"{MANAGER_KEY} cannot be changed from the {before} to the {after} load manager while brokers run, because "
            "the two keep ownership in different places; set loadManagerMigrationEnabled=true, then this key in "
            "broker.conf, and restart the brokers one by one"
        )


def manager_kind(class_name: str) -> ManagerKind:
    """Return the load manager that a value of `loadManagerClassName` names; blank means the simple one, as in Pulsar.

    Raises:
        UnknownLoadManagerError: there is no load manager of this name.
    """
    wanted = class_name.strip()
    if not wanted:
        return ManagerKind.SIMPLE
    for kind, names in _MANAGER_CLASSES.items():
        if wanted in names or wanted in map(short_name, names):
            return kind
    raise UnknownLoadManagerError(class_name)


def manager_in_force(config: "BrokerConfig") -> ManagerKind:
    """Return the load manager that a configuration results in; an unknown name means the simple one, as in Pulsar."""
    try:
        return manager_kind(config.load_manager_class_name)
    except UnknownLoadManagerError:
        return ManagerKind.SIMPLE


def in_its_place(name: str, known: Collection[str]) -> str:
    """Return a hint for an error about an unknown name: the most similar known name, if there is one, and all known
    names.
    """
    allowed = ", ".join(sorted(known))
    near = difflib.get_close_matches(short_name(name), sorted(known), n=1, cutoff=0.75)
    return f"did you mean {near[0]}? The known names are {allowed}" if near else f"use one of {allowed}"


def short_name(class_name: str) -> str:
    """Return a class name without its package: the text after the last dot."""
    return class_name.strip().rpartition(".")[2]
