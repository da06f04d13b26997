"""The words for the load of a bundle, topic or broker in table headers; docs/measures.md has the definition.

Load is in + out: messages published plus messages dispatched, in msg/s and in bytes/s. A header names the window over
which it is averaged.
"""

from typing import Final, Protocol

LOAD_RATE: Final = "load, msg/s"
LOAD_BYTES: Final = "load, bytes/s"
NEWEST: Final = "newest report"
SHORT: Final = "short window"
LONG: Final = "long window"
IN_AND_OUT: Final = "load is in + out"


class Traffic(Protocol):
    """The traffic of a bundle, topic or broker: rates in msg/s and throughput in bytes/s, separately for in and out."""

    @property
    def msg_rate_in(self) -> float: ...
    @property
    def msg_rate_out(self) -> float: ...
    @property
    def msg_throughput_in(self) -> float: ...
    @property
    def msg_throughput_out(self) -> float: ...


def load_rate(of: Traffic) -> float:
    """Return the message rate of a bundle, topic or broker, in + out, in msg/s."""
    return of.msg_rate_in + of.msg_rate_out


def load_bytes(of: Traffic) -> float:
    """Return the throughput of a bundle, topic or broker, in + out, in bytes/s."""
    return of.msg_throughput_in + of.msg_throughput_out
