"""The times and limits of the client of system topics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of the client of system topics. Times are in seconds."""

    attempt_timeout_s: float = 10.0
    """The maximum number of seconds from the look-up of the owner until a publisher or reader is attached to it."""
    keep_alive_s: float = 30.0
    """The number of seconds between two PINGs. If a broker sends nothing for twice this time, its connection is
    dropped.
    """
    probe_s: float = 5.0
    """The number of seconds in which a broker has to answer a PING after a notification that the owner may have
    changed. If it does not answer, its connection is dropped.
    """
    first_back_off_s: float = 0.1
    longest_back_off_s: float = 5.0
    ask_again_s: float = 5.0
    """The number of seconds after which a reader that has not caught up asks for the last message again, because the
    message of the last answer may have been deleted.
    """
    publish_timeout_s: float = 30.0
    max_in_flight: int = 500
    """The maximum number of messages of one publisher without a receipt, less than `repeats.WINDOW`. Further callers
    wait, in order.
    """
    max_key_bytes: int = 4096
    max_value_bytes: int = 128 * 1024
    """The maximum size in bytes of a value that is published, or kept in a table view. With `max_in_flight` at most 64
    MiB wait for a receipt.
    """
    max_keys: int = 1_000_000
    """The maximum number of keys of a table view."""
    permits: int = 1000
    """The maximum number of messages that a broker may send to a reader in advance. When half of these permits are
    used, the reader sends new ones.
    """
