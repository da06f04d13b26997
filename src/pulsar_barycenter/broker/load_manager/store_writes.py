"""Many writes to the metadata store that do not depend on one another."""

import asyncio
from collections.abc import Coroutine, Iterable
from itertools import islice
from typing import Any, Final

import structlog

from pulsar_barycenter.metadata.errors import MetadataError, NotLeadingError

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 64


async def all_of(operations: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Carry the operations out, some at once; one that the store refuses is logged and does not keep the others.

    The next ones are asked for when those before are done; once one is refused because this broker does not lead, none.
    """
    ahead = iter(operations)
    while some := list(islice(ahead, _AT_ONCE)):
        for result in await asyncio.gather(*some, return_exceptions=True):
            if isinstance(result, NotLeadingError):
                log.info("load_data_left_to_the_leader", reason=str(result))
                return
            if isinstance(result, MetadataError):
                log.warning("load_data_not_stored", reason=str(result))
            elif isinstance(result, BaseException):
                raise result
