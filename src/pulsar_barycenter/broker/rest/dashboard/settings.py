"""The settings of the broker that gets the request, each with its source; and the effect of a change.

GET /barycenter/v1/settings
GET /barycenter/v1/settings/{name}?value=<text>
GET /barycenter/v1/setting-changes
"""

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.rest.requests import json_response
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.config.broker_conf import default_config, keys, runtime_values, shown
from pulsar_barycenter.config.sources import NotedChange, Source, source_of


class SettingInForce(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A configuration key. `value` is the value that this broker uses. `override` is the value that is stored for all
    brokers, None if there is none; the two differ if this broker cannot apply the stored value. `changed` says who
    stored the override and when, None if this is not known.
    """

    key: str
    value: str
    default: str
    source: Source
    override: str | None
    changed: NotedChange | None
    is_dynamic: bool
    unit: str
    allowed: str
    effect: str


class SettingChange(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The effect that the change of one configuration key would have. `changes` has every key whose value would change,
    with its new value: that key, and other keys whose values depend on it.
    """

    key: str
    before: str
    after: str
    changes: dict[str, str]


class Settings:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def in_force(self, request: web.Request) -> web.Response:
        config = self._services.config
        overrides = self._services.control.dynamic_configuration.overrides
        defaults = runtime_values(default_config(config.barycenter_pulsar_compatibility))
        known, changes = keys(), await self._services.control.dynamic_configuration.changes.all()
        found = []
        for name, value in sorted(runtime_values(config).items()):
            key, override = known[name], overrides.get(name)
            found.append(
                SettingInForce(
                    key=name,
                    value=shown(name, value),
                    default=shown(name, defaults[name]),
                    source=source_of(value, defaults[name], override),
                    override=None if override is None else shown(name, override),
                    changed=changes[name] if name in changes and changes[name].is_of(name, override) else None,
                    is_dynamic=key.dynamic,
                    unit=key.unit,
                    allowed=key.allowed(),
                    effect=key.effect,
                )
            )
        return json_response(found)

    async def changes(self, request: web.Request) -> web.Response:
        return json_response(await self._services.control.dynamic_configuration.changes.all())

    async def change(self, request: web.Request) -> web.Response:
        name, text = request.match_info["name"], request.rel_url.query.get("value", "")
        config = self._services.control.config
        before, after = runtime_values(config.current), runtime_values(config.changed(name, text))
        changes = {key: shown(key, value) for key, value in after.items() if value != before[key]}
        return json_response(
            SettingChange(key=name, before=shown(name, before[name]), after=shown(name, after[name]), changes=changes)
        )
