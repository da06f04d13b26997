"""The record of the racks and groups of bookies: one key, which Pulsar's tools and brokers read and write as well.

Rule: what others wrote is kept, also fields that this program does not know. Pure, except `BookieRacks`. Source:
Pulsar's `BookiesRackConfiguration`, `BookieResources`.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from pulsar_barycenter.metadata.errors import BadVersionError, InvalidValueError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

RACKS: Final = "/bookies"

Groups: TypeAlias = Mapping[str, Mapping[str, dict[str, Any]]]
"""What is known of each bookie (`rack`, `hostname`), by group and id."""

_ATTEMPTS: Final = 30
_PAUSE_S: Final = 0.02


def placed(groups: Groups, group: str, bookie: str, info: dict[str, Any]) -> Groups:
    """Return a copy of `groups` with `bookie` in `group` and in no other group. `info` is the value that is stored for
    the bookie, such as its rack.
    """
    others = removed(groups, bookie)
    return {**others, group: {**others.get(group, {}), bookie: info}}


def removed(groups: Groups, bookie: str) -> Groups:
    """Return a copy of `groups` without `bookie`. A group without bookies is left out."""
    left = {name: {key: info for key, info in group.items() if key != bookie} for name, group in groups.items()}
    return {name: group for name, group in left.items() if group or not groups[name]}


def info_of(groups: Groups, bookie: str) -> dict[str, Any] | None:
    """Return the value that is stored for a bookie, such as its rack; None if it is in no group."""
    return next((group[bookie] for group in groups.values() if bookie in group), None)


class BookieRacks:
    """The record in the metadata store that has the groups of bookies, and the rack of each bookie."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self) -> Groups:
        """Return the groups; none if there is no record.

        Raises:
            InvalidValueError: the record cannot be decoded.
        """
        record = await self._store.get(RACKS)
        return {} if record is None else _groups_in(record.value)

    async def update(self, change: Callable[[Groups], Groups]) -> None:
        """Call `change` with the groups, and store its result instead. If another writer changed the groups meanwhile,
        `change` is called again with the changed groups.

        Raises:
            InvalidValueError: the record cannot be decoded.
            BadVersionError: other writers changed the record during every attempt.
        """
        for attempt in range(_ATTEMPTS):
            record = await self._store.get(RACKS)
            groups = {} if record is None else _groups_in(record.value)
            version = MUST_NOT_EXIST if record is None else record.stat.version
            try:
                await self._store.put(RACKS, msgspec.json.encode(change(groups)), expected_version=version)
                return
            except BadVersionError:
                if attempt == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_PAUSE_S)


def _groups_in(value: bytes) -> Groups:
    try:
        return msgspec.json.decode(value or b"{}", type=dict[str, dict[str, dict[str, Any]]])
    except msgspec.DecodeError as error:
        raise InvalidValueError(RACKS, str(error)) from error
