"""Records the last change of each dynamic setting: who changed it, when and why.

    /barycenter/setting-changes      JSON: key -> `NotedChange`

The settings themselves are in a map of Pulsar's, which Pulsar's tools read and write. So these records have a key of
their own. A record is written after the map, not together with it: if a record is lost, the change is in force anyway.
If a tool changes a value without a record, the old record is not shown (`NotedChange.is_of`). The record of the drained
brokers keeps who drained each of them (`drain_notes`).
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import structlog

from pulsar_barycenter.config.broker_conf import dynamic_keys
from pulsar_barycenter.config.sources import NotedChange
from pulsar_barycenter.load.drain_notes import with_earlier
from pulsar_barycenter.load.policies import DRAINED_KEY
from pulsar_barycenter.metadata.errors import BadVersionError, MetadataError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

log = structlog.get_logger(__name__)

CHANGES_PATH: Final = "/barycenter/setting-changes"


class SettingChanges:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def all(self) -> Mapping[str, NotedChange]:
        """Return the last recorded change by key; records that cannot be decoded are left out.

        Raises:
            MetadataError: the store does not answer.
        """
        record = await self._store.get(CHANGES_PATH)
        return {} if record is None else _decode(record.value)

    async def note(self, key: str, change: NotedChange) -> None:
        """Record a change. A failure is logged, and no error is raised."""
        try:
            while True:
                record = await self._store.get(CHANGES_PATH)
                noted = {} if record is None else _decode(record.value)
                kept = with_earlier(change, noted.get(key)) if key == DRAINED_KEY else change
                value = msgspec.json.encode({**noted, key: kept})
                version = MUST_NOT_EXIST if record is None else record.stat.version
                try:
                    await self._store.put(CHANGES_PATH, value, expected_version=version)
                    return
                except BadVersionError:
                    continue  # another broker recorded a change meanwhile: read the record again
        except MetadataError as error:
            log.warning("setting_change_not_noted", key=key, reason=str(error))


def _decode(value: bytes) -> dict[str, NotedChange]:
    try:
        noted = msgspec.json.decode(value, type=dict[str, NotedChange])
    except msgspec.DecodeError as error:
        log.warning("setting_changes_not_read", reason=str(error))
        return {}
    known = set(dynamic_keys())
    return {key: change for key, change in noted.items() if key in known}
