"""Access tokens of issuers elsewhere, such as Keycloak. Source: Pulsar's `AuthenticationProviderOpenID`."""

import asyncio
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from pulsar_barycenter.broker.access.errors import AuthenticationError
from pulsar_barycenter.broker.access.providers.issuer_keys import KeysOfIssuer, KeyTimes
from pulsar_barycenter.broker.access.shown import Identity, Shown, after_scheme
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
    """Believes tokens of the allowed issuers by the keys that these publish."""

    method = "token"
    """That of Pulsar's OAuth 2.0 clients."""
    invitation = 'Bearer realm="barycenter"'
    wanted = "send the header Authorization: Bearer TOKEN, with an access token of an issuer that this cluster allows"

    def __init__(
        self,
        rules: OpenIDRules,
        http: IssuerHttp,
        times: KeyTimes,
        now_s: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        """`now_s` is a monotonic clock, by which keys age."""
        self._rules = rules
        self._http = http
        self._keys = {issuer: KeysOfIssuer(issuer, self._fetch, times, now_s) for issuer in sorted(rules.issuers)}

    @classmethod
    def of(
        cls, config: BrokerConfig, now_s: Callable[[], float] = lambda: asyncio.get_running_loop().time()
    ) -> "OpenIDProvider":
        """Make what a configuration says; no issuer is asked yet.

        Raises:
            ConfigError: issuers or audiences are missing, or an issuer cannot be one.
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
                "openIDAllowedTokenIssuers", "", "one or several issuers, for clients to be known by OpenID Connect"
            )
        for issuer in issuers:
            refusal = http.refusal(issuer)
            if refusal is not None or urlsplit(issuer).query or urlsplit(issuer).fragment:
                allowed = "issuers of the form https://host/path (openIDRequireIssuersUseHttps=false allows http)"
                raise ConfigError("openIDAllowedTokenIssuers", issuer.rpartition("@")[2], allowed)
        if not audiences:
            raise ConfigError("openIDAllowedAudiences", "", "what tokens for this cluster have in their claim aud")
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

    def shown_by(self, headers: Mapping[str, str], certificate_name: str | None) -> Shown | None:
        data = after_scheme(headers, "bearer")
        return None if data is None else Shown(self.method, data)

    def is_of_allowed_issuer(self, token: str) -> bool:
        """Whether a token says so, which anybody may write into one: it is to be judged here, and not elsewhere."""
        return names_allowed_issuer(token, self._rules)

    async def identify(self, shown: Shown, now_s: float) -> Identity:
        token = shown.data.decode("ascii", errors="replace")
        said = claimed(token, self._rules)
        if isinstance(said, Refused):
            raise AuthenticationError(said.reason)
        keys = await self._keys[said.issuer].for_key(said.key_id)
        judged = check_openid_token(token, said, keys, self._rules, now_s)
        if isinstance(judged, Refused):
            raise AuthenticationError(judged.reason)
        return Identity(judged.role, judged.expires_at_s)

    async def close(self) -> None:
        """Ask issuers no more. Idempotent."""
        for keys in self._keys.values():
            await keys.close()

    async def _fetch(self, issuer: str) -> IssuerKeys:
        url = keys_url(await self._http.get(discovery_url(issuer)), issuer)
        return issuer_keys(await self._http.get(url), url)
