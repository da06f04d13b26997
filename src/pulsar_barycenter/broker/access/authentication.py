"""Authenticates clients of both ports, and the clients behind proxies.

| the client sends                               | result                                                         |
|------------------------------------------------|----------------------------------------------------------------|
| anything, and authentication is off            | NOBODY                                                         |
| valid credentials                              | the role of the credentials                                    |
| credentials that are not valid                 | refused, also if `anonymousUserRole` is set                    |
| none, or by a method that is not configured    | `anonymousUserRole` if it is set, else refused                 |
| credentials of a proxy, and a client's name    | the proxy for this client; refused if the client is a proxy    |
| other valid credentials, and another name      | refused                                                        |

With `authenticateOriginalAuthData` a proxy has to send the credentials of its client; these count instead of the name.
Source: Pulsar's `AuthenticationService`, `ServerCnx.handleConnect` and `AuthorizationService.isValidOriginalPrincipal`.
There invalid credentials in an HTTP request become anonymous if that is allowed, which hides errors of clients.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.broker.access.errors import AuthenticationError, ErrorCode
from pulsar_barycenter.broker.access.principal import NOBODY, Principal
from pulsar_barycenter.broker.access.providers.catalogue import PROVIDERS, providers_of
from pulsar_barycenter.broker.access.providers.provider import Provider
from pulsar_barycenter.broker.access.received_credentials import Credentials, Identity, is_role
from pulsar_barycenter.broker.bounded_log import BoundedLog
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.metadata.clock import Clock

ORIGINAL_PRINCIPAL: Final = "X-Original-Principal"
"""The HTTP header in which a proxy names its client."""

NO_CREDENTIALS: Final = Credentials("none")


@dataclass(frozen=True, slots=True)
class Session:
    """The principal of a connection, and the time when its credentials expire: `expires_at_s`, seconds since 1970;
    None if they do not expire.

    `method` is the authentication method of these credentials. `is_of_original`: the credentials are those of the
    client behind a proxy, not those of the proxy.
    """

    principal: Principal
    method: str = NO_CREDENTIALS.method
    expires_at_s: float | None = None
    is_of_original: bool = False

    @property
    def can_refresh(self) -> bool:
        """Whether the client can send new credentials before these expire. False if a proxy sent only the name of its
        client, without the client's credentials.
        """
        return self.is_of_original or not self.principal.is_proxied


class Authentication:
    """Authenticates the clients of one broker. Its settings do not change while the broker runs."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        clock: Clock,
        *,
        anonymous_role: str = "",
        proxy_roles: frozenset[str] = frozenset(),
        requires_original_credentials: bool = False,
        enabled: bool = True,
    ) -> None:
        """`providers` maps the name of each authentication method to its provider. An HTTP request is authenticated by
        the first provider, in this order, that finds credentials in it.

        `anonymous_role`: the role of a client without credentials; "" means that such a client is refused. Clients with
        one of the `proxy_roles` are proxies. `requires_original_credentials`: a proxy must also send its client's
        credentials, not only the client's name. If `enabled` is False, nothing is checked, and every client is accepted
        without a role.
        """
        self.enabled = enabled
        self.believed: Counter[str] = Counter()
        """The number of valid credentials since the start, by method; a client and its proxy count as two."""
        self.refused: Counter[tuple[str, ErrorCode]] = Counter()
        """The number of refused ones, by method and reason; without usable credentials the method is `none`."""
        self._providers = providers
        self._clock = clock
        self._anonymous_role = anonymous_role
        self._proxy_roles = proxy_roles
        self._requires_original_credentials = requires_original_credentials
        self._refusals = BoundedLog("authentication_refused", self._now_s)

    @classmethod
    def of(cls, config: BrokerConfig, clock: Clock) -> "Authentication":
        """Return the authentication that a configuration describes.

        Raises:
            ConfigError: neither a provider nor `anonymousUserRole` is configured, a provider is unknown, or the values
                of its keys exclude each other.
            KeyMaterialError: a key or file of a provider cannot be used.
        """
        if not config.authentication_enabled:
            return cls({}, clock, enabled=False)
        providers = providers_of(config)
        if not providers and not config.anonymous_user_role:
            raise ConfigError(
                "authenticationProviders",
                "",
                f"one or several of {', '.join(PROVIDERS)}, because authenticationEnabled=true: without a "
                "provider no client could connect",
            )
        return cls(
            providers,
            clock,
            anonymous_role=config.anonymous_user_role,
            proxy_roles=frozenset(config.proxy_roles),
            requires_original_credentials=config.authenticate_original_auth_data,
        )

    @property
    def invitations(self) -> tuple[str, ...]:
        """The values of the HTTP header `WWW-Authenticate` in the answer to a refused request."""
        return tuple(provider.invitation for provider in self._providers.values() if provider.invitation is not None)

    def log_refused(self, error: AuthenticationError, *, address: str, **about: str) -> None:
        """Log that a client was refused, and why. `about` are more fields of the log line. Only a limited number of
        these lines is written in a second; one limit counts the refusals of the binary protocol and of HTTP together.
        """
        self._refusals.log(address=address, **about, reason=str(error))

    async def close(self) -> None:
        """Stop the background tasks of the providers. Idempotent."""
        for provider in self._providers.values():
            await provider.close()

    def has_expired(self, session: Session) -> bool:
        return session.expires_at_s is not None and self._now_s() >= session.expires_at_s

    async def of_connection(
        self,
        credentials: Credentials,
        original: str | None = None,
        original_credentials: Credentials = NO_CREDENTIALS,
    ) -> Session:
        """Authenticate a client of the binary protocol; return its session.

        Only a proxy sends the last two arguments: `original` is the name of its client, `original_credentials` are that
        client's credentials. With `authenticateOriginalAuthData` both the proxy's and the client's credentials must be
        valid; the session then has the client's. Otherwise only the proxy's are checked, and the name is accepted as it
        is.

        Raises:
            AuthenticationError: the client is refused.
        """
        if not self.enabled:
            return Session(NOBODY)
        identity = await self._identify(credentials)
        if original is None or not self._requires_original_credentials:
            principal = self._principal(identity.role, original or None)
            return Session(principal, credentials.method, identity.expires_at_s)
        behind = await self._identify(original_credentials)
        principal = self._principal(identity.role, behind.role)
        return Session(principal, original_credentials.method, behind.expires_at_s, is_of_original=True)

    async def of_http(self, headers: Mapping[str, str], certificate_name: str | None = None) -> Principal:
        """Authenticate an HTTP request; return its principal. `certificate_name`: the CN of the TLS client certificate.

        Raises:
            AuthenticationError: the client is refused.
        """
        if not self.enabled:
            return NOBODY
        found = (provider.credentials_of(headers, certificate_name) for provider in self._providers.values())
        credentials = next((sent for sent in found if sent is not None), NO_CREDENTIALS)
        role = (await self._identify(credentials)).role
        original = headers.get(ORIGINAL_PRINCIPAL) or None
        return self._principal(role, None if original == role else original)

    async def refreshed(self, session: Session, credentials: Credentials) -> Session:
        """Check new credentials that the client of `session` sent, and return a new session. It has the same principal,
        and expires when the new credentials expire.

        Raises:
            AuthenticationError: the credentials are not valid, or prove another role than the present ones.
        """
        identity = await self._identify(credentials)
        before = session.principal
        if identity.role != (before.original_role if session.is_of_original else before.role):
            raise AuthenticationError(
                "the new credentials have another role than the connection: open a new connection with them"
            )
        return Session(before, credentials.method, identity.expires_at_s, session.is_of_original)

    async def _identify(self, credentials: Credentials) -> Identity:
        provider = self._providers.get(credentials.method)
        if provider is not None:
            try:
                identity = await provider.identify(credentials, self._now_s())
            except AuthenticationError as error:
                self.refused[provider.method, error.code] += 1
                raise
            self.believed[provider.method] += 1
            return identity
        if self._anonymous_role:
            return Identity(self._anonymous_role)
        self.refused[NO_CREDENTIALS.method, "AUTH_REQUIRED"] += 1
        wanted = "; or ".join(provider.wanted for provider in self._providers.values())
        raise AuthenticationError(
            f"this broker requires authentication, but the client sent no credentials that it accepts: {wanted}",
            "AUTH_REQUIRED",
        )

    def _principal(self, role: str, original: str | None) -> Principal:
        if role in self._proxy_roles:
            if original is None:
                raise AuthenticationError(
                    f"the role {role!r} is one of proxyRoles, but the name of the client (the original "
                    "principal) is missing: a proxy has to send it"
                )
            if original in self._proxy_roles:
                raise AuthenticationError("the original principal is a proxy: a proxy may only act for a client")
            if not is_role(original):
                raise AuthenticationError("the original principal is not a valid role name")
            return Principal(role, original)
        if original is not None:
            raise AuthenticationError(
                f"the client sent the name of an original principal, but its role {role!r} is not one of "
                "proxyRoles: only a proxy may send such a name"
            )
        return Principal(role)

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000
