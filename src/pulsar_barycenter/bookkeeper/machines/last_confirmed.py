"""Asks all bookies of a segment for their last entry. The answers give the last entry that is surely confirmed.

Source: `org.apache.bookkeeper.client.ReadLastConfirmedOp`.
"""

from enum import Enum

from pulsar_barycenter.bookkeeper.errors import DigestMismatchError
from pulsar_barycenter.bookkeeper.machines.actions import SendRead, Verdict
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from pulsar_barycenter.bookkeeper.wire.digests import LAST_ENTRY, Entry, EntryCodec


class Coverage(Enum):
    """Whether the answers suffice. COVERED: of every group of bookies that could confirm an entry, at least one
    answered.
    """

    ASKING = "asking"
    COVERED = "covered"
    UNCOVERED = "uncovered"
    UNAUTHORIZED = "unauthorized"


class LastConfirmedRead:
    """Asks the bookies of a segment for their last entry. If the reads fence the ledger, its former writer can confirm
    no entry once the state is COVERED.
    """

    def __init__(self, metadata: LedgerMetadata, codec: EntryCodec, *, is_fencing: bool) -> None:
        self.coverage = Coverage.ASKING
        self.answers: list[Entry] = []
        """The last entries of the bookies that have any."""
        self.silent: set[str] = set()
        """The members that gave no answer that can be used."""
        self._metadata = metadata
        self._members = metadata.last_segment.members
        self._codec = codec
        self._is_fencing = is_fencing
        self._waiting = set(self._members)

    def start(self) -> list[SendRead]:
        return [SendRead(bookie, LAST_ENTRY, self._is_fencing) for bookie in dict.fromkeys(self._members)]

    @property
    def last_confirmed(self) -> int:
        """The number of the last entry that is known to be confirmed, -1 if there is none."""
        return max(self._metadata.last_segment.first - 1, *(-1, *(answer.last_confirmed for answer in self.answers)))

    def answered(self, bookie: str, verdict: Verdict, body: bytes) -> None:
        """Process the answer of a bookie. A second answer of the same bookie is ignored."""
        if bookie not in self._waiting or self.coverage is not Coverage.ASKING:
            return
        self._waiting.remove(bookie)
        if verdict is Verdict.UNAUTHORIZED:
            self.coverage = Coverage.UNAUTHORIZED
            return
        if not self._is_usable(verdict, body):
            self.silent.add(bookie)
        if self._is_covered_without(self._waiting | self.silent):
            self.coverage = Coverage.COVERED
        elif not self._is_covered_without(self.silent):
            self.coverage = Coverage.UNCOVERED

    def _is_usable(self, verdict: Verdict, body: bytes) -> bool:
        if verdict is not Verdict.DONE:
            return verdict is Verdict.ABSENT
        try:
            self.answers.append(self._codec.unpack(LAST_ENTRY, body))
        except DigestMismatchError:
            return False
        return True

    def _is_covered_without(self, unknown: set[str]) -> bool:
        metadata = self._metadata
        size = len(self._members)
        return all(
            sum(self._members[(first + number) % size] in unknown for number in range(metadata.write_quorum))
            < metadata.ack_quorum
            for first in range(size)
        )
