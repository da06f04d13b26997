"""The configuration in force: the values of the file, with the overrides in the map at /admin/configuration.

Every broker reads this map of the metadata store at its start and watches it. If an override is removed, each broker
uses the removed value until that broker restarts, as in Pulsar.

Source: `BrokerService.updateDynamicServiceConfiguration`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
import structlog

from pulsar_barycenter.broker.changes import StoreWatch
from pulsar_barycenter.broker.cluster.setting_changes import SettingChanges
from pulsar_barycenter.config.broker_conf import (
    ConfigError,
    dynamic_keys,
    runtime_values,
    shown,
    validate_dynamic,
    with_overrides,
)
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.config.sources import MAX_NOTED_CHARACTERS, NotedChange
from pulsar_barycenter.metadata.errors import BadVersionError, InvalidValueError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

log = structlog.get_logger(__name__)

CONFIGURATION_PATH: Final = "/admin/configuration"
_RELOAD_S: Final = 30.0
"""The number of seconds between two reads of the overrides without a notification, which may be lost."""

Listener: TypeAlias = Callable[[BrokerConfig], None]

Check: TypeAlias = Callable[[BrokerConfig, BrokerConfig], None]
"""A function that raises ValueError, with a sentence as message, if brokers cannot change from the first configuration
to the second.
"""


class ChangeRefusedError(ConfigError):
    """The new value of a key is a valid one, but running brokers cannot change to it, or not together with the present
    values of other keys.
    """

    def __init__(self, key: str, value: str, reason: str) -> None:
        ValueError.__init__(self, reason)
        self.key = key
        self.value = value
        self.allowed = reason


class ChangedMeanwhileError(Exception):
    """The present value of the key is not the one that the request expects."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} does not have the expected value: another request changed it. Read it again.")
        self.key = key


@dataclass(frozen=True, slots=True)
class ChangedBy:
    """Who changed a setting (`by`), when (`at`, ms since 1970), why, and by which request."""

    by: str = ""
    at: int = 0
    why: str = ""
    request_id: str = ""


class ConfigHolder:
    """Has the present configuration in `current`. Read `current` each time it is needed and keep no copy: values change
    while the broker runs.
    """

    __slots__ = ("_any_listeners", "_checks", "_listeners", "current", "from_file")

    def __init__(self, config: BrokerConfig) -> None:
        self.from_file = config
        self.current = config
        self._listeners: dict[str, list[Listener]] = {}
        self._any_listeners: list[Listener] = []
        self._checks: list[Check] = []

    def add_check(self, check: Check) -> None:
        """Call `check` before each change of the configuration. If it refuses the change, the former value stays:
        `apply` logs this, `changed` raises ChangeRefusedError.
        """
        self._checks.append(check)

    def changed(self, key: str, text: str) -> BrokerConfig:
        """Return the configuration that a change of `key` to `text` would give. The present configuration is not
        changed.

        Raises:
            ConfigError: the key is not dynamic, or the value is not allowed.
            ChangeRefusedError: a check (see `add_check`) refused the change.
        """
        validate_dynamic(key, text)
        after = with_overrides(self.current, {key: text})
        for check in self._checks if after != self.current else ():
            try:
                check(self.current, after)
            except ValueError as error:
                raise ChangeRefusedError(key, text, str(error)) from error
        return after

    def on_any_change(self, listener: Listener) -> None:
        """Call `listener` with the new configuration after any change, before the listeners of single keys."""
        self._any_listeners.append(listener)

    def on_change(self, key: str, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the new configuration after `key` changed; return a function that removes the listener.

        `key` is in Pulsar's spelling.
        """
        self._listeners.setdefault(key, []).append(listener)
        return lambda: self._listeners[key].remove(listener)

    def apply(self, overrides: Mapping[str, str]) -> list[str]:
        """Apply overrides: values of keys that are stored for the whole cluster and replace those of broker.conf. An
        override is logged and left out if its key is not dynamic, its value is not valid, or a check refuses it. A key
        that is not in `overrides` keeps its present value.

        Return the keys whose values changed.
        """
        changed = []
        for key in sorted(overrides):
            try:
                after = self.changed(key, overrides[key])
            except ConfigError as error:
                value = shown(key, overrides[key])
                log.warning("dynamic_configuration_ignored", key=key, value=value, reason=str(error))
                continue
            if after != self.current:
                self.current = after
                changed.append(key)
        if changed:
            self._notify(self._any_listeners, "any")
        for key in changed:
            self._notify(self._listeners.get(key, []), key)
        return changed

    def _notify(self, listeners: list[Listener], key: str) -> None:
        for listener in list(listeners):
            try:
                listener(self.current)
            except Exception:
                log.exception("configuration_listener_failed", key=key)


class DynamicConfiguration:
    """Reads, writes and watches overrides: values of keys that are stored in the metadata store for the whole cluster
    and replace those of broker.conf.
    """

    def __init__(self, store: MetadataStore, holder: ConfigHolder) -> None:
        self._store = store
        self._holder = holder
        self._overrides: dict[str, str] = {}
        self.changes = SettingChanges(store)
        self._watch = StoreWatch(
            store,
            name="dynamic configuration",
            concerns=CONFIGURATION_PATH.__eq__,
            read=lambda was_told: self._reload(),
            interval_s=_RELOAD_S,
            failure="dynamic_configuration_not_read",
        )

    @property
    def overrides(self) -> Mapping[str, str]:
        """The overrides that were read last, including those that this broker could not apply."""
        return self._overrides

    @property
    def shown(self) -> Mapping[str, str]:
        """The overrides that were read last, with the values of secret keys hidden; brokers of Apache Pulsar may have
        stored secrets.
        """
        return {key: shown(key, text) for key, text in self._overrides.items()}

    async def start(self) -> None:
        """Read and apply the stored overrides, and apply every later change of them."""
        await self._watch.start(self._reload)

    async def close(self) -> None:
        await self._watch.close()

    async def set(
        self, key: str, text: str, *, changed_by: ChangedBy | None = None, expected: str | None = None
    ) -> None:
        """Store an override for the whole cluster, and apply it on this broker.

        `expected`, unless None, has to be the present value: the stored value, or, if no value is stored, the value
        that is in force on this broker. `changed_by` is recorded with the change.

        Raises:
            ConfigError: the key is not dynamic, the value is not allowed, or running brokers cannot apply it.
            ChangedMeanwhileError: the present value is not `expected`; nothing was changed.
        """
        self._holder.changed(key, text)
        before = await self._modify(key, text, expected)
        await self._note(key, before, text, changed_by)

    async def remove(self, key: str, *, changed_by: ChangedBy | None = None, expected: str | None = None) -> None:
        """Remove an override from the store. Each running broker keeps the removed value until it restarts; then it
        uses the value in its broker.conf.

        `expected` and `changed_by` are as in `set`.

        Raises:
            ConfigError: the key is not dynamic.
            ChangedMeanwhileError: the present value is not `expected`; nothing was changed.
        """
        if key not in dynamic_keys():
            raise ConfigError(key, "", "a dynamic key, which may change while brokers run")
        before = await self._modify(key, None, expected)
        await self._note(key, before, None, changed_by)

    async def _note(self, key: str, before: str, text: str | None, changed_by: ChangedBy | None) -> None:
        if changed_by is None:
            return
        change = NotedChange(
            by=changed_by.by[:MAX_NOTED_CHARACTERS],
            at=changed_by.at,
            value=None if text is None else shown(key, text)[:MAX_NOTED_CHARACTERS],
            before=shown(key, before)[:MAX_NOTED_CHARACTERS],
            why=changed_by.why[:MAX_NOTED_CHARACTERS],
            request_id=changed_by.request_id,
        )
        await self.changes.note(key, change)

    async def _modify(self, key: str, text: str | None, expected: str | None) -> str:
        """Store an override, or remove it if `text` is None; return the value that was present before. `expected` is as
        in `set`.
        """
        while True:
            record = await self._store.get(CONFIGURATION_PATH)
            overrides = {} if record is None else _decode(record.value)
            before = overrides.pop(key, None)
            was = runtime_values(self._holder.current)[key] if before is None else before
            if expected is not None and expected not in self._texts_of(key, was):
                raise ChangedMeanwhileError(key)
            value = msgspec.json.encode(overrides if text is None else {**overrides, key: text})
            version = MUST_NOT_EXIST if record is None else record.stat.version
            try:
                await self._store.put(CONFIGURATION_PATH, value, expected_version=version)
            except BadVersionError:
                continue  # another request changed the map meanwhile: read it again
            break
        await self._reload()
        return was

    def _texts_of(self, key: str, text: str) -> Sequence[str]:
        """Return two texts of a value: the one in the store, and the one by which brokers show the value. If the value
        is not valid, return only the first.
        """
        try:
            return text, runtime_values(with_overrides(self._holder.current, {key: text}))[key]
        except ConfigError:
            return (text,)

    async def _reload(self) -> None:
        record = await self._store.get(CONFIGURATION_PATH)
        self._overrides = {} if record is None else _decode(record.value)
        changed = self._holder.apply(self._overrides)
        if changed:
            log.info("dynamic_configuration_applied", changed={key: self.shown[key] for key in changed})


def _decode(value: bytes) -> dict[str, str]:
    try:
        return msgspec.json.decode(value, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise InvalidValueError(CONFIGURATION_PATH, str(error)) from error
