"""Many writes to the metadata store that do not depend on one another."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from barycenter.metadata.errors import MetadataError

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 64


async def all_of(operations: list[Coroutine[Any, Any, None]]) -> None:
    """Carry the operations out, some at once; one that the store refuses is logged and does not keep the others."""
    for start in range(0, len(operations), _AT_ONCE):
        for result in await asyncio.gather(*operations[start : start + _AT_ONCE], return_exceptions=True):
            if isinstance(result, MetadataError):
                log.warning("load_data_not_stored", reason=str(result))
            elif isinstance(result, BaseException):
                raise result
