"""Names for producers that bring none: unique in the cluster, whatever broker they come to."""

from typing import Final

from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.store import MetadataStore

PRODUCER_NAME_COUNTER: Final = "/counters/producer-name"


class ProducerNames:
    """`<cluster>-<n>-<k>`: n is drawn from the store once by each start of a broker, k counts here."""

    def __init__(self, store: MetadataStore, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._prefix: str | None = None
        self._count = 0

    async def next(self) -> str:
        """Return a new name; raises MetadataError while the first number cannot be drawn."""
        if self._prefix is None:
            # Two first callers may draw two numbers; with the count going on, no name comes twice.
            self._prefix = f"{self._cluster}-{await next_counter_value(self._store, PRODUCER_NAME_COUNTER)}"
        self._count += 1
        return f"{self._prefix}-{self._count - 1}"
