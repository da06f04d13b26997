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
        """The value of the HTTP header `WWW-Authenticate`; None if a request cannot be repeated with this method."""
        ...

    @property
    def wanted(self) -> str:
        """What a client without credentials has to do, as text for the error message."""
        ...

    def credentials_of(self, headers: Mapping[str, str], certificate_name: str | None) -> Credentials | None:
        """Return the credentials in an HTTP request for this provider, None if it has none.

        `certificate_name` is the CN of the TLS client certificate, None without one.
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
