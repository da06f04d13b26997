"""Authenticates clients by tokens, of this cluster's own key or of an allowed issuer."""

from collections.abc import Mapping

from pulsar_barycenter.broker.access.providers.openid_provider import OpenIDProvider
from pulsar_barycenter.broker.access.providers.token_provider import TokenProvider
from pulsar_barycenter.broker.access.received_credentials import Credentials, Identity
from pulsar_barycenter.config.broker_config import BrokerConfig


class BearerProvider:
    """Combines the provider for this cluster's own tokens with the provider for the tokens of issuers.

    A token that names an allowed issuer is verified with this issuer's keys only; any other token with this cluster's
    own key only. So a token with a false issuer is invalid. Pulsar's `AuthenticationProviderList` tries both.
    """

    method = "token"
    invitation = OpenIDProvider.invitation
    wanted = f"{TokenProvider.wanted}, or an access token of an issuer that this cluster allows"

    def __init__(self, own: TokenProvider, of_issuers: OpenIDProvider) -> None:
        self._own = own
        self._of_issuers = of_issuers

    @classmethod
    def of(cls, config: BrokerConfig) -> "BearerProvider":
        """Return a provider that combines the two providers, each created from the configuration.

        Raises:
            ConfigError: values in broker.conf exclude each other, or a key is missing.
            KeyMaterialError: a key or file cannot be used.
        """
        return cls(TokenProvider.of(config), OpenIDProvider.of(config))

    def credentials_of(self, headers: Mapping[str, str], certificate_name: str | None) -> Credentials | None:
        return self._own.credentials_of(headers, certificate_name)

    async def identify(self, credentials: Credentials, now_s: float) -> Identity:
        if self._of_issuers.is_of_allowed_issuer(credentials.data.decode("ascii", errors="replace")):
            return await self._of_issuers.identify(credentials, now_s)
        return await self._own.identify(credentials, now_s)

    async def close(self) -> None:
        await self._of_issuers.close()
