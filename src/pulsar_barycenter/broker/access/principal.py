"""Who a request comes from, as authentication found it.

Source: `authRole` and `originalPrincipal` of Pulsar's `ServerCnx`, and `AuthenticationFilter` of its HTTP servers.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Principal:
    """The role of whoever is connected, and of whom it speaks for.

    `role` is that of the connection itself; None where nobody was asked, because authentication is off. A client that
    brought no credentials where `anonymousUserRole` is set has that role.

    `original_role` is only there if `role` is one of `proxyRoles`: the client behind the proxy. Both must be allowed
    what is asked.
    """

    role: str | None = None
    original_role: str | None = None

    @property
    def is_proxied(self) -> bool:
        """Whether a proxy speaks for somebody else."""
        return self.original_role is not None

    @property
    def roles(self) -> tuple[str, ...]:
        """Each role that must be allowed what is asked: none where nobody was asked, two through a proxy."""
        return tuple(role for role in (self.role, self.original_role) if role is not None)

    def __str__(self) -> str:
        """Say it for logs, without anything secret."""
        return " for ".join(self.roles) or "nobody"


NOBODY: Final = Principal()
"""Whom every request comes from while authentication is off."""
