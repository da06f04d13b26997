"""Reads and updates typed records in a folder of the metadata store, with a cache.

Source: Pulsar's `BaseResources`. Difference: an update keeps fields that this program does not know.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

import msgspec

from pulsar_barycenter.metadata.cache import REFRESH_AFTER_S, MetadataCache
from pulsar_barycenter.metadata.errors import BadVersionError, InvalidValueError, NotFoundError
from pulsar_barycenter.metadata.store import MetadataStore

T = TypeVar("T")

_ATTEMPTS: Final = 30
_PAUSE_S: Final = 0.02


class Records(Generic[T]):
    """The records of one type below the path `root`. The `name` of a record is its path relative to `root`, without a
    leading slash.
    """

    def __init__(
        self, store: MetadataStore, value_type: type[T], root: str, refresh_after_s: float = REFRESH_AFTER_S
    ) -> None:
        self.root = root
        self._store = store
        self._type = value_type
        self._cache = MetadataCache(store, value_type, refresh_after_s=refresh_after_s)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def get_if_cached(self, name: str) -> T | None:
        """Return the record if it is cached. None: it does not exist, or is not cached."""
        return self._cache.get_if_cached(self.path(name))

    async def get(self, name: str) -> T | None:
        """Return the record, from the cache if possible; None if it does not exist.

        Raises:
            InvalidValueError: the stored value cannot be decoded.
        """
        return await self._cache.get(self.path(name))

    async def get_fresh(self, name: str) -> T | None:
        """Read the record from the store, not from the cache, and return it; None if it does not exist."""
        self._cache.invalidate(self.path(name))
        return await self.get(name)

    async def exists(self, name: str) -> bool:
        return await self._cache.exists(self.path(name))

    async def names(self, below: str = "") -> list[str]:
        """Return the names of the children of the root, or of a folder below it, sorted."""
        return await self._store.children(self.path(below) if below else self.root)

    async def create(self, name: str, value: T) -> None:
        """Store a new record.

        Raises:
            AlreadyExistsError: the record exists.
        """
        await self._cache.create(self.path(name), value)

    async def update(self, name: str, modify: Callable[[T], T]) -> T:
        """Call `modify` with the record, store its result and return the new record. Only those fields of the stored
        record change that `modify` changes, at any depth of objects; all others stay, also fields that the type `T`
        does not have. An array that `modify` changes is replaced as a whole.

        If another writer changed the record meanwhile, `modify` is called again with the changed record.

        Raises:
            NotFoundError: there is no record.
            BadVersionError: other writers changed the record during every attempt.
        """
        path = self.path(name)
        for attempt in range(_ATTEMPTS):
            record = await self._store.get(path)
            if record is None:
                raise NotFoundError(path)
            try:
                fields = msgspec.json.decode(record.value, type=dict[str, object])
                present = msgspec.json.decode(record.value, type=self._type)
            except msgspec.DecodeError as error:
                raise InvalidValueError(path, str(error)) from error
            before = msgspec.to_builtins(present)
            changed = modify(present)
            merged = _merged(fields, before, msgspec.to_builtins(changed))
            try:
                await self._store.put(path, msgspec.json.encode(merged), expected_version=record.stat.version)
            except BadVersionError:
                if attempt == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_PAUSE_S)
            else:
                return changed
        raise AssertionError("bug: the last attempt must return or raise an error, so this line is never reached")

    async def modify(self, name: str, change: Callable[[T | None], T]) -> T:
        """Replace the whole record by the result of `change`, and return the result. Fields of the stored record that
        the type `T` does not have are lost.

        `change` gets the present record, None if there is none. If another writer changed the record meanwhile, it is
        called again with the changed record.

        Raises:
            BadVersionError: other writers changed the record during every attempt.
        """
        return await self._cache.read_modify_update_or_create(self.path(name), change)

    async def put(self, name: str, value: T) -> None:
        """Store the record. It replaces a record that exists."""
        await self._cache.put(self.path(name), value)

    async def delete(self, name: str) -> None:
        """Delete the record.

        Raises:
            NotFoundError: the record does not exist.
            HasChildrenError: other records exist below it.
        """
        await self._cache.delete(self.path(name))

    def close(self) -> None:
        self._cache.close()


def _merged(stored: object, before: object, after: object) -> object:
    """Return `stored` with the changes from `before` to `after`, which have only the fields that this program knows."""
    if not (isinstance(stored, dict) and isinstance(before, dict) and isinstance(after, dict)):
        return after
    merged = {field: value for field, value in stored.items() if field in after or field not in before}
    for field, value in after.items():
        if field not in stored:
            merged[field] = value
        elif field not in before or value != before[field]:
            merged[field] = _merged(stored[field], before.get(field), value)
    return merged


async def delete_tree(store: MetadataStore, path: str) -> int:
    """Delete everything below `path`, then `path` itself; return the number of deleted keys.

    Raises:
        HasChildrenError: another writer created a key below `path` during this call, so `path` still exists.
    """
    deleted = 0
    for name in await store.children(path):
        deleted += await delete_tree(store, f"{path}/{name}")
    with suppress(NotFoundError):
        await store.delete(path)
        deleted += 1
    return deleted
