"""The address of an issuer's metadata, and the maximum sizes of what an issuer publishes."""

from typing import Final

MAX_URL: Final = 2_000
"""The maximum number of characters of an address."""
MAX_DOCUMENT_BYTES: Final = 256 << 10
"""The maximum size of a document of an issuer: its metadata, or its keys."""


def discovery_url(issuer: str) -> str:
    """Return the address of an issuer's metadata."""
    return f"{issuer.removesuffix('/')}/.well-known/openid-configuration"
