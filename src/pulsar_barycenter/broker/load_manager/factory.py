"""The load managers by the names of `loadManagerClassName`: Pulsar's class names, long or short."""

import structlog

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.contract import LoadManager, LoadManagerFactory
from pulsar_barycenter.broker.load_manager.noop_load_manager import NoopLoadManager
from pulsar_barycenter.load.managers import (
    MANAGER_KEY,
    ManagerKind,
    UnknownLoadManagerError,
    manager_kind,
)

log = structlog.get_logger(__name__)


def load_manager_factory(name: str) -> LoadManagerFactory:
    """Return what makes the load manager of that name; of one that nobody knows the simple one, as in Pulsar, loud."""
    try:
        kind = manager_kind(name)
    except UnknownLoadManagerError as error:
        kind = ManagerKind.SIMPLE
        log.warning(
            "load_manager_not_known",
            key=MANAGER_KEY,
            value=name,
            used_instead=kind.class_name,
            reason=str(error),
            to_silence=f"set {MANAGER_KEY}={kind.class_name}, or the one that was meant",
        )
    return _factory(kind)


def configured_load_manager(context: LoadManagerContext) -> LoadManager:
    """Make the load manager that the configuration names now, a dynamic override included.

    Raises:
        StrategyError: it cannot be had, or not with the strategies named; the text says what to set.
    """
    return load_manager_factory(context.config.current.load_manager_class_name)(context)


def _factory(kind: ManagerKind) -> LoadManagerFactory:
    """Imports what it needs only then, because it may bring numpy, which a broker without balancing does not need."""
    match kind:
        case ManagerKind.NOOP:
            return NoopLoadManager
        case ManagerKind.MODULAR:
            from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager

            return ModularLoadManager
        case ManagerKind.SIMPLE:
            from pulsar_barycenter.broker.load_manager.simple.simple_load_manager import SimpleLoadManager

            return SimpleLoadManager
        case ManagerKind.EXTENSIBLE:
            from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager

            return ExtensibleLoadManager
