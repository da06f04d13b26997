"""The credentials that a client sends, and the identity that they prove."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pulsar_barycenter.credentials.bounds import MAX_ROLE


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of one connection or request.

    `method` is the name of the method in the binary protocol, `data` the bytes sent with it. `certificate_name` is the
    common name (CN) of the TLS client certificate, None without one.
    """

    method: str
    data: bytes = field(default=b"", repr=False)
    certificate_name: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """A role that credentials prove, and the time when they expire: `expires_at_s`, in seconds since 1970; None if they
    do not expire.
    """

    role: str
    expires_at_s: float | None = None


def after_scheme(headers: Mapping[str, str], scheme: str) -> bytes | None:
    """Return the data in the header `Authorization` after `scheme` (lower case); None if the header is missing or has
    another scheme.
    """
    found, _, data = headers.get("Authorization", "").partition(" ")
    return data.strip().encode(errors="replace") if found.lower() == scheme else None


def is_role(text: str) -> bool:
    """Return whether a text from a client is a valid role name: 1 to MAX_ROLE printable characters."""
    return 0 < len(text) <= MAX_ROLE and text.isprintable()
