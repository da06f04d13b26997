"""Copies the metadata of a stopped cluster to another metadata store, and compares the two.

All persistent keys are copied with their values. Versions and times begin anew; only running brokers rely on them.
Numbers that a store gives would begin anew, too, and would be given twice: numbers of terms, names of producers, keys
with the definitions of schemas. So the counters of the next store are first drawn up to those of the present one.

Not copied are keys of sessions (ephemeral, or leased to a session), and what belongs to the bookies.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY
from pulsar_barycenter.ledger.migration.progress import REQUESTS_AT_ONCE, Progress, draw_up_to
from pulsar_barycenter.ledger.migration_marks import MIGRATION_KEY
from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.errors import HasChildrenError, NotFoundError
from pulsar_barycenter.metadata.leader_writes.leased_values import split_lease
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.naming.counted import count_of

MAX_VALUE_BYTES: Final = 1_000_000
"""The largest value that is copied: ZooKeeper refuses larger requests."""
_NOT_COPIED: Final = frozenset(
    {FOLDER_KEY, MIGRATION_KEY, "/bookies", "/counters", "/ledgers", "/loadbalance/leased", "/zookeeper"}
)
_NUMBERED: Final = re.compile(r"(\D+)(\d{10})")
"""Matches the name of a key that ends with a number that a store gave."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The paths in a metadata store at which brokers get numbers that must not be given twice. `counters` are the paths
    of counters. `sequences` are paths below which the names of sequential keys end with such numbers.
    """

    counters: Sequence[str]
    sequences: Sequence[str]


async def keys_to_copy(store: MetadataStore) -> dict[str, bytes]:
    """Return the paths and values of all keys that a copy of the metadata has to contain. In the result, a key comes
    before the keys below it.

    Raises:
        MetadataError: the store did not answer.
    """
    return {path: value async for path, value in _keys(store, "")}


async def _keys(store: MetadataStore, folder: str) -> AsyncIterator[tuple[str, bytes]]:
    for name in await store.children(folder or "/"):
        path = f"{folder}/{name}"
        if path in _NOT_COPIED:
            continue
        found = await store.get(path)
        if found is not None and not found.stat.ephemeral and split_lease(found.value)[0] is None:
            yield path, found.value
        async for key in _keys(store, path):
            yield key


def roots_of(keys: Mapping[str, bytes]) -> list[str]:
    """Return the first parts of the paths of these keys, for example `/admin` for `/admin/clusters`;
    sorted, each once.
    """
    return sorted({f"/{path.split('/')[1]}" for path in keys})


def sequences_in(keys: Mapping[str, bytes], roots: Sequence[str]) -> dict[tuple[str, str], tuple[int, str]]:
    """Find the sequential keys in `keys` below the paths `roots`. A sequence is the parent's path, and the beginning of
    the names before the number. Return for each sequence the highest number and the path of the key that has it.

    A key counts only if its parent is a key too, because a topic may have a name that ends with ten digits.
    """
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for path in keys:
        above, _, name = path.rpartition("/")
        match = _NUMBERED.fullmatch(name)
        if match is not None and above in keys and any(path.startswith(f"{root}/") for root in roots):
            sequence = above, match[1]
            found[sequence] = max(found.get(sequence, (0, "")), (int(match[2]), path))
    return found


class MetadataCopy:
    """Copies the metadata of a cluster from the store `present` to the store `next_`. `numbers` are the counters and
    sequential keys whose numbers `next_` must not give a second time.
    """

    def __init__(self, present: MetadataStore, next_: MetadataStore, numbers: Numbers, progress: Progress) -> None:
        self._present = present
        self._next = next_
        self._numbers = numbers
        self._progress = progress

    async def carry_out(self) -> None:
        """Make the keys in the next store equal to the keys in the present store: write those that differ, and delete
        those that the present store does not have. Before the first attempt, `refusal` has found that the next store
        has no keys of another user; so all that is overwritten or deleted was copied by an earlier attempt.

        Raises:
            MetadataError: a store did not answer, or refused a value.
        """
        keys = await keys_to_copy(self._present)
        for counter in self._numbers.counters:
            last = await next_counter_value(self._present, counter)
            await draw_up_to(last, partial(next_counter_value, self._next, counter), self._progress, "drawing numbers")
        for (above, beginning), (last, path) in sequences_in(keys, self._numbers.sequences).items():
            if not await self._next.exists(path):  # otherwise an earlier attempt drew them before it copied the key
                draw = partial(next_counter_value, self._next, above, prefix=beginning)
                await draw_up_to(last, draw, self._progress, "drawing numbers")
        items = list(keys.items())
        with closing(self._progress(range(0, len(items), REQUESTS_AT_ONCE), "copying metadata")) as left:
            for at in left:
                await asyncio.gather(*(self._put(*item) for item in items[at : at + REQUESTS_AT_ONCE]))
        extra = [path for path in await self._copied(keys) if path not in keys]
        for path in reversed(extra):  # those below first
            with suppress(NotFoundError, HasChildrenError):
                await self._next.delete(path)

    async def check(self) -> None:
        """Read all keys of both stores, and compare them.

        Raises:
            LedgerError: the keys or the values of the two stores differ.
            MetadataError: a store did not answer.
        """
        keys = await keys_to_copy(self._present)
        copied = await self._copied(keys)
        # a key with an empty value and keys below it cannot be told from an absent one in some stores
        differing = [path for path in keys | copied if keys.get(path, b"") != copied.get(path, b"")]
        if differing:
            raise LedgerError(
                f"the metadata stores differ in {count_of(len(differing), 'key')}, such as {differing[0]}: a program"
                " has changed one of them during the migration. Run this command again"
            )

    async def refusal(self) -> str:
        """Return why the metadata cannot be copied, as text; "" if it can. Call this only before the first attempt to
        copy.

        Raises:
            MetadataError: a store did not answer.
        """
        keys = await keys_to_copy(self._present)
        present = set(roots_of(keys))
        found = [f"/{name}" for name in await self._next.children("/") if f"/{name}" in present]
        if found:
            return (
                f"the next metadata store has keys already ({', '.join(found)}): a cluster uses it. Give another"
                " metadataStoreUrl, for example with another path at its end"
            )
        large = [path for path, value in keys.items() if len(value) > MAX_VALUE_BYTES]
        if large:
            return (
                f"the key {large[0]} has {len(keys[large[0]]):,} bytes, and {MAX_VALUE_BYTES:,} can be copied: a"
                " subscription with so many gaps has to acknowledge more before the migration"
            )
        return ""

    async def _copied(self, keys: Mapping[str, bytes]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for root in roots_of(keys):
            record = await self._next.get(root)
            if record is not None:
                found[root] = record.value
            found |= {path: value async for path, value in _keys(self._next, root)}
        return found

    async def _put(self, path: str, value: bytes) -> None:
        found = await self._next.get(path)
        if found is None or found.value != value:
            await self._next.put(path, value)
