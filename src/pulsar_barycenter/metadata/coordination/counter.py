"""Gives numbers, each of them only once, to all sessions of a store.

Source: Pulsar's `CoordinationService.getNextCounterValue`.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

log = structlog.get_logger(__name__)


async def next_counter_value(
    store: MetadataStore,
    path: str,
    *,
    prefix: str = "-",
    later: Callable[[Coroutine[Any, Any, None]], object] | None = None,
) -> int:
    """Return the next number of the counter at `path`. It is greater than every number that any session got from this
    counter before the call.

    Numbers start at 1 and may have gaps. Concurrent calls do not block each other, and get their numbers in any order.
    To get a number, an ephemeral key is created below `path` whose name begins with `prefix`. It is deleted at once; if
    that fails, it is deleted at the end of the session. If `later` is given, it is called with the coroutine that
    deletes the key, and has to run it, so that this call need not wait for the deletion. On ZooKeeper all names below
    `path` share one counter, whatever their prefix is.
    """
    start = f"{path}/{prefix}"
    stat = await store.put(start, b"", expected_version=MUST_NOT_EXIST, ephemeral=True, sequential=True)
    if later is None:
        await _delete(store, stat.path)
    else:
        later(_delete(store, stat.path))
    return int(stat.path[len(start) :])


async def _delete(store: MetadataStore, path: str) -> None:
    try:
        await store.delete(path)
    except MetadataError as error:
        log.debug("counter_key_left_to_session", path=path, error=str(error))
