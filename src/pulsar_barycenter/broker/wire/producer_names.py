"""Generates names for producers without a name; the names are unique in the cluster."""

from typing import Final

from pulsar_barycenter.metadata.coordination.counter import next_counter_value
from pulsar_barycenter.metadata.store import MetadataStore

PRODUCER_NAME_COUNTER: Final = "/counters/producer-name"


class ProducerNames:
    """Generates producer names of the form `<cluster>-<n>-<k>`. n is a number that each broker process takes once from
    the metadata store, and k counts the names of this process from 0 on.
    """

    def __init__(self, store: MetadataStore, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._prefix: str | None = None
        self._count = 0

    async def next(self) -> str:
        """Return a new name, which no other producer of the cluster has.

        Raises:
            MetadataError: the store could not be read or written; this is only possible until this process has its
                number.
        """
        if self._prefix is None:
            # Two callers at the start may take two numbers. The count continues, so no name is returned twice.
            self._prefix = f"{self._cluster}-{await next_counter_value(self._store, PRODUCER_NAME_COUNTER)}"
        self._count += 1
        return f"{self._prefix}-{self._count - 1}"
