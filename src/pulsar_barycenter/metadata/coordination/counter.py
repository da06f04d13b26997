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
    store: MetadataStore, path: str, *, later: Callable[[Coroutine[Any, Any, None]], object] | None = None
) -> int:
    """Return the next number of the counter at `path`. It is greater than every number that any session got from it
    before the call.

    Numbers start at 1 and may have gaps. Concurrent calls do not block each other and get their numbers in any order.
    The key that reserves the number is deleted at once, or at the end of the session if that fails. `later`, if given,
    receives the coroutine that deletes the key, so that the caller need not wait for it.
    """
    prefix = f"{path}/-"
    stat = await store.put(prefix, b"", expected_version=MUST_NOT_EXIST, ephemeral=True, sequential=True)
    if later is None:
        await _delete(store, stat.path)
    else:
        later(_delete(store, stat.path))
    return int(stat.path[len(prefix) :])


async def _delete(store: MetadataStore, path: str) -> None:
    try:
        await store.delete(path)
    except MetadataError as error:
        log.debug("counter_key_left_to_session", path=path, error=str(error))
