"""Limits, time-outs and the shape of new ledgers.

The keys are those of `broker.conf` that Pulsar's brokers configure their client of BookKeeper with.
"""

from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import check_quorums
from pulsar_barycenter.bookkeeper.wire.digests import DigestType
from pulsar_barycenter.bookkeeper.wire.packets import DEFAULT_MAX_FRAME_BYTES

MIN_TIMEOUT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class LedgerShape:
    """Of a new ledger: on how many bookies it is, on how many each entry, and how many must have it to confirm it.

    Raises:
        InvalidQuorumError: the numbers do not fit together.
        ValueError: the digest type protects nothing.
    """

    ensemble_size: int = 2
    write_quorum: int = 2
    ack_quorum: int = 2
    digest_type: DigestType = DigestType.CRC32C
    password: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        check_quorums(self.ensemble_size, self.write_quorum, self.ack_quorum)
        if self.digest_type is DigestType.DUMMY:
            raise ValueError("digest type DUMMY finds no damaged entry; ledgers of it are only read. Use CRC32C")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client allows itself. Sizes are bytes, inclusive; times are seconds.

    Raises:
        ValueError: a value is not above its minimum.
    """

    timeout_s: float = 30.0
    """How long a request waits for its answer, and a connection to be made (`bookkeeperClientTimeoutInSeconds`)."""
    speculative_read_s: float = 2.0
    """After how long without an answer a read is also sent to the next bookie."""
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    """The largest packet (`nettyMaxFrameSizeBytes` of the bookies)."""
    max_unconfirmed_bytes: int = 64 << 20
    """The data of entries that are not confirmed, over all ledgers; one entry is always accepted."""
    max_unsent_bytes: int = 64 << 20
    """What waits to be sent to one bookie; its connection is closed when it is more."""
    max_reads: int = 64
    """The number of entries of a ledger that are read at a time."""
    reconnect_s: float = 1.0
    """How long a bookie counts as failed after the first attempt to connect that failed; twice that after the next, up
    to 16 times."""

    def __post_init__(self) -> None:
        minima = {
            "timeout_s": MIN_TIMEOUT_S,
            "speculative_read_s": 0.0,
            "max_frame_bytes": 1024,
            "max_unconfirmed_bytes": 1,
            "max_unsent_bytes": 1,
            "max_reads": 1,
            "reconnect_s": 0.0,
        }
        for name, minimum in minima.items():
            if getattr(self, name) < minimum:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least {minimum:g}")
