"""What was appended to a topic and is not reported yet, in the order of the appends; and how it is reported."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFencedError
from pulsar_barycenter.ledger.position import NewEntry, Position
from pulsar_barycenter.ledger.storage import LedgerWriter

OnEntriesDurable: TypeAlias = Callable[[list[object], Position], None]
"""Called with the contexts of one group of durable entries, in the order of their appends, and the position of the
first; the others follow it in the same ledger."""
OnEntriesFailed: TypeAlias = Callable[[list[object], LedgerError], None]
"""Called with the contexts of all appends that are not durable and never reported later, in their order. Appends
after the call may succeed again, so whoever resends must resend all of these first to keep the order."""
OnFenced: TypeAlias = Callable[[LedgerFencedError], None]
"""Called once when a later owner is found to have taken the topic over."""


class AppendQueue:
    """Entries handed to the ledger being written, and behind them those that wait for a ledger.

    Two plain lists of what is in flight, cut at the front once per group: nothing is made per entry.
    """

    __slots__ = ("contexts", "entries", "waiting")

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.contexts: list[object] = []
        self.waiting: list[tuple[NewEntry, object]] = []

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.contexts) + len(self.waiting)

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
