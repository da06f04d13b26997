"""What each way to prove who one is has to answer.

A provider is given what a client shows, and answers with its role or raises.
"""

from collections.abc import Mapping
from typing import Protocol

from pulsar_barycenter.broker.access.shown import Identity, Shown


class Provider(Protocol):
    """One way to prove who one is."""

    @property
    def method(self) -> str:
        """The name that clients of the binary protocol give it."""
        ...

    @property
    def invitation(self) -> str | None:
        """What HTTP says of it in `WWW-Authenticate`; None where a request cannot be repeated with it."""
        ...

    @property
    def wanted(self) -> str:
        """What to do, in words, for whoever shows nothing."""
        ...

    def shown_by(self, headers: Mapping[str, str], certificate_name: str | None) -> Shown | None:
        """Return what an HTTP request shows for this provider, None for nothing."""
        ...

    async def identify(self, shown: Shown, now_s: float) -> Identity:
        """Return who that is.

        Raises:
            AuthenticationError: it is not believed.
        """
        ...

    async def close(self) -> None:
        """Stop what goes on by itself. Idempotent."""
        ...
