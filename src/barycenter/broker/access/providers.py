"""The ways to prove who one is, each a provider as Pulsar calls it.

A provider is given what a client shows, and answers with its role or raises. Names are those of Pulsar's classes, which
`authenticationProviders` lists, or in short. Two have the method `token` of the binary protocol, and `Bearer` of HTTP.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from barycenter.broker.access.basic_provider import BasicProvider
from barycenter.broker.access.errors import AuthenticationError
from barycenter.broker.access.openid_provider import OpenIDProvider
from barycenter.broker.access.shown import Identity, Shown, after_scheme, is_role
from barycenter.config.broker_conf import ConfigError
from barycenter.config.broker_config import BrokerConfig
from barycenter.credentials.token_keys import VerifyingKey, public_key, secret_key
from barycenter.credentials.tokens import Refused, TokenRules, verdict


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


class TokenProvider:
    """JSON Web Tokens. Source: Pulsar's `AuthenticationProviderToken`."""

    method = "token"
    invitation = 'Bearer realm="barycenter"'
    wanted = "send the header Authorization: Bearer TOKEN (barycenter tokens create makes a token)"

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules

    @classmethod
    def of(cls, config: BrokerConfig) -> "TokenProvider":
        """Read the key that the configuration names.

        Raises:
            ConfigError: keys of broker.conf do not go together.
            KeyMaterialError: the key cannot be used.
        """
        if bool(config.token_audience) != bool(config.token_audience_claim):
            raise ConfigError(
                "tokenAudience", config.token_audience, "set together with tokenAudienceClaim, or neither"
            )
        return cls(
            TokenRules(
                _token_key(config),
                role_claim=config.token_auth_claim,
                audience_claim=config.token_audience_claim,
                audience=config.token_audience,
                clock_skew_s=config.token_allowed_clock_skew_seconds,
            )
        )

    def shown_by(self, headers: Mapping[str, str], certificate_name: str | None) -> Shown | None:
        data = after_scheme(headers, "bearer")
        return None if data is None else Shown(self.method, data)

    async def identify(self, shown: Shown, now_s: float) -> Identity:
        judged = verdict(shown.data.decode("ascii", errors="replace"), self._rules, now_s)
        if isinstance(judged, Refused):
            raise AuthenticationError(judged.reason, "INVALID_TOKEN" if shown.data else "INVALID_AUTH_DATA")
        return Identity(judged.role, judged.expires_at_s)

    async def close(self) -> None:
        """Nothing goes on by itself."""


def _token_key(config: BrokerConfig) -> VerifyingKey:
    if bool(config.token_secret_key) == bool(config.token_public_key):
        raise ConfigError(
            "tokenPublicKey",
            config.token_public_key,
            "given, or else tokenSecretKey, for clients to be known by tokens: one of both. "
            "barycenter tokens create-secret-key, or create-key-pair, makes one",
        )
    if config.token_secret_key:
        return secret_key(config.token_secret_key)
    return public_key(config.token_public_key, config.token_public_alg)


class TlsProvider:
    """Certificates of a trusted authority; the role is the CN. Source: Pulsar's `AuthenticationProviderTls`."""

    method = "tls"
    invitation = None
    wanted = "connect by TLS with a certificate of an authority that this cluster trusts"

    @classmethod
    def of(cls, config: BrokerConfig) -> "TlsProvider":
        """Check that clients are asked for a certificate at all.

        Raises:
            ConfigError: they are not.
        """
        if not config.tls_trust_certs_file_path or config.tls_allow_insecure_connection:
            raise ConfigError(
                "tlsTrustCertsFilePath",
                config.tls_trust_certs_file_path,
                "given, and tlsAllowInsecureConnection=false, for clients to be known by certificates",
            )
        return cls()

    def shown_by(self, headers: Mapping[str, str], certificate_name: str | None) -> Shown | None:
        return None if certificate_name is None else Shown(self.method, certificate_name=certificate_name)

    async def identify(self, shown: Shown, now_s: float) -> Identity:
        if shown.certificate_name is None:
            raise AuthenticationError(
                "there is no certificate with a common name, or no TLS; " + self.wanted, "INVALID_CERTS"
            )
        if not is_role(shown.certificate_name):
            raise AuthenticationError("the common name of the certificate is no name of a role", "INVALID_CN")
        return Identity(shown.certificate_name)

    async def close(self) -> None:
        """Nothing goes on by itself."""


class BearerProvider:
    """Tokens of this cluster's own key beside those of issuers.

    A token of an allowed issuer, by what it says of itself, is judged by that issuer's keys alone, any other by the own
    key alone: who says the wrong thing is not believed. Pulsar's `AuthenticationProviderList` tries both.
    """

    method = "token"
    invitation = OpenIDProvider.invitation
    wanted = f"{TokenProvider.wanted}, or an access token of an issuer that this cluster allows"

    def __init__(self, own: TokenProvider, of_issuers: OpenIDProvider) -> None:
        self._own = own
        self._of_issuers = of_issuers

    def shown_by(self, headers: Mapping[str, str], certificate_name: str | None) -> Shown | None:
        return self._own.shown_by(headers, certificate_name)

    async def identify(self, shown: Shown, now_s: float) -> Identity:
        if self._of_issuers.is_of_allowed_issuer(shown.data.decode("ascii", errors="replace")):
            return await self._of_issuers.identify(shown, now_s)
        return await self._own.identify(shown, now_s)

    async def close(self) -> None:
        await self._of_issuers.close()


PROVIDERS: Final[Mapping[str, Callable[[BrokerConfig], Provider]]] = {
    "token": TokenProvider.of,
    "tls": TlsProvider.of,
    "basic": BasicProvider.of,
    "openid": OpenIDProvider.of,
}
"""By short name; `AuthenticationProvider` and that is the name of Pulsar's class."""


def providers_of(config: BrokerConfig) -> Mapping[str, Provider]:
    """Return the providers that a configuration names by the methods of the binary protocol, in its order.

    Raises:
        ConfigError: there is none of a name, or its keys do not go together.
        KeyMaterialError: a key or file of a provider cannot be used.
    """
    found: dict[str, Provider] = {}
    for name in dict.fromkeys(short_name_of(each) for each in config.authentication_providers):
        made = PROVIDERS[name](config)
        before = found.get(made.method)
        for own, of_issuers in ((before, made), (made, before)):
            if isinstance(own, TokenProvider) and isinstance(of_issuers, OpenIDProvider):
                made = BearerProvider(own, of_issuers)
                break
        found[made.method] = made
    return found


def short_name_of(name: str) -> str:
    """Return which of PROVIDERS an entry of `authenticationProviders` means.

    Raises:
        ConfigError: there is none of that name.
    """
    method = name.rpartition(".")[2].lower().removeprefix("authenticationprovider")
    if method not in PROVIDERS:
        raise ConfigError("authenticationProviders", name, f"one or several of {', '.join(PROVIDERS)}")
    return method
