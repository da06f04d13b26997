"""What a source of load has to offer."""

from typing import Protocol

from pulsar_barycenter.watch.watched_cluster import WatchedCluster


class Source(Protocol):
    """Feeds a cluster with what is new since the last time."""

    @property
    def name(self) -> str:
        """What is read, as text: a folder, or addresses."""
        ...

    async def read(self, cluster: WatchedCluster) -> bool:
        """Append what is new, and take a look; return whether anything was new.

        Raises:
            WatchError: nothing can be read, or it is of another cluster.
        """
        ...

    def troubles(self) -> tuple[str, ...]:
        """Return what could not be read the last time, a sentence each."""
        ...
