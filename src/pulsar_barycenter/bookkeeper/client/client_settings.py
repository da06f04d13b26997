"""The limits and time-outs of a client of bookies, and the quorums of a ledger."""

from dataclasses import dataclass, field
from typing import Final

from pulsar_barycenter.bookkeeper.client.opening import OpeningStep
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import check_quorums
from pulsar_barycenter.bookkeeper.wire.digests import DigestType
from pulsar_barycenter.bookkeeper.wire.packets import DEFAULT_MAX_FRAME_BYTES

MIN_TIMEOUT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class LedgerShape:
    """The quorums of a new ledger: its number of bookies (`ensemble_size`), how many of them store each entry
    (`write_quorum`), and how many must confirm an entry before it counts as confirmed (`ack_quorum`).

    Raises:
        InvalidQuorumError: the numbers are not valid together.
        ValueError: the digest type is DUMMY, which finds no damaged entry.
    """

    ensemble_size: int = 2
    write_quorum: int = 2
    ack_quorum: int = 2
    digest_type: DigestType = DigestType.CRC32C
    password: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        check_quorums(self.ensemble_size, self.write_quorum, self.ack_quorum)
        if self.digest_type is DigestType.DUMMY:
            raise ValueError(
                "digest type DUMMY does not detect damaged entries, so new ledgers cannot have it. Use CRC32C"
            )


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The limits of a client of bookies. Sizes are bytes, inclusive; times are seconds.

    Raises:
        ValueError: a value is below its minimum.
    """

    timeout_s: float = 30.0
    """How long a request may wait for its answer, and how long opening a connection may take
    (`bookkeeperClientTimeoutInSeconds`). After this time the connection ends, and all its requests are answered with
    NO_ANSWER.
    """
    speculative_read_s: float = 2.0
    """If a bookie has not answered a read after this time, the read is also sent to the next bookie."""
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    """The largest packet that is sent or accepted (`nettyMaxFrameSizeBytes` of the bookies)."""
    max_unconfirmed_bytes: int = 64 << 20
    """The size of the entries that are not confirmed, over all ledgers together, at which the next append waits. While
    less is unconfirmed, an entry is accepted whatever its size."""
    max_unsent_bytes: int = 64 << 20
    """The maximum size of all packets together that wait to be sent to one bookie. If it is exceeded, the connection is
    closed, and its requests are answered with NO_ANSWER.
    """
    max_reads: int = 64
    """The maximum number of entries of a ledger that are read at the same time."""
    reconnect_s: float = 1.0
    """How long a bookie counts as failed after an attempt to connect failed. Each further failure doubles this, up to
    16 times.
    """
    opening: tuple[OpeningStep, ...] = ()
    """What is done on each new connection before its first request, in this order: TLS, then authentication."""

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
