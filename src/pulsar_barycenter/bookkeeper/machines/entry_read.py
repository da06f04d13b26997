"""Reads one entry from one bookie of its write set after the other.

Source: `org.apache.bookkeeper.client.PendingReadOp`.
"""

from collections.abc import Sequence
from enum import Enum

from pulsar_barycenter.bookkeeper.errors import DigestMismatchError
from pulsar_barycenter.bookkeeper.machines.actions import SendRead, Verdict
from pulsar_barycenter.bookkeeper.wire.digests import Entry, EntryCodec


class ReadState(Enum):
    """The state of a read. ABSENT: enough bookies say that they lack the entry.

    UNKNOWN: all bookies were asked; none returned the entry, and too few said that they lack it.
    """

    ASKING = "asking"
    FOUND = "found"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    UNAUTHORIZED = "unauthorized"


class EntryRead:
    """The read of one entry. If a bookie sends damaged bytes, that counts as its error, and the next bookie is
    asked.
    """

    def __init__(
        self, entry: int, members: Sequence[str], codec: EntryCodec, *, absent_after: int, is_fencing: bool = False
    ) -> None:
        """`members` are asked in this order. The entry counts as absent when `absent_after` of them lack it."""
        self.entry = entry
        self.state = ReadState.ASKING
        self.found: list[Entry] = []
        """The entry, once it is found."""
        self.reasons: list[str] = []
        """For each bookie that did not return the entry: the reason, as text."""
        self._members = list(members)
        self._codec = codec
        self._absent_after = absent_after
        self._is_fencing = is_fencing
        self._asked: set[str] = set()
        self._absent = 0

    def ask_next(self) -> list[SendRead]:
        """Ask the next bookie, in addition to those that have not answered. Return no action if all were asked or the
        read has ended.
        """
        if self.state is not ReadState.ASKING or not self._members:
            return []
        bookie = self._members.pop(0)
        self._asked.add(bookie)
        return [SendRead(bookie, self.entry, self._is_fencing)]

    def answered(self, bookie: str, verdict: Verdict, body: bytes) -> list[SendRead]:
        """Process an answer, and return which bookies to ask next. Answers of bookies that were not asked are
        ignored.
        """
        if self.state is not ReadState.ASKING or bookie not in self._asked:
            return []
        self._asked.remove(bookie)
        match verdict:
            case Verdict.DONE:
                self._take(bookie, body)
            case Verdict.UNAUTHORIZED:
                self.state = ReadState.UNAUTHORIZED
            case Verdict.ABSENT:
                self._absent += 1
                self.reasons.append(f"{bookie} does not have the entry")
                if self._absent >= self._absent_after:
                    self.state = ReadState.ABSENT
            case _:
                self.reasons.append(f"{bookie} gave no answer")
        asks = self.ask_next()
        if self.state is ReadState.ASKING and not asks and not self._asked:
            self.state = ReadState.UNKNOWN
        return asks

    def _take(self, bookie: str, body: bytes) -> None:
        try:
            self.found = [self._codec.unpack(self.entry, body)]
            self.state = ReadState.FOUND
        except DigestMismatchError as error:
            self.reasons.append(f"{bookie}: {error}")
