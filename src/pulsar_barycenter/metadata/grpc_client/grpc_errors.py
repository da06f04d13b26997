"""Converts exceptions of gRPC to errors of the store."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
from grpc import aio

from pulsar_barycenter.metadata.errors import MetadataError, StoreRefusedError, StoreUnavailableError

_REFUSED_CODES = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)


@contextmanager
def translated(
    operation: str, path: str, known: Callable[[aio.AioRpcError], MetadataError | None] = lambda error: None
) -> Iterator[None]:
    """Context manager: raise gRPC's exceptions as errors of the metadata store. `operation` and `path` are named in
    these errors. `known` is a function that returns the error for an exception that has a special meaning for one kind
    of store, and None for other exceptions.

    Raises:
        StoreRefusedError: the server refuses this client.
        StoreUnavailableError: any other failure; it is unknown whether a write took effect.
    """
    try:
        yield
    except aio.AioRpcError as error:
        raise known(error) or _error(operation, path, error) from None
    except TimeoutError:
        raise StoreUnavailableError(
            path,
            f"{operation} failed: there was no answer, or the connection was abandoned, so it is not known whether the"
            " operation was done",
        ) from None
    except (aio.BaseError, asyncio.InvalidStateError) as error:  # the channel or call was closed
        raise StoreUnavailableError(path, f"{operation} failed: {error}") from None
    except asyncio.CancelledError:  # raised by a cancelled call; a cancellation of the caller's task passes
        if _is_cancelled():
            raise
        raise StoreUnavailableError(
            path, f"{operation} failed: the connection was abandoned, so it is not known whether the operation was done"
        ) from None


def details_of(error: aio.AioRpcError) -> str:
    return error.details() or ""


def _error(operation: str, path: str, error: aio.AioRpcError) -> MetadataError:
    code, details = error.code(), details_of(error)
    if code in _REFUSED_CODES:
        return StoreRefusedError(path, f"{operation} was refused by the store's server: {details}")
    return StoreUnavailableError(path, f"{operation} failed: {code.name.lower()}: {details}")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
