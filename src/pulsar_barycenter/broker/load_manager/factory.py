"""Creates a load manager by the name in `loadManagerClassName`: Pulsar's class name, long or short."""

import structlog

from pulsar_barycenter.broker.load_manager.context import LoadManagerContext
from pulsar_barycenter.broker.load_manager.contract import LoadManager, LoadManagerFactory
from pulsar_barycenter.broker.load_manager.noop_load_manager import NoopLoadManager
from pulsar_barycenter.load.installed import BalanceNotInstalledError, can_balance
from pulsar_barycenter.load.managers import (
    MANAGER_KEY,
    ManagerKind,
    UnknownLoadManagerError,
    manager_kind,
)

log = structlog.get_logger(__name__)


def load_manager_factory(name: str) -> LoadManagerFactory:
    """Return the factory of the load manager `name`. If the name is unknown, log a warning and return the simple load
    manager's factory, as in Pulsar.
    """
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
            to_silence=f"set {MANAGER_KEY}={kind.class_name}, or correct the name",
        )
    return _factory(kind)


def configured_load_manager(context: LoadManagerContext) -> LoadManager:
    """Create the load manager that the configuration names now; a dynamic override of the configuration counts. The
    load manager is not started.

    Raises:
        StrategyError: the load manager cannot be created, or does not support the configured strategies; the message
            says what to set.
    """
    return load_manager_factory(context.config.current.load_manager_class_name)(context)


def _factory(kind: ManagerKind) -> LoadManagerFactory:
    """Import a load manager and return its factory. The import is delayed until this call, because most load managers
    need numpy, and a broker without balancing needs none.

    Raises:
        BalanceNotInstalledError: the load manager needs numpy, which is not installed.
    """
    match kind:
        case ManagerKind.NOOP:
            return NoopLoadManager
        case ManagerKind.MODULAR:
            from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager

            return ModularLoadManager
        case ManagerKind.SIMPLE:
            if not can_balance():
                raise BalanceNotInstalledError(f"{MANAGER_KEY}={kind.class_name}")
            from pulsar_barycenter.broker.load_manager.simple.simple_load_manager import SimpleLoadManager

            return SimpleLoadManager
        case ManagerKind.EXTENSIBLE:
            from pulsar_barycenter.broker.load_manager.extensible.extensible_load_manager import ExtensibleLoadManager

            return ExtensibleLoadManager
