"""Why somebody is not let in."""

from typing import Final, Literal

ErrorCode = Literal["INVALID_AUTH_DATA", "INVALID_TOKEN", "INVALID_CERTS", "INVALID_CN", "AUTH_REQUIRED", "UNKNOWN"]
"""The names of Pulsar's `ErrorCode`s, by which refusals are counted: what a client shows may not make up new ones."""

UNKNOWN: Final[ErrorCode] = "UNKNOWN"


class AuthenticationError(Exception):
    """The proof is missing or not believed. What it says may be told to whoever asked, and holds nothing secret."""

    def __init__(self, reason: str, code: ErrorCode = UNKNOWN) -> None:
        super().__init__(reason)
        self.code = code
