"""What gRPC raises, in the store's words."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
from grpc import aio

from pulsar_barycenter.metadata.errors import MetadataError, StoreRefusedError, StoreUnavailableError

_NO_RIGHTS = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)


@contextmanager
def translated(
    operation: str, path: str, known: Callable[[aio.AioRpcError], MetadataError | None] = lambda error: None
) -> Iterator[None]:
    """Have what gRPC raises be an error of the store; `known` tells what this store's servers mean by one, if it does.

    Raises:
        StoreRefusedError: the server takes nothing from this client.
        StoreUnavailableError: all else; whether a write took effect is unknown.
    """
    try:
        yield
    except aio.AioRpcError as error:
        raise known(error) or _error(operation, path, error) from None
    except TimeoutError:
        raise StoreUnavailableError(path, f"{operation} failed: no answer, or the connection was given up") from None
    except (aio.BaseError, asyncio.InvalidStateError) as error:  # of a channel or call that was closed
        raise StoreUnavailableError(path, f"{operation} failed: {error}") from None
    except asyncio.CancelledError:  # of a call; one of the caller passes
        if _is_cancelled():
            raise
        raise StoreUnavailableError(path, f"{operation} failed: the connection was given up") from None


def details_of(error: aio.AioRpcError) -> str:
    return error.details() or ""


def _error(operation: str, path: str, error: aio.AioRpcError) -> MetadataError:
    code, details = error.code(), details_of(error)
    if code in _NO_RIGHTS:
        return StoreRefusedError(path, f"{operation} refused: {details}")
    return StoreUnavailableError(path, f"{operation} failed: {code.name.lower()}: {details}")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
