"""The times and bounds of the client of system topics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of the client of system topics. Times are in seconds."""

    attempt_timeout_s: float = 10.0
    """The longest time from the look-up of the owner until a publisher or reader is attached to it."""
    keep_alive_s: float = 30.0
    """The time between two PINGs; a broker that sends nothing for at most twice this time counts as dead."""
    probe_s: float = 5.0
    """The time in which a broker has to answer a PING after a hint that the owner changed."""
    first_back_off_s: float = 0.1
    longest_back_off_s: float = 5.0
    ask_again_s: float = 5.0
    """The time after which a reader that has not caught up asks for the last message again: entries may be deleted."""
    publish_timeout_s: float = 30.0
    max_in_flight: int = 500
    """The most messages of one publisher without a receipt, less than `repeats.WINDOW`; other callers wait in order."""
    max_key_bytes: int = 4096
    max_value_bytes: int = 128 * 1024
    """The longest value that is published or kept in a table view. With `max_in_flight` at most 64 MiB are pending."""
    max_keys: int = 1_000_000
    """The most keys of a table view."""
    permits: int = 1000
    """The most messages that a broker may send to a reader in advance; the reader sends more permits at half."""
