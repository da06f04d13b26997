"""Reads the nodes below /loadbalance/settings at start and after each change."""

import msgspec
import structlog

from pulsar_barycenter.broker.changes import StoreWatch
from pulsar_barycenter.broker.cluster.dynamic_configuration import ConfigHolder
from pulsar_barycenter.load.simple.simple_settings import SETTING_NODES, SETTINGS_ROOT, SimpleSettings
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MetadataStore

log = structlog.get_logger(__name__)

_REFRESH_S = 30.0


class SimpleSettingsWatch:
    """The settings of the simple load manager: the configuration, and the values in the store, which take precedence.
    Warnings about the settings are logged when the warnings change.
    """

    def __init__(self, store: MetadataStore, config: ConfigHolder) -> None:
        self._store = store
        self._config = config
        self._stored: dict[str, str] = {}
        self._warnings: tuple[str, ...] = ()
        self._watch = StoreWatch(
            store,
            name="load balancing settings",
            concerns=lambda path: path.startswith(SETTINGS_ROOT),
            read=lambda _was_told: self._read(),
            interval_s=_REFRESH_S,
            failure="load_balancing_settings_not_read",
        )

    @property
    def current(self) -> SimpleSettings:
        found = SimpleSettings.of(self._config.current, self._stored)
        if found.warnings != self._warnings:
            self._warnings = found.warnings
            for warning in found.warnings:
                log.warning("load_balancing_setting_not_usable", reason=warning)
        return found

    @property
    def stored(self) -> dict[str, str]:
        """The settings in the metadata store, by name."""
        return self._stored

    async def start(self) -> None:
        """Read the settings in the store, and watch them from now on. If the store does not answer, the configuration
        applies until a later read succeeds.
        """
        await self._watch.start(self._read_quietly)

    async def close(self) -> None:
        await self._watch.close()

    async def write(self, name: str, value: str) -> None:
        """As leader, store a setting for the whole cluster. It replaces the value that was stored before. Errors of the
        store are raised.
        """
        await self._store.put(SETTING_NODES[name], msgspec.json.encode({name: value}))
        self._stored[name] = value

    async def _read_quietly(self) -> None:
        try:
            await self._read()
        except MetadataError as error:
            log.warning("load_balancing_settings_not_read", reason=str(error))

    async def _read(self) -> None:
        found: dict[str, str] = {}
        for name, path in SETTING_NODES.items():
            record = await self._store.get(path)
            if record is None:
                continue
            try:
                value = msgspec.json.decode(record.value, type=dict[str, str]).get(name)
            except msgspec.DecodeError as error:
                log.warning("load_balancing_setting_not_read", path=path, reason=str(error))
                continue
            if value is not None:
                found[name] = value
        self._stored = found
