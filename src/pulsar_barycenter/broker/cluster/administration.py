"""What administrators change, written by the leader alone where `leaderOnlyMetadataWrites=administration`.

A request that changes tenants, namespaces, policies, clusters, partitioned topics or dynamic configuration is answered
on the leader, under the epoch of the term in which it came in; see `rest/leader_requests.py`. Whatever it writes to an
`administered` store depends on that epoch. Outside of such a request that is a store as any other: brokers go on to
store what they find out or make themselves.
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
    """Have what this task writes to an administered store depend on a leader's epoch."""
    before = _EPOCH.set(epoch)
    try:
        yield
    finally:
        _EPOCH.reset(before)


def administered(store: MetadataStore, refused: Callable[[Epoch], None]) -> FencedStore:
    """Return the store as requests of administrators write to it; `refused` hears of an epoch that was passed."""
    return FencedStore(store, _EPOCH.get, refused)
