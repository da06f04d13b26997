"""What machines ask for, and what an answer of a bookie means to them."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from pulsar_barycenter.bookkeeper.errors import BookKeeperError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from pulsar_barycenter.bookkeeper.wire.packets import Code


class Verdict(Enum):
    """What an answer says. UNKNOWN is all that leaves open whether the bookie has the entry."""

    DONE = "done"
    ABSENT = "absent"
    FENCED = "fenced"
    UNAUTHORIZED = "unauthorized"
    UNKNOWN = "unknown"


_VERDICTS: Final = {
    Code.OK: Verdict.DONE,
    Code.NO_LEDGER: Verdict.ABSENT,
    Code.NO_ENTRY: Verdict.ABSENT,
    Code.FENCED: Verdict.FENCED,
    Code.UNAUTHORIZED: Verdict.UNAUTHORIZED,
}


def verdict_of(code: Code) -> Verdict:
    """Return what a return code says of an entry."""
    return _VERDICTS.get(code, Verdict.UNKNOWN)


class StoredLedger(NamedTuple):
    """The metadata of a ledger, and the version of its key."""

    metadata: LedgerMetadata
    version: int


class SendAdd(NamedTuple):
    """Store `body` on a bookie; a recovery's add is accepted by a fenced ledger."""

    bookie: str
    entry: int
    body: bytes
    is_recovery: bool


class SendRead(NamedTuple):
    """Ask a bookie for an entry, -1 for its last one; a fencing read makes it refuse all later ordinary adds."""

    bookie: str
    entry: int
    is_fencing: bool


class SwapMetadata(NamedTuple):
    """Replace the ledger's value if its key is at `version`; report `swapped` or `swap_failed`."""

    metadata: LedgerMetadata
    version: int


class ReadMetadata(NamedTuple):
    """Read the ledger's value from the store, as often as it takes, and report it as `metadata_read`."""


class Confirmed(NamedTuple):
    """All entries up to `last`, inclusive, may be reported as stored."""

    last: int


class Stopped(NamedTuple):
    """The writer reports no entry any more. Entries that it has not confirmed may be stored all the same."""

    error: BookKeeperError


class Ended(NamedTuple):
    """The ledger is CLOSED, and this is how."""

    stored: StoredLedger


class Failed(NamedTuple):
    """The operation has ended without its result."""

    error: BookKeeperError


Action: TypeAlias = SendAdd | SendRead | SwapMetadata | ReadMetadata | Confirmed | Stopped | Ended | Failed
Replace: TypeAlias = Callable[[tuple[str, ...], AbstractSet[str]], tuple[str, ...]]
"""Returns an ensemble with as many of its failed members replaced as there are bookies for; the others stay."""


def segment_conflict(ours: LedgerMetadata, found: LedgerMetadata) -> bool:
    """Return whether somebody else changed the last segment: earlier ones may change at any time, by auto recovery."""
    return found.last_segment != ours.last_segment
