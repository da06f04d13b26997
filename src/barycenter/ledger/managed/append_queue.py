"""What was appended to a topic and is not reported yet, in the order of the appends."""

from collections.abc import Sequence

from barycenter.ledger.position import NewEntry
from barycenter.ledger.storage import LedgerWriter


class AppendQueue:
    """Entries handed to the ledger being written, and behind them those that wait for a ledger.

    Two plain lists of what is in flight, cut at the front once per group: nothing is made per entry.
    """

    __slots__ = ("contexts", "entries", "waiting")

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.contexts: list[object] = []
        self.waiting: list[tuple[NewEntry, object]] = []

    def extend(self, entries: Sequence[NewEntry], contexts: Sequence[object]) -> None:
        """Take note of what was handed to the writer."""
        self.entries.extend([data for data, _, _ in entries])
        self.contexts.extend(contexts)

    def take(self, count: int) -> tuple[list[bytes], list[object]]:
        """Remove the `count` oldest entries in flight, which are durable, and their contexts."""
        entries, contexts = self.entries[:count], self.contexts[:count]
        del self.entries[:count], self.contexts[:count]
        return entries, contexts

    def take_all(self) -> list[object]:
        """Remove everything and return the contexts, those of the waiting entries last."""
        contexts = self.contexts + [context for _, context in self.waiting]
        self.entries, self.contexts, self.waiting = [], [], []
        return contexts

    def hand_over(self, writer: LedgerWriter) -> None:
        """Append what waits to `writer`.

        Raises:
            LedgerClosedError: the writer is closed; everything still waits.
        """
        entries = [entry for entry, _ in self.waiting]
        writer.extend(entries)
        self.extend(entries, [context for _, context in self.waiting])
        self.waiting = []
