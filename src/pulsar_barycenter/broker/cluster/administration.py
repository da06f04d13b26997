"""Makes the writes of administrators depend on the leader's epoch (`leaderOnlyMetadataWrites=administration`).

In this mode only the leader answers a request that changes tenants, namespaces, policies, clusters, partitioned topics
or dynamic configuration; see `rest/leader_requests.py`. Everything that such a request writes to an `administered`
store depends on the epoch of the term in which it arrived, so that a former leader cannot write. Other writes to this
store are not restricted: each broker still stores its own records.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from pulsar_barycenter.metadata.coordination.epochs import Epoch, FencedStore
from pulsar_barycenter.metadata.store import MetadataStore

_EPOCH: Final[ContextVar[Epoch | None]] = ContextVar("epoch of the request", default=None)


@contextmanager
def under(epoch: Epoch) -> Iterator[None]:
    """Context manager: inside the `with` statement, every write of the calling task to a store that `administered`
    returned is checked. It is refused if the present leader has another epoch than `epoch`.
    """
    before = _EPOCH.set(epoch)
    try:
        yield
    finally:
        _EPOCH.reset(before)


def administered(store: MetadataStore, refused: Callable[[Epoch], None]) -> FencedStore:
    """Return a store that writes to `store`, for the requests of administrators. Inside a `with under(epoch)` statement
    the write is done only if `epoch` is the present leader's; outside, it is not checked.

    If the store refuses a write because of the epoch, `refused` is called with that epoch.
    """
    return FencedStore(store, _EPOCH.get, refused)
