"""Where an issuer of tokens publishes what it does, and how large that may be."""

from typing import Final

MAX_URL: Final = 2_000
"""Characters of an address."""
MAX_DOCUMENT_BYTES: Final = 256 << 10
"""Of what an issuer publishes: its metadata, or its keys."""


def discovery_url(issuer: str) -> str:
    """Return where an issuer publishes its metadata."""
    return f"{issuer.removesuffix('/')}/.well-known/openid-configuration"
