"""The entries appended to a topic whose result is not reported yet, in append order, and the callbacks that report
results.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFencedError
from pulsar_barycenter.ledger.position import NewEntry, Position
from pulsar_barycenter.ledger.storage import LedgerWriter

Context = TypeVar("Context")
"""A value that a caller passes with an entry to a managed ledger, and gets back with the report about this entry."""

OnEntriesDurable: TypeAlias = Callable[[list[Context], Position], None]
"""Called with the contexts of one group of durable entries, in append order, and the position of the first entry; the
other entries follow it in the same ledger.
"""
OnEntriesFailed: TypeAlias = Callable[[list[Context], LedgerError], None]
"""Called with the contexts of all appends that are not durable and are never reported later, in append order. Appends
after the call may succeed again, so a caller that resends must resend all of these first to keep the order.
"""
OnFenced: TypeAlias = Callable[[LedgerFencedError], None]
"""Called once, when the managed ledger finds that a later owner has taken over the topic."""


class AppendQueue(Generic[Context]):
    """The appended entries of a topic whose result is not reported yet. `entries` and `contexts` belong to entries that
    were passed to the writer of the current ledger. `waiting` has entries that wait for a new ledger.

    `entries` and `contexts` are two lists with the same length and order, from which each reported group is cut off at
    the front. So there is no object for each entry.
    """

    __slots__ = ("contexts", "entries", "waiting")

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.contexts: list[Context] = []
        self.waiting: list[tuple[NewEntry, Context]] = []

    @property
    def count(self) -> int:
        """The number of entries whose result is not reported yet."""
        return len(self.contexts) + len(self.waiting)

    def extend(self, entries: Sequence[NewEntry], contexts: Sequence[Context]) -> None:
        """Add entries that the caller has passed to the ledger's writer, with one context for each entry."""
        self.entries.extend([data for data, _, _ in entries])
        self.contexts.extend(contexts)

    def take(self, count: int) -> tuple[list[bytes], list[Context]]:
        """Remove the `count` oldest entries that were passed to the writer, because they are now durable. Return their
        data and their contexts.
        """
        entries, contexts = self.entries[:count], self.contexts[:count]
        del self.entries[:count], self.contexts[:count]
        return entries, contexts

    def take_all(self) -> list[Context]:
        """Remove all entries, and return their contexts in append order. The entries that wait for a new ledger come
        last.
        """
        contexts = self.contexts + [context for _, context in self.waiting]
        self.entries, self.contexts, self.waiting = [], [], []
        return contexts

    def hand_over(self, writer: LedgerWriter) -> None:
        """Pass the entries that wait for a new ledger to `writer`.

        Raises:
            LedgerClosedError: the writer is closed; then all these entries still wait.
        """
        entries = [entry for entry, _ in self.waiting]
        writer.extend(entries)
        self.extend(entries, [context for _, context in self.waiting])
        self.waiting = []
