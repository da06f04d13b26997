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
    """Run the store operations in batches. An operation that the store refuses is logged, and the others continue; no
    error is raised for it.

    A batch starts when the one before has ended. If an operation is refused because this broker is not the leader, the
    remaining batches are not started, and this returns without an error.
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
