"""What a source of load has to offer."""

from collections.abc import Sequence
from typing import Protocol

from pulsar_barycenter.watch.watched_cluster import Look


class Source(Protocol):
    """A source of load that `barycenter watch` shows. Each call of `read` returns what is new since the last call."""

    @property
    def name(self) -> str:
        """What is read, as text: a folder, or addresses."""
        ...

    async def read(self) -> Sequence[Look]:
        """Return what is new since the last call as looks (states of the cluster at a time), oldest first; empty if
        nothing is new.

        Raises:
            WatchError: nothing can be read, or the load is of several clusters.
        """
        ...

    def problems(self) -> tuple[str, ...]:
        """Return a sentence for each thing that the last call of `read` could not read."""
        ...
