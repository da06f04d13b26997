"""Numbers that are never handed out twice.

Source: Pulsar's `CoordinationService.getNextCounterValue`.
"""

import structlog

from barycenter.metadata.errors import MetadataError
from barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

log = structlog.get_logger(__name__)


async def next_counter_value(store: MetadataStore, path: str) -> int:
    """Return a number greater than every one returned before for `path`, to any session, in the store's life.

    Numbers start at 1 and may skip. Calls at the same time do not hinder each other. Nothing stays behind: the
    key that draws the number is deleted at once, and by the end of the session should that fail.
    """
    drawer = f"{path}/-"
    stat = await store.put(drawer, b"", expected_version=MUST_NOT_EXIST, ephemeral=True, sequential=True)
    try:
        await store.delete(stat.path)
    except MetadataError as error:
        log.debug("counter_key_left_to_session", path=stat.path, error=str(error))
    return int(stat.path[len(drawer) :])
