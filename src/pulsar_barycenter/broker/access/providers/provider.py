"""The interface of a provider: it gets the credentials of a client, and returns its role or raises an error."""

from collections.abc import Mapping
from typing import Protocol

from pulsar_barycenter.broker.access.received_credentials import Credentials, Identity


class Provider(Protocol):
    """One method of authentication, for example by JSON web tokens."""

    @property
    def method(self) -> str:
        """The name of the method in the binary protocol."""
        ...

    @property
    def invitation(self) -> str | None:
        """The value of the HTTP header `WWW-Authenticate`, which asks a client to repeat a refused request with
        credentials of this method. None if the credentials are not in the request itself (TLS client certificates), so
        that a repeated request would not help.
        """
        ...

    @property
    def wanted(self) -> str:
        """What a client that sent no credentials has to send, as a part of the error message for it."""
        ...

    def credentials_of(self, headers: Mapping[str, str], certificate_name: str | None) -> Credentials | None:
        """Return the credentials in an HTTP request that this provider can check; None if the request has no such
        credentials.

        `certificate_name` is the CN of the TLS client certificate; None if the client sent no certificate.
        """
        ...

    async def identify(self, credentials: Credentials, now_s: float) -> Identity:
        """Check credentials and return the identity that they prove; `now_s` is in seconds since 1970.

        Raises:
            AuthenticationError: the credentials are not valid.
        """
        ...

    async def close(self) -> None:
        """Stop background work. Idempotent."""
        ...
