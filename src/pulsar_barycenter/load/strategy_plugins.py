"""Strategies of other packages: found by their entry points, loaded when a configuration names them.

An installed package offers a strategy by an entry point in the group of its role, `pulsar_barycenter.shedding` or
`pulsar_barycenter.placement`. The name of the entry point is the name in configurations; its object is the class. So a
configuration is checked against installed packages, and no module of another package is imported before it is used.

The settings of such a strategy are in one key, a JSON object with one object for each strategy:
`barycenterStrategySettings={"AcmeShedder": {"band": 0.1}}`. `settings_of` reads and checks them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from pulsar_barycenter.load.managers import StrategyError, in_its_place

if TYPE_CHECKING:
    from pulsar_barycenter.config.broker_config import BrokerConfig

SETTINGS_KEY: Final = "barycenterStrategySettings"
GROUP: Final = "pulsar_barycenter"
"""A group of entry points is this name, a point, and the role."""
PLUGIN_ROLES: Final = ("shedding", "placement")

_LONGEST_SHOWN: Final = 200
"""Characters of a value in an error."""

Settings = TypeVar("Settings", bound=msgspec.Struct)


class PluginError(StrategyError):
    """A strategy of another package cannot be loaded, or its settings are not allowed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A strategy of an installed package: its name, its role, its class as MODULE.CLASS, and the package's name."""

    name: str
    role: str
    class_name: str
    package: str
    entry_point: EntryPoint

    def load(self, base: type[Any]) -> type[Any]:
        """Import the class of the strategy and return it. The class must be a subclass of `base`.

        Raises:
            PluginError: the class cannot be imported, is not a subclass of `base`, or has another name.
        """
        source = f"the strategy {self.name} of the package {self.package}"
        try:
            found = self.entry_point.load()
        except (Exception, SystemExit) as error:  # whatever the module of another package raises
            raise PluginError(f"{source} cannot be imported: {type(error).__name__}: {error}") from error
        if not (isinstance(found, type) and issubclass(found, base)):
            raise PluginError(
                f"{source} is {found!r}, not a subclass of {base.__name__}: report this to the authors of the package"
            )
        if getattr(found, "name", None) != self.name:
            raise PluginError(
                f"{source}: its class has the name {getattr(found, 'name', None)!r}, not the name of the strategy:"
                " report this to the authors of the package"
            )
        return found


@cache
def plugins() -> tuple[Plugin, ...]:
    """Return the strategies of installed packages, sorted by role and name. If several have the same role and name,
    only the one is returned whose class, as MODULE:CLASS, comes first in the alphabet.
    """
    found: dict[tuple[str, str], Plugin] = {}
    for role in PLUGIN_ROLES:
        for entry in sorted(entry_points(group=f"{GROUP}.{role}"), key=lambda entry: (entry.name, entry.value)):
            package = entry.dist.name if entry.dist is not None else entry.module
            plugin = Plugin(entry.name, role, f"{entry.module}.{entry.attr}", package, entry)
            found.setdefault((role, entry.name), plugin)
    return tuple(found.values())


def raised_by(error: BaseException) -> Plugin | None:
    """Return the strategy of another package whose code the error came from: the innermost one whose module occurs in
    the traceback. None: no such module occurs there.
    """
    modules = {plugin.entry_point.module: plugin for plugin in plugins()}
    trace = error.__traceback__
    found = None
    while trace is not None:
        found = modules.get(trace.tb_frame.f_globals.get("__name__", ""), found)
        trace = trace.tb_next
    return found


def settings_of(config: "BrokerConfig", strategy: str, settings: type[Settings]) -> Settings:
    """Return the settings of a strategy from the key `barycenterStrategySettings`. A setting that is not given there
    has its default in `settings`.

    `settings` is a msgspec.Struct whose fields all have defaults. Declare it with `forbid_unknown_fields=True`, so that
    a misspelt name is refused, and give bounds by `msgspec.Meta`.

    Raises:
        PluginError: the value of the key is not a JSON object of objects, or names a strategy that is not installed;
            or a setting has an unknown name or a value that is not allowed.
    """
    given = _objects(config.barycenter_strategy_settings)
    installed = {plugin.name for plugin in plugins()}
    for name in given:
        if name not in installed:
            raise PluginError(
                f"{SETTINGS_KEY} has settings of {name!r}, which is no strategy of an installed package; "
                f"{in_its_place(name, installed)}"
            )
    own = given.get(strategy, msgspec.Raw(b"{}"))
    try:
        return msgspec.json.decode(own, type=settings)
    except (msgspec.DecodeError, RecursionError) as error:
        raise PluginError(f"{SETTINGS_KEY}: settings of {strategy} are not allowed: {error}") from error


def _objects(text: str) -> Mapping[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        example = '{"AcmeShedder": {"band": 0.1}}'
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
        raise PluginError(f"{SETTINGS_KEY}={shown!r} is not a JSON object such as {example}: {error}") from error
