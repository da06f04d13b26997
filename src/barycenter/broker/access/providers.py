"""The ways to prove who one is, each a provider as Pulsar calls it.

A provider is given what a client shows, and answers with its role or raises. Names are those of Pulsar's classes, which
`authenticationProviders` lists, or the methods of the binary protocol.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from barycenter.broker.access.basic_provider import BasicProvider
from barycenter.broker.access.errors import AuthenticationError
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


PROVIDERS: Final[Mapping[str, Callable[[BrokerConfig], Provider]]] = {
    "token": TokenProvider.of,
    "tls": TlsProvider.of,
    "basic": BasicProvider.of,
}
"""By method; `AuthenticationProvider` and the method is the name of Pulsar's class."""


def method_of(name: str) -> str:
    """Return the method that an entry of `authenticationProviders` means.

    Raises:
        ConfigError: there is none of that name.
    """
    method = name.rpartition(".")[2].lower().removeprefix("authenticationprovider")
    if method not in PROVIDERS:
        raise ConfigError("authenticationProviders", name, f"one or several of {', '.join(PROVIDERS)}")
    return method
