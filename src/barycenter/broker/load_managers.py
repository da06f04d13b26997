"""The load managers by the names of `loadManagerClassName`: Pulsar's class names, long or short."""

from typing import Final

import structlog

from barycenter.broker.load_manager import LoadManagerFactory, NoopLoadManager

log = structlog.get_logger(__name__)

_NOOP: Final = "NoopLoadManager"
_MODULAR: Final = ("ModularLoadManagerImpl", "ModularLoadManagerWrapper", "ModularLoadManager")


def load_manager_factory(name: str) -> LoadManagerFactory:
    """Return what makes the load manager of that name; one that is not known here is replaced, with a warning."""
    short = name.rpartition(".")[2]
    if short == _NOOP:
        return NoopLoadManager
    if short not in _MODULAR:
        log.warning("load_manager_not_known", name=name, used_instead=_MODULAR[0])
    # Imported here because it brings numpy, which a broker without balancing does not need.
    from barycenter.broker.modular_load_manager import ModularLoadManager

    return ModularLoadManager
