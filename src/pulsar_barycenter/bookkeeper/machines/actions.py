"""The actions that the state machines return, and what an answer of a bookie means to a machine."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from pulsar_barycenter.bookkeeper.errors import BookKeeperError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from pulsar_barycenter.bookkeeper.wire.digests import Body
from pulsar_barycenter.bookkeeper.wire.packets import Code


class Verdict(Enum):
    """What an answer says about an entry. DONE: the bookie has stored or returned it. ABSENT: the bookie does not have
    it. FENCED: the bookie refuses it, because the ledger is fenced. UNAUTHORIZED: the password is wrong. UNKNOWN: the
    answer leaves open whether the bookie has the entry.
    """

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
    """Return what a bookie's return code says about an entry."""
    return _VERDICTS.get(code, Verdict.UNKNOWN)


class StoredLedger(NamedTuple):
    """The metadata of a ledger as it was read, and the version that its key had."""

    metadata: LedgerMetadata
    version: int


class SendAdds(NamedTuple):
    """Action: store entries on a bookie, in this order. `bodies` has one for each of `entries`. If
    `is_recovery`, a bookie accepts them even if the ledger is fenced.
    """

    bookie: str
    entries: Sequence[int]
    bodies: Sequence[Body]
    is_recovery: bool


class SendRead(NamedTuple):
    """Action: read an entry from a bookie; -1 is the bookie's last one. A fencing read makes the bookie refuse all
    later ordinary adds.
    """

    bookie: str
    entry: int
    is_fencing: bool


class SwapMetadata(NamedTuple):
    """Action: replace the ledger's metadata if its key still has `version`; then call the machine's `swapped` if that
    succeeded, otherwise `swap_failed`.
    """

    metadata: LedgerMetadata
    version: int


class ReadMetadata(NamedTuple):
    """Action: read the ledger's metadata from the store, repeatedly until the store answers; then call the machine's
    `metadata_read`.
    """


class Confirmed(NamedTuple):
    """Action: report all entries up to `last`, inclusive, as confirmed."""

    last: int


class Stopped(NamedTuple):
    """Action: report that the writer confirms no entry any more. Entries that it has not confirmed may still be
    stored.
    """

    error: BookKeeperError


class Ended(NamedTuple):
    """Action: report that the ledger is CLOSED; `stored` is its final metadata."""

    stored: StoredLedger


class Failed(NamedTuple):
    """Action: report that the operation failed."""

    error: BookKeeperError


Action: TypeAlias = SendAdds | SendRead | SwapMetadata | ReadMetadata | Confirmed | Stopped | Ended | Failed
Replace: TypeAlias = Callable[[tuple[str, ...], AbstractSet[str]], tuple[str, ...]]
"""A function that returns an ensemble in which other bookies replace the failed members, as far as there are any."""


def segment_conflict(ours: LedgerMetadata, found: LedgerMetadata) -> bool:
    """Return whether another client changed the last segment of the ledger: `ours` is the metadata that this client
    knows, `found` the metadata in the store. Changes of earlier segments do not count: auto recovery may make them at
    any time.
    """
    return found.last_segment != ours.last_segment
