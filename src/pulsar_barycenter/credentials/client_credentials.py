"""Tokens that an issuer gives to a client in exchange for the client's id and secret: the *client credentials* flow of
OAuth 2.0.

The parameters are those of Pulsar's clients, as one JSON object:

| parameter | meaning |
|---|---|
| `type` | `client_credentials`, or absent |
| `issuerUrl` | the issuer, whose metadata has its token endpoint |
| `privateKey` | `file:///path`, or `data:application/json;base64,…`: an object with `client_id` and `client_secret` |
| `audience`, `scope` | for what the token shall be valid; both optional |
| `trustCertsFilePath` | PEM file of the authorities of the issuer's certificate; blank: the system's |
| `wellKnownMetadataPath` | path of the metadata below the issuer; `/.well-known/openid-configuration` |
| `connectTimeout`, `readTimeout` | whole seconds as `PT10S`, `PT30S`, which are the defaults |

`issuer_url` and `private_key`, the names of the C++ and Python clients, are accepted too. A token is used for 90 % of
its lifetime. The secret is sent by https only, or to loopback; redirects are not followed.

Source: `AuthenticationOAuth2`, `ClientCredentialsFlow`, `TokenClient` of `org.apache.pulsar.client.impl.auth.oauth2`,
and RFC 6749, section 4.4. One difference: http is allowed only to loopback, unless `barycenterHttpAllowed` is `true`.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pulsar_barycenter.credentials.bounds import MAX_TOKEN
from pulsar_barycenter.credentials.errors import IssuerError, KeyMaterialError, NoTokenError
from pulsar_barycenter.credentials.issuer_http import IssuerHttp
from pulsar_barycenter.credentials.issuers import MAX_URL, discovery_url
from pulsar_barycenter.credentials.key_material import read_key_material

USED_FOR: Final = 0.9
"""The fraction of a token's lifetime after which a new token is requested."""
MAX_TEXT: Final = 2_000
"""The maximum number of characters of a parameter, of a client id and of a client secret."""

_UNSTATED_LIFETIME_S: Final = 60.0
"""The lifetime in seconds of a token, if the issuer states none."""
_LONGEST_LIFETIME_S: Final = 366 * 86_400.0
_RETRY_S: Final = 1.0
"""After an issuer refused a token, the number of seconds in which no other is requested."""
_CLIENT_CREDENTIALS: Final = "client_credentials"
_SECONDS: Final = re.compile(r"PT(\d{1,3})S", re.ASCII)
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,50}", re.ASCII)
_NAMES_OF_CPP: Final = {"issuer_url": "issuerUrl", "private_key": "privateKey"}
_EXAMPLE: Final = '{"issuerUrl": "https://issuer", "privateKey": "file:///path/credentials.json", "audience": "…"}'


class _KeyFile(msgspec.Struct):
    client_id: str
    client_secret: str
    type: str = _CLIENT_CREDENTIALS


class _TokenAnswer(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The parameters of a token request. `setting` is the setting that contains them, for messages."""

    issuer: str
    private_key: str = field(repr=False)
    audience: str
    scope: str
    metadata_url: str
    http: IssuerHttp
    setting: str

    @classmethod
    def of(cls, parameters: str, setting: str) -> "ClientCredentials":
        """Parse the parameters of a token request, and check that the key file that they name can be read.

        Raises:
            KeyMaterialError: the parameters are invalid, or a file cannot be read.
        """
        given = _parameters(parameters, setting)
        issuer = _required(given, "issuerUrl", setting)
        path = given.get("wellKnownMetadataPath", "")
        made = cls(
            issuer,
            _required(given, "privateKey", setting),
            given.get("audience", ""),
            given.get("scope", ""),
            f"{issuer.removesuffix('/')}/{path.removeprefix('/')}" if path else discovery_url(issuer),
            IssuerHttp(
                connect_timeout_s=_timeout_s(given, "connectTimeout", 10, setting),
                read_timeout_s=_timeout_s(given, "readTimeout", 30, setting),
                trust_file=given.get("trustCertsFilePath", ""),
                trust_setting=setting,
                asks_https=False,
                asks_https_elsewhere=given.get("barycenterHttpAllowed") != "true",
            ),
            setting,
        )
        if (refusal := made.http.refusal(issuer)) is not None:
            raise KeyMaterialError(setting, f"issuerUrl {refusal}. Give the https address of the issuer")
        made.http.check()
        made.key_file()
        return made

    def key_file(self) -> _KeyFile:
        """Read the client id and the client secret, which may have changed since the last call.

        Raises:
            KeyMaterialError: the file or the data cannot be read, or has no id and secret.
        """
        data = read_key_material(self.private_key, f"{self.setting}, privateKey")
        wanted = 'write {"type": "client_credentials", "client_id": "…", "client_secret": "…"} into privateKey'
        try:
            found = msgspec.json.decode(data, type=_KeyFile)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise KeyMaterialError(self.setting, wanted) from None
        if found.type != _CLIENT_CREDENTIALS or not all(
            0 < len(text) <= MAX_TEXT for text in (found.client_id, found.client_secret)
        ):
            raise KeyMaterialError(self.setting, wanted)
        return found

    async def token(self) -> tuple[str, float]:
        """Request a token from the issuer; return the token and its lifetime in seconds.

        Raises:
            NoTokenError: the issuer cannot be reached, or refuses.
            KeyMaterialError: a file cannot be read any more.
        """
        key_file = self.key_file()
        form = {
            "grant_type": _CLIENT_CREDENTIALS,
            "client_id": key_file.client_id,
            "client_secret": key_file.client_secret,
            "audience": self.audience,
            "scope": self.scope,
        }
        try:
            endpoint = _token_endpoint(await self.http.get(self.metadata_url), self.metadata_url)
            status, body = await self.http.post(endpoint, {name: given for name, given in form.items() if given})
            return _token(status, body, endpoint)
        except IssuerError as error:
            raise NoTokenError(self.setting, f"no token was obtained from the issuer: {error}") from error


class ObtainedToken:
    """The current token from an issuer. `renew` replaces it before it expires. Times are seconds of the event loop's
    clock.

    Only one request runs at a time; concurrent callers wait for its answer.
    """

    def __init__(
        self, credentials: ClientCredentials, now_s: Callable[[], float] = lambda: asyncio.get_running_loop().time()
    ) -> None:
        self.credentials = credentials
        self._now_s = now_s
        self._token = ""
        self._used_until_s = 0.0
        self._ends_s = 0.0
        self._failure: NoTokenError | None = None
        self._failed_s = 0.0
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def token(self) -> str:
        """The token that the issuer gave last, also if it has expired or a later request failed.

        Raises:
            NoTokenError: the issuer has not given a token yet.
        """
        if not self._token:
            raise self._failure or NoTokenError(
                self.credentials.setting, "there is no token yet: the issuer has not given one"
            )
        return self._token

    async def renew(self, *, not_this: str | None = None) -> None:
        """Ensure that there is a token which does not expire soon. A token equal to `not_this`, which a broker refused,
        is replaced too.

        If no new token can be obtained, the current token is used until it expires, unless it is equal to `not_this`.

        Raises:
            NoTokenError, KeyMaterialError: there is no valid token.
        """
        if self._is_good(not_this, self._used_until_s):
            return
        async with self._lock():
            if self._is_good(not_this, self._used_until_s):
                return
            try:
                await self._obtain()
            except KeyMaterialError:
                if not self._is_good(not_this, self._ends_s):
                    raise

    async def _obtain(self) -> None:
        if self._failure is not None and self._now_s() - self._failed_s < _RETRY_S:
            raise NoTokenError(self._failure.setting, self._failure.detail)
        try:
            token, lifetime_s = await self.credentials.token()
        except NoTokenError as error:
            self._failure, self._failed_s = error, self._now_s()
            raise
        self._failure = None
        self._token = token
        self._used_until_s = self._now_s() + USED_FOR * lifetime_s
        self._ends_s = self._now_s() + lifetime_s

    def _is_good(self, not_this: str | None, until_s: float) -> bool:
        return bool(self._token) and self._token != not_this and self._now_s() < until_s

    def _lock(self) -> asyncio.Lock:
        """Return a lock for the event loop that runs now. A command runs several event loops, one after the other."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = (loop, asyncio.Lock())
        return self._turn[1]


def _parameters(text: str, setting: str) -> Mapping[str, str]:
    try:
        given = msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError):
        raise KeyMaterialError(setting, f"the parameters are not a JSON object; write {_EXAMPLE}") from None
    given = {_NAMES_OF_CPP.get(name, name): value.strip() for name, value in given.items()}
    if given.get("type", _CLIENT_CREDENTIALS) != _CLIENT_CREDENTIALS:
        raise KeyMaterialError(setting, "the parameter type must be client_credentials")
    if given.get("tokenEndpointAuthMethod", "client_secret_post") != "client_secret_post":
        raise KeyMaterialError(setting, "the parameter tokenEndpointAuthMethod must be client_secret_post")
    if any(len(value) > MAX_TEXT for name, value in given.items() if name != "privateKey"):
        raise KeyMaterialError(setting, f"a parameter has more than {MAX_TEXT:,} characters")
    return given


def _required(given: Mapping[str, str], name: str, setting: str) -> str:
    if not given.get(name):
        raise KeyMaterialError(setting, f"{name} is missing; write {_EXAMPLE}")
    return given[name]


def _timeout_s(given: Mapping[str, str], name: str, usual_s: float, setting: str) -> float:
    if not given.get(name):
        return usual_s
    found = _SECONDS.fullmatch(given[name])
    if found is None or int(found[1]) == 0:
        raise KeyMaterialError(
            setting, f"{name} must be a whole number of seconds between PT and S, from PT1S to PT999S, such as PT30S"
        )
    return float(found[1])


def _token_endpoint(document: bytes, url: str) -> str:
    try:
        endpoint = msgspec.json.decode(document, type=dict[str, object]).get("token_endpoint")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise IssuerError(url, "is not a JSON object") from None
    if not isinstance(endpoint, str) or not 0 < len(endpoint) <= MAX_URL:
        raise IssuerError(url, "has no token_endpoint")
    return endpoint


def _token(status: int, body: bytes, url: str) -> tuple[str, float]:
    if status != 200:
        raise IssuerError(
            url,
            f"refused the request for a token with status {status}{_error_code(body)}; check the client's id and "
            "secret, and the audience",
        )
    try:
        answer = msgspec.json.decode(body, type=_TokenAnswer, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise IssuerError(url, "returned no access_token") from None
    token, lifetime_s = answer.access_token, answer.expires_in
    if not 0 < len(token) <= MAX_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise IssuerError(
            url,
            f"returned an access_token that cannot be used: it must have 1 to {MAX_TOKEN:,} printable ASCII characters"
            " and no blanks",
        )
    return token, min(max(_UNSTATED_LIFETIME_S if lifetime_s is None else lifetime_s, 0.0), _LONGEST_LIFETIME_S)


def _error_code(body: bytes) -> str:
    """Return the field `error` of an issuer's answer, such as invalid_client, as text for a message.

    Other content of the answer is not returned, because it may contain anything.
    """
    try:
        code = msgspec.json.decode(body, type=dict[str, object]).get("error")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return f" ({code})" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
