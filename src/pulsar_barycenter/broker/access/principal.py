"""The principal of a request: the result of authentication.

Source: `authRole` and `originalPrincipal` of Pulsar's `ServerCnx`, and `AuthenticationFilter` of its HTTP servers.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Principal:
    """The role of a connection, and, if it is a proxy, the role of the client behind it.

    `role` is the role of the connection itself; None if authentication is off. A client without credentials has the
    role `anonymousUserRole` if that is set.

    `original_role` is the client's role if `role` is one of `proxyRoles`, else None. Both roles need the right for a
    request.
    """

    role: str | None = None
    original_role: str | None = None

    @property
    def is_proxied(self) -> bool:
        """Whether a proxy sent the request for a client."""
        return self.original_role is not None

    @property
    def client_role(self) -> str:
        """The role of the client itself, even if the client connects through a proxy; "" if authentication is off."""
        return self.original_role or self.role or ""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that need the right for the request: none if authentication is off, two behind a proxy."""
        return tuple(role for role in (self.role, self.original_role) if role is not None)

    def __str__(self) -> str:
        """Return the roles as text for logs; nothing in it is secret."""
        return " for ".join(self.roles) or "nobody"


NOBODY: Final = Principal()
"""The principal of every request while authentication is off."""
