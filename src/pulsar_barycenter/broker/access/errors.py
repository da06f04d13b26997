"""The error for a client that is refused because of its credentials, and the kinds of reasons."""

from typing import Final, Literal

ErrorCode = Literal["INVALID_AUTH_DATA", "INVALID_TOKEN", "INVALID_CERTS", "INVALID_CN", "AUTH_REQUIRED", "UNKNOWN"]
"""The names of Pulsar's `ErrorCode`s, by which refusals are counted. The set is fixed: clients cannot add to it."""

UNKNOWN: Final[ErrorCode] = "UNKNOWN"


class AuthenticationError(Exception):
    """A client is refused: its credentials are missing or not valid. The message is sent to the client, and contains
    nothing secret.
    """

    def __init__(self, reason: str, code: ErrorCode = UNKNOWN) -> None:
        super().__init__(reason)
        self.code = code
