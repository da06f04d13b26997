"""Authenticates clients by access tokens of other issuers, such as Keycloak.

Source: Pulsar's `AuthenticationProviderOpenID`.
"""

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.providers.issuer_keys import KeysOfIssuer, KeyTimes
from pulsar_barycenter.broker.access.received_credentials import Credentials, Identity, after_scheme
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.issuer_http import IssuerHttp
from pulsar_barycenter.credentials.issuers import discovery_url
from pulsar_barycenter.credentials.openid import (
    IssuerKeys,
    OpenIDRules,
    check_openid_token,
    claimed,
    issuer_keys,
    keys_url,
    names_allowed_issuer,
)
from pulsar_barycenter.credentials.tokens import Refused


class OpenIDProvider:
    """Checks tokens of the allowed issuers with the keys that the issuers publish."""

    method = "token"
    """The method of Pulsar's OAuth 2.0 clients."""
    invitation = 'Bearer realm="barycenter"'
    wanted = "send the header Authorization: Bearer TOKEN, with an access token of an issuer that this cluster allows"

    def __init__(
        self,
        rules: OpenIDRules,
        http: IssuerHttp,
        times: KeyTimes,
        now_s: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        """`now_s` is a monotonic clock, for the ages of the keys."""
        self._rules = rules
        self._http = http
        self._keys = {issuer: KeysOfIssuer(issuer, self._fetch, times, now_s) for issuer in sorted(rules.issuers)}

    @classmethod
    def of(
        cls, config: BrokerConfig, now_s: Callable[[], float] = lambda: asyncio.get_running_loop().time()
    ) -> "OpenIDProvider":
        """Return a provider from the configuration; this makes no request to an issuer.

        Raises:
            ConfigError: issuers or audiences are missing, or the URL of an issuer is not allowed.
            KeyMaterialError: the file of trusted authorities cannot be used.
        """
        http = IssuerHttp(
            connect_timeout_s=config.openid_http_connection_timeout_millis / 1000,
            read_timeout_s=config.openid_http_read_timeout_millis / 1000,
            trust_file=config.openid_token_issuer_trust_certs_file_path,
            trust_setting="openIDTokenIssuerTrustCertsFilePath",
            asks_https=config.openid_require_issuers_use_https,
            asks_https_elsewhere=config.openid_require_issuers_use_https,
        )
        issuers, audiences = config.openid_allowed_token_issuers, config.openid_allowed_audiences
        if not issuers:
            raise ConfigError(
                "openIDAllowedTokenIssuers", "", "one or several issuers, to authenticate clients by OpenID Connect"
            )
        for issuer in issuers:
            refusal = http.refusal(issuer)
            if refusal is not None or urlsplit(issuer).query or urlsplit(issuer).fragment:
                allowed = "issuers of the form https://host/path (openIDRequireIssuersUseHttps=false allows http)"
                raise ConfigError("openIDAllowedTokenIssuers", issuer.rpartition("@")[2], allowed)
        if not audiences:
            raise ConfigError(
                "openIDAllowedAudiences",
                "",
                "one or several audiences: a token is accepted if its claim aud has one of them",
            )
        http.check()
        return cls(
            OpenIDRules(
                frozenset(issuers),
                frozenset(audiences),
                config.openid_role_claim,
                config.openid_accepted_time_leeway_seconds,
            ),
            http,
            KeyTimes(
                config.openid_cache_refresh_after_write_seconds,
                config.openid_cache_expiration_seconds,
                config.openid_key_id_cache_miss_refresh_seconds,
            ),
            now_s,
        )

    def credentials_of(self, headers: Mapping[str, str], certificate_name: str | None) -> Credentials | None:
        data = after_scheme(headers, "bearer")
        return None if data is None else Credentials(self.method, data)

    def is_of_allowed_issuer(self, token: str) -> bool:
        """Return whether a token names an allowed issuer as the one that issued it. This is not verified here: the
        result only selects the provider that verifies the token.
        """
        return names_allowed_issuer(token, self._rules)

    async def identify(self, credentials: Credentials, now_s: float) -> Identity:
        token = credentials.data.decode("ascii", errors="replace")
        claims = claimed(token, self._rules)
        if isinstance(claims, Refused):
            raise AuthenticationError(claims.reason)
        keys = await self._keys[claims.issuer].for_key(claims.key_id)
        checked = check_openid_token(token, claims, keys, self._rules, now_s)
        if isinstance(checked, Refused):
            raise AuthenticationError(checked.reason)
        return Identity(checked.role, checked.expires_at_s)

    async def close(self) -> None:
        """Cancel requests to issuers. Idempotent."""
        for keys in self._keys.values():
            await keys.close()

    async def _fetch(self, issuer: str) -> IssuerKeys:
        url = keys_url(await self._http.get(discovery_url(issuer)), issuer)
        return issuer_keys(await self._http.get(url), url)
