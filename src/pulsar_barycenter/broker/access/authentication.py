"""Finds out who a client is, for both ports: what it shows, and for whom it speaks if it is a proxy.

| it shows                                       | it is                                                     |
|------------------------------------------------|-----------------------------------------------------------|
| anything, and authentication is off            | nobody                                                    |
| a proof that a provider believes               | the role that it proves                                   |
| a proof that is not believed                   | refused, whatever `anonymousUserRole` says                |
| nothing, or by a method that is not configured | `anonymousUserRole` if there is one, else refused         |
| the proof of a proxy, and a name               | the proxy for that name, which must not be a proxy        |
| the proof of somebody else, and another name   | refused                                                   |

With `authenticateOriginalAuthData` a proxy has to show its client's proof, and that counts instead of the name.
Source: Pulsar's `AuthenticationService`, `ServerCnx.handleConnect` and `AuthorizationService.isValidOriginalPrincipal`.
There a wrong proof sent by HTTP is anonymous where others may be, which hides mistakes.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pulsar_barycenter.broker.access.errors import AuthenticationError, ErrorCode
from pulsar_barycenter.broker.access.principal import NOBODY, Principal
from pulsar_barycenter.broker.access.providers.catalogue import PROVIDERS, providers_of
from pulsar_barycenter.broker.access.providers.provider import Provider
from pulsar_barycenter.broker.access.shown import Identity, Shown, is_role
from pulsar_barycenter.broker.bounded_log import BoundedLog
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.metadata.clock import Clock

ORIGINAL_PRINCIPAL: Final = "X-Original-Principal"
"""The header of HTTP in which a proxy names its client."""

NOTHING_SHOWN: Final = Shown("none")


@dataclass(frozen=True, slots=True)
class Session:
    """Who is connected. `expires_at_s` is when a proof ends to be one, None for never.

    `method` is that of the proof that ends, and `is_of_original` whether it is the one of the client behind a proxy;
    `can_refresh` is false where a proxy's client was only named, so that nobody could show more of it.
    """

    principal: Principal
    method: str = NOTHING_SHOWN.method
    expires_at_s: float | None = None
    is_of_original: bool = False

    @property
    def can_refresh(self) -> bool:
        return self.is_of_original or not self.principal.is_proxied


class Authentication:
    """Made once for a broker by `of`; its settings do not change while it runs."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        clock: Clock,
        *,
        anonymous_role: str = "",
        proxy_roles: frozenset[str] = frozenset(),
        asks_proof_of_original: bool = False,
        enabled: bool = True,
    ) -> None:
        """`providers` are by their methods, in the order in which HTTP requests are held against them."""
        self.enabled = enabled
        self.believed: Counter[str] = Counter()
        """How many proofs were believed since the start, by method; one of a client and of its proxy are two."""
        self.refused: Counter[tuple[str, ErrorCode]] = Counter()
        """How many were not, by method and reason; `none` is the method of whoever shows nothing that is asked for."""
        self._providers = providers
        self._clock = clock
        self._anonymous_role = anonymous_role
        self._proxy_roles = proxy_roles
        self._asks_proof_of_original = asks_proof_of_original
        self._refusals = BoundedLog("authentication_refused", self._now_s)

    @classmethod
    def of(cls, config: BrokerConfig, clock: Clock) -> "Authentication":
        """Make what a configuration says.

        Raises:
            ConfigError: a provider is missing or not known, or its keys do not go together.
            KeyMaterialError: a key or file of a provider cannot be used.
        """
        if not config.authentication_enabled:
            return cls({}, clock, enabled=False)
        providers = providers_of(config)
        if not providers and not config.anonymous_user_role:
            raise ConfigError(
                "authenticationProviders",
                "",
                f"one or several of {', '.join(PROVIDERS)} where authenticationEnabled=true: nobody could come in",
            )
        return cls(
            providers,
            clock,
            anonymous_role=config.anonymous_user_role,
            proxy_roles=frozenset(config.proxy_roles),
            asks_proof_of_original=config.authenticate_original_auth_data,
        )

    @property
    def invitations(self) -> tuple[str, ...]:
        """What HTTP tells whoever is refused in `WWW-Authenticate`."""
        return tuple(each.invitation for each in self._providers.values() if each.invitation is not None)

    def tell_refused(self, error: AuthenticationError, *, address: str, **about: str) -> None:
        """Say in the log who was not let in and why; strangers at both ports together are told so many times."""
        self._refusals.tell(address=address, **about, reason=str(error))

    async def close(self) -> None:
        """Stop what providers do by themselves. Idempotent."""
        for each in self._providers.values():
            await each.close()

    def has_expired(self, session: Session) -> bool:
        return session.expires_at_s is not None and self._now_s() >= session.expires_at_s

    async def of_connection(
        self, shown: Shown, original: str | None = None, shown_of_original: Shown = NOTHING_SHOWN
    ) -> Session:
        """Return who a client of the binary protocol is; `original` and what is shown of it come from a proxy.

        Raises:
            AuthenticationError: it is not let in.
        """
        if not self.enabled:
            return Session(NOBODY)
        identity = await self._identify(shown)
        if original is None or not self._asks_proof_of_original:
            principal = self._principal(identity.role, original or None)
            return Session(principal, shown.method, identity.expires_at_s)
        behind = await self._identify(shown_of_original)
        principal = self._principal(identity.role, behind.role)
        return Session(principal, shown_of_original.method, behind.expires_at_s, is_of_original=True)

    async def of_http(self, headers: Mapping[str, str], certificate_name: str | None = None) -> Principal:
        """Return who an HTTP request comes from; `certificate_name` is the CN that its connection showed by TLS.

        Raises:
            AuthenticationError: it is not let in.
        """
        if not self.enabled:
            return NOBODY
        shows = (one.shown_by(headers, certificate_name) for one in self._providers.values())
        shown = next((each for each in shows if each is not None), NOTHING_SHOWN)
        role = (await self._identify(shown)).role
        original = headers.get(ORIGINAL_PRINCIPAL) or None
        return self._principal(role, None if original == role else original)

    async def refreshed(self, session: Session, shown: Shown) -> Session:
        """Return a session that goes on by a new proof of the same role.

        Raises:
            AuthenticationError: the proof is not believed, or is of another role.
        """
        identity = await self._identify(shown)
        before = session.principal
        if identity.role != (before.original_role if session.is_of_original else before.role):
            raise AuthenticationError("the new proof is of another role than the one that was connected with")
        return Session(before, shown.method, identity.expires_at_s, session.is_of_original)

    async def _identify(self, shown: Shown) -> Identity:
        provider = self._providers.get(shown.method)
        if provider is not None:
            try:
                identity = await provider.identify(shown, self._now_s())
            except AuthenticationError as error:
                self.refused[provider.method, error.code] += 1
                raise
            self.believed[provider.method] += 1
            return identity
        if self._anonymous_role:
            return Identity(self._anonymous_role)
        self.refused[NOTHING_SHOWN.method, "AUTH_REQUIRED"] += 1
        wanted = "; or ".join(each.wanted for each in self._providers.values())
        raise AuthenticationError(f"This broker asks who you are: {wanted}", "AUTH_REQUIRED")

    def _principal(self, role: str, original: str | None) -> Principal:
        if role in self._proxy_roles:
            if original is None:
                raise AuthenticationError("a proxy has to say for whom it speaks: its original principal is missing")
            if original in self._proxy_roles:
                raise AuthenticationError("a proxy may not speak for another one: its original principal is a proxy")
            if not is_role(original):
                raise AuthenticationError("the original principal is no name of a role")
            return Principal(role, original)
        if original is not None:
            raise AuthenticationError("only one of proxyRoles may speak for somebody else")
        return Principal(role)

    def _now_s(self) -> float:
        return self._clock.now_ms() / 1000
