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
    """Context manager: inside the `with` statement, writes of the calling task to an `administered` store are refused
    if `epoch` is not the epoch of the present leader.
    """
    before = _EPOCH.set(epoch)
    try:
        yield
    finally:
        _EPOCH.reset(before)


def administered(store: MetadataStore, refused: Callable[[Epoch], None]) -> FencedStore:
    """Return `store` for the requests of administrators: its writes are checked against the epoch that `under` sets.

    `refused` is called with this epoch if the store refuses a write because of it.
    """
    return FencedStore(store, _EPOCH.get, refused)
