"""The keys of a metadata store that tell of ownership, boundaries and settings, whether brokers use it or not.

A SQLite file is read without a session, as of one moment, and nothing is written into it. Another store is read key by
key in a session of our own, which leaves nothing behind.
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

MOST_KEYS: Final = 500_000
"""So many keys are read below each folder."""
MOST_SECONDS: Final = 120.0
ANSWER_SECONDS: Final = 10.0
"""So long it may take until a server is found, and until it answers."""
_AT_ONCE: Final = 64
_SQLITE: Final = "sqlite:"


class StoreUnreadableError(Exception):
    """The metadata store cannot be read; the text says why."""


async def read_store(url: str, config_path: str = "") -> StoreView:
    """Return what the store at `url`, a `metadataStoreUrl`, holds; `config_path` is its `metadataStoreConfigPath`.

    Raises:
        StoreUnreadableError: there is none, or it cannot be read in MOST_SECONDS.
    """
    try:
        async with asyncio.timeout(MOST_SECONDS):
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
        raise StoreUnreadableError(f"{url} was not read in {MOST_SECONDS:.0f} s") from None


def _of_file(file: Path) -> list[tuple[str, bytes]]:
    if not file.is_file():
        raise StoreUnreadableError(f"{file}: there is no such file")
    return read_folders(file, FOLDERS, KEYS, most=MOST_KEYS)


async def _of_store(store: MetadataStore) -> list[tuple[str, bytes]]:
    """Return the keys level by level, many at a time; one that goes meanwhile is left out."""
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
        if count > MOST_KEYS:
            raise StoreUnreadableError(f"there are more than {MOST_KEYS:,} keys")
        await asyncio.gather(*map(value_of, level))
    await asyncio.gather(*map(value_of, KEYS))
    return sorted(found)
