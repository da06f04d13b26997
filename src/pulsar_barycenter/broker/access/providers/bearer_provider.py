"""Tokens, whoever signed them: this cluster, or an issuer that it allows."""

from collections.abc import Mapping

from pulsar_barycenter.broker.access.providers.openid_provider import OpenIDProvider
from pulsar_barycenter.broker.access.providers.token_provider import TokenProvider
from pulsar_barycenter.broker.access.shown import Identity, Shown
from pulsar_barycenter.config.broker_config import BrokerConfig


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

    @classmethod
    def of(cls, config: BrokerConfig) -> "BearerProvider":
        """Make both.

        Raises:
            ConfigError: keys of broker.conf do not go together.
            KeyMaterialError: a key or file cannot be used.
        """
        return cls(TokenProvider.of(config), OpenIDProvider.of(config))

    def shown_by(self, headers: Mapping[str, str], certificate_name: str | None) -> Shown | None:
        return self._own.shown_by(headers, certificate_name)

    async def identify(self, shown: Shown, now_s: float) -> Identity:
        if self._of_issuers.is_of_allowed_issuer(shown.data.decode("ascii", errors="replace")):
            return await self._of_issuers.identify(shown, now_s)
        return await self._own.identify(shown, now_s)

    async def close(self) -> None:
        await self._of_issuers.close()
