"""The times and bounds of the client of system topics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """All times in seconds."""

    attempt_timeout_s: float = 10.0
    """From asking who serves the topics until a publisher or reader is attached there."""
    keep_alive_s: float = 30.0
    """After at most twice this a broker that says nothing is gone."""
    probe_s: float = 5.0
    """How soon a broker gives a sign of life after somebody said that the owner changed."""
    first_back_off_s: float = 0.1
    longest_back_off_s: float = 5.0
    ask_again_s: float = 5.0
    """A reader that has not caught up asks again what the last message is: entries may have been deleted meanwhile."""
    publish_timeout_s: float = 30.0
    max_in_flight: int = 500
    """Messages of one publisher without a receipt, fewer than `repeats.WINDOW`; beyond, callers wait in their order."""
    max_key_bytes: int = 4096
    max_value_bytes: int = 128 * 1024
    """Of a value that is published, or kept in a table view. With `max_in_flight`, 64 MiB wait for receipts at most."""
    max_keys: int = 1_000_000
    """Of a table view."""
    permits: int = 1000
    """Messages that a broker may send to a reader ahead; it tops them up at half."""
