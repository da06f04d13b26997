"""Reads the keys about ownership, boundaries and settings from a metadata store, whether brokers use it or not.

A SQLite file is read without a session, at one moment, and is not written. Another store is read key by key in a
session that leaves no keys behind.
"""

import asyncio
from pathlib import Path
from typing import Final

from pulsar_barycenter.doctor.picture import StoreView
from pulsar_barycenter.doctor.reading.stored_keys import FOLDERS, KEYS, store_view
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.open import UnknownStoreError, open_store
from pulsar_barycenter.metadata.sqlite.reading import read_folders
from pulsar_barycenter.metadata.store import MetadataStore

MAX_KEYS: Final = 500_000
"""The maximum number of keys below each folder."""
MAX_SECONDS: Final = 120.0
ANSWER_SECONDS: Final = 10.0
"""The time to find a server, and the time to wait for its answer."""
_AT_ONCE: Final = 64
_SQLITE: Final = "sqlite:"


class StoreUnreadableError(Exception):
    """The metadata store cannot be read; the text says why."""


async def read_store(url: str, config_path: str = "") -> StoreView:
    """Return the content of the store at `url` (`metadataStoreUrl`); `config_path` is `metadataStoreConfigPath`.

    Raises:
        StoreUnreadableError: there is no store, or it cannot be read within MAX_SECONDS.
    """
    try:
        async with asyncio.timeout(MAX_SECONDS):
            if url.startswith(_SQLITE):
                return store_view(url, await asyncio.to_thread(_of_file, Path(url.removeprefix(_SQLITE))))
            store = await open_store(url, operation_timeout_s=ANSWER_SECONDS, config_path=config_path)
            try:
                return store_view(url, await _of_store(store))
            finally:
                await store.close()
    except (MetadataError, UnknownStoreError) as error:
        raise StoreUnreadableError(str(error)) from error
    except TimeoutError:
        raise StoreUnreadableError(
            f"the metadata store {url} could not be read within {MAX_SECONDS:.0f} s; check that its servers answer"
        ) from None


def _of_file(file: Path) -> list[tuple[str, bytes]]:
    if not file.is_file():
        raise StoreUnreadableError(f"the metadata store {file} does not exist; check the path in the URL")
    return read_folders(file, FOLDERS, KEYS, most=MAX_KEYS)


async def _of_store(store: MetadataStore) -> list[tuple[str, bytes]]:
    """Return all keys of the store with their values, read level by level and many at a time; keys that are deleted
    meanwhile are left out.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    found: list[tuple[str, bytes]] = []

    async def value_of(path: str) -> None:
        async with gate:
            record = await store.get(path)
        if record is not None:
            found.append((path, record.value))

    async def names_in(path: str) -> list[str]:
        async with gate:
            return [f"{path}/{name}" for name in await store.children(path)]

    level, count = list(FOLDERS), 0
    while level:
        level = [path for paths in await asyncio.gather(*map(names_in, level)) for path in paths]
        count += len(level)
        if count > MAX_KEYS:
            raise StoreUnreadableError(
                f"the metadata store was not checked, because it has more than {MAX_KEYS:,} keys, the maximum for this"
                " check"
            )
        await asyncio.gather(*map(value_of, level))
    await asyncio.gather(*map(value_of, KEYS))
    return sorted(found)
