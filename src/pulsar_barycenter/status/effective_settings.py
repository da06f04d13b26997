"""The settings in force on the brokers of a cluster: the values, their sources, and the brokers that differ."""

from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from pulsar_barycenter.config.broker_conf import ConfigError, default_config, keys, runtime_values, shown
from pulsar_barycenter.config.sources import NotedChange, Source, source_of
from pulsar_barycenter.doctor.picture import OWN_KEY, BrokerView, Picture, configuration_of


class Setting(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A key of broker.conf on all brokers. `values` maps each value in force to the brokers that have it, `sources`
    maps each value to where it comes from, such as the default or the file.

    `default` is the default value of the key, `changed` the last change of the dynamic setting; either is None if it is
    not known. Values that may be secret are hidden.
    """

    key: str
    values: dict[str, list[str]]
    sources: dict[str, Source]
    default: str | None
    is_dynamic: bool
    changed: NotedChange | None = None

    @property
    def is_alike(self) -> bool:
        return len(self.values) == 1

    @property
    def is_own(self) -> bool:
        """Whether brokers may have different values of this key by design, for example a port."""
        known = keys().get(self.key)
        return known is not None and known.own

    @property
    def is_default(self) -> bool:
        return self.is_alike and self.default in self.values


def settings_of(picture: Picture) -> list[Setting]:
    """Return a `Setting` for each key of broker.conf that at least one broker returned, in alphabetical order of the
    keys.
    """
    brokers = [broker for broker in picture.answering if broker.settings is not None]
    returned = sorted({key for broker in brokers for key in broker.settings or ()})
    return [_setting(key, brokers) for key in returned]


def _setting(key: str, brokers: Sequence[BrokerView]) -> Setting:
    values: dict[str, list[str]] = {}
    sources: dict[str, Source] = {}
    default: str | None = None
    changed: NotedChange | None = None
    for broker in brokers:
        settings = broker.settings or {}
        if key not in settings:
            continue
        text = settings[key]
        default = _defaults_of(settings).get(key)
        visible = shown(key, text)
        values.setdefault(visible, []).append(broker.broker)
        override = (broker.overrides or {}).get(key)
        sources[visible] = source_of(text, default, override)
        noted = (broker.setting_changes or {}).get(key)
        changed = noted if override is not None and noted is not None and noted.is_of(key, override) else changed
    is_dynamic = any(key in (broker.dynamic_keys or ()) for broker in brokers)
    return Setting(key=key, values=values, sources=sources, default=default, is_dynamic=is_dynamic, changed=changed)


def _defaults_of(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return the defaults of a broker of Barycenter for the version of Pulsar that it follows; `settings` are the
    broker's settings. Empty for a broker of Apache Pulsar.
    """
    if OWN_KEY not in settings:
        return {}
    return _defaults(settings[OWN_KEY])


@cache
def _defaults(version: str) -> Mapping[str, str]:
    try:
        config = configuration_of({OWN_KEY: version})
    except ConfigError:
        return {}
    return runtime_values(default_config(config.barycenter_pulsar_compatibility))
