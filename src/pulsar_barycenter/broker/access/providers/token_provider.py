"""Authenticates clients by JSON Web Tokens that this cluster's own key signed."""

from collections.abc import Mapping

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.received_credentials import Credentials, Identity, after_scheme
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.token_keys import VerifyingKey, public_key, secret_key
from pulsar_barycenter.credentials.tokens import Refused, TokenRules, check_token


class TokenProvider:
    """Checks the signature and the claims of a token. Source: Pulsar's `AuthenticationProviderToken`."""

    method = "token"
    invitation = 'Bearer realm="barycenter"'
    wanted = "send the header Authorization: Bearer TOKEN (barycenter tokens create makes a token)"

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules

    @classmethod
    def of(cls, config: BrokerConfig) -> "TokenProvider":
        """Return a provider with the key that the configuration names.

        Raises:
            ConfigError: values in broker.conf exclude each other, or there is no key.
            KeyMaterialError: the key cannot be used.
        """
        if bool(config.token_audience) != bool(config.token_audience_claim):
            raise ConfigError(
                "tokenAudience",
                config.token_audience,
                "set if tokenAudienceClaim is set, and blank if tokenAudienceClaim is blank",
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

    def credentials_of(self, headers: Mapping[str, str], certificate_name: str | None) -> Credentials | None:
        data = after_scheme(headers, "bearer")
        return None if data is None else Credentials(self.method, data)

    async def identify(self, credentials: Credentials, now_s: float) -> Identity:
        judged = check_token(credentials.data.decode("ascii", errors="replace"), self._rules, now_s)
        if isinstance(judged, Refused):
            raise AuthenticationError(judged.reason, "INVALID_TOKEN" if credentials.data else "INVALID_AUTH_DATA")
        return Identity(judged.role, judged.expires_at_s)

    async def close(self) -> None:
        """Do nothing: this provider has no background work."""


def _token_key(config: BrokerConfig) -> VerifyingKey:
    if bool(config.token_secret_key) == bool(config.token_public_key):
        raise ConfigError(
            "tokenPublicKey",
            config.token_public_key,
            "set if tokenSecretKey is blank, and blank if tokenSecretKey is set: exactly one of both keys "
            "verifies tokens. `barycenter tokens create-secret-key` and `create-key-pair` create keys",
        )
    if config.token_secret_key:
        return secret_key(config.token_secret_key)
    return public_key(config.token_public_key, config.token_public_alg)
