"""The address of the metadata that an issuer of tokens publishes, and the maximum sizes of its documents."""

from typing import Final

MAX_URL: Final = 2_000
"""The maximum number of characters of an issuer's address."""
MAX_DOCUMENT_BYTES: Final = 256 << 10
"""The maximum size in bytes of a document that an issuer publishes: its metadata, or its keys."""


def discovery_url(issuer: str) -> str:
    """Return the address of the metadata of an issuer, below its own address."""
    return f"{issuer.removesuffix('/')}/.well-known/openid-configuration"
