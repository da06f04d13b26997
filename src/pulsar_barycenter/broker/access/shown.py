"""What a client shows of itself, and what comes of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pulsar_barycenter.credentials.bounds import MAX_ROLE


@dataclass(frozen=True, slots=True)
class Shown:
    """What a client shows: `method` of the binary protocol, `data` that came with it, and the name (CN) in the
    certificate by which its connection was let in, if it is one of TLS and there was one."""

    method: str
    data: bytes = field(default=b"", repr=False)
    certificate_name: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """A role that was proved, until `expires_at_s` after 1970, or for good."""

    role: str
    expires_at_s: float | None = None


def after_scheme(headers: Mapping[str, str], scheme: str) -> bytes | None:
    """Return what the header `Authorization` shows by that scheme, None if it is of another one or missing."""
    said, _, data = headers.get("Authorization", "").partition(" ")
    return data.strip().encode(errors="replace") if said.lower() == scheme else None


def is_role(text: str) -> bool:
    """Whether a text that somebody sent can be the name of a role."""
    return 0 < len(text) <= MAX_ROLE and text.isprintable()
