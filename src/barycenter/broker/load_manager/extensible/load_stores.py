"""The two tables in which brokers tell their load: the newest value of each broker, by its id.

Source: Pulsar's `LoadDataStore` and `TableViewLoadDataStoreImpl`.
"""

from collections.abc import Callable
from typing import Protocol


class LoadStore(Protocol):
    """One table. Values are JSON, of whoever wrote them."""

    def values(self) -> dict[str, bytes]:
        """Return the newest value of each broker, as far as it was heard."""
        ...

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change."""
        ...

    def start(self) -> None:
        """Begin to listen, in the background. Idempotent."""
        ...

    async def tell(self, broker_id: str, value: bytes | None) -> bool:
        """Tell the value of a broker, None to take it back; return whether it was taken. Never raises."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class LocalLoadStore:
    """A table of this process alone: what is told is known here, and nowhere else."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._listeners: list[Callable[[], None]] = []

    def values(self) -> dict[str, bytes]:
        return dict(self._values)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def start(self) -> None:
        return

    async def tell(self, broker_id: str, value: bytes | None) -> bool:
        if value is None:
            self._values.pop(broker_id, None)
        else:
            self._values[broker_id] = value
        for listener in self._listeners:
            listener()
        return True

    async def close(self) -> None:
        return
