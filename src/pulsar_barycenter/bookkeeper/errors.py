"""Errors of the BookKeeper client, one shallow tree.

BookKeeperError
├── MalformedAnswerError     a bookie sent bytes that are not of the protocol; its connection is closed
├── BookieRefusedError       a bookie does not accept this client: it has no TLS, or authentication failed
├── DigestMismatchError      the bytes of an entry are damaged, or belong to another entry
├── LedgerMetadataError      the value of a ledger's key cannot be read
├── ClusterLayoutError       the keys of the cluster are of a form that this client does not write
├── InvalidQuorumError       ensemble size, write quorum and ack quorum do not fit together
├── TooFewBookiesError       there are not enough writable bookies; nothing was written
├── LedgerExistsError        a ledger with this id exists already
├── NoSuchLedgerError        the ledger has no key: it was deleted, or never existed
├── WrongPasswordError       the ledger was created with another password
├── EntryTooLargeError       an entry is larger than a bookie accepts; it was not sent
├── WriterStoppedError       the writer cannot write any more, and says why
│   ├── WriterFencedError    another client took the ledger over
│   └── WriterClosedError    the writer was closed
├── CloseConflictError       another client closed the ledger at another entry
├── RecoveryError            the ledger could not be recovered now; a later attempt may succeed
├── NoSuchEntryError         the entry lies outside the ledger, or all of its bookies say that they lack it
└── UnreadableEntryError     no bookie gave the entry, and not all of them lack it; a later attempt may succeed
"""


class BookKeeperError(Exception):
    """Base class of every error of a BookKeeper operation."""


class MalformedAnswerError(BookKeeperError):
    pass


class BookieRefusedError(BookKeeperError):
    pass


class DigestMismatchError(BookKeeperError):
    pass


class LedgerMetadataError(BookKeeperError):
    pass


class ClusterLayoutError(BookKeeperError):
    pass


class InvalidQuorumError(BookKeeperError):
    def __init__(self, ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
        super().__init__(
            f"ensemble size {ensemble_size}, write quorum {write_quorum} and ack quorum {ack_quorum} do not fit: "
            "the ensemble size must be at least the write quorum, the write quorum at least the ack quorum, and "
            "the ack quorum at least 1"
        )


class TooFewBookiesError(BookKeeperError):
    pass


class LedgerExistsError(BookKeeperError):
    pass


class NoSuchLedgerError(BookKeeperError):
    def __init__(self, ledger: int) -> None:
        super().__init__(f"ledger {ledger} has no key in the metadata store: it was deleted, or never existed")
        self.ledger = ledger


class WrongPasswordError(BookKeeperError):
    def __init__(self, ledger: int) -> None:
        super().__init__(f"ledger {ledger} was created with another password; set the password that its writer had")
        self.ledger = ledger


class EntryTooLargeError(BookKeeperError):
    def __init__(self, size: int, largest: int) -> None:
        super().__init__(
            f"an entry of {size:,} bytes is larger than the {largest:,} bytes that a bookie accepts; raise"
            " nettyMaxFrameSizeBytes of the bookies and of this client, or send smaller entries"
        )


class WriterStoppedError(BookKeeperError):
    """The writer has stopped. Entries that were not confirmed may still be stored, and a recovery may keep them."""


class WriterFencedError(WriterStoppedError):
    pass


class WriterClosedError(WriterStoppedError):
    pass


class CloseConflictError(BookKeeperError):
    pass


class RecoveryError(BookKeeperError):
    pass


class NoSuchEntryError(BookKeeperError):
    pass


class UnreadableEntryError(BookKeeperError):
    pass
