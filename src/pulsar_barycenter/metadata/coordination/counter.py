"""Numbers that are never handed out twice.

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
    """Return a number greater than every one that `path` gave before the call, to any session, in the store's life.

    Numbers start at 1 and may skip. Calls at the same time do not hinder each other, and get theirs in any order.
    Nothing stays behind: the key that draws the number is deleted at once, and by the end of the session should that
    fail. Where that must not be waited for, `later` gets the work.
    """
    drawer = f"{path}/-"
    stat = await store.put(drawer, b"", expected_version=MUST_NOT_EXIST, ephemeral=True, sequential=True)
    if later is None:
        await _delete(store, stat.path)
    else:
        later(_delete(store, stat.path))
    return int(stat.path[len(drawer) :])


async def _delete(store: MetadataStore, path: str) -> None:
    try:
        await store.delete(path)
    except MetadataError as error:
        log.debug("counter_key_left_to_session", path=path, error=str(error))
