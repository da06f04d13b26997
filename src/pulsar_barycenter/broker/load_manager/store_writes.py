"""Writes many independent values to the metadata store."""

import asyncio
from collections.abc import Coroutine, Iterable
from itertools import islice
from typing import Any, Final

import structlog

from pulsar_barycenter.metadata.errors import MetadataError, NotLeadingError

log = structlog.get_logger(__name__)

_CONCURRENT_WRITES: Final = 64


async def all_of(operations: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Carry out the store operations in batches. An operation that the store refuses is logged, and the others
    continue.

    A batch starts when the one before has ended. If an operation is refused because this broker is not the leader, the
    rest is not carried out.
    """
    remaining = iter(operations)
    while batch := list(islice(remaining, _CONCURRENT_WRITES)):
        for result in await asyncio.gather(*batch, return_exceptions=True):
            if isinstance(result, NotLeadingError):
                log.info("load_data_left_to_the_leader", reason=str(result))
                return
            if isinstance(result, MetadataError):
                log.warning("load_data_not_stored", reason=str(result))
            elif isinstance(result, BaseException):
                raise result
