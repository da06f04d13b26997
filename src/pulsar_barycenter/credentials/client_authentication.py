"""How a client of brokers authenticates. The names of the plugins and their parameters are those of Pulsar's clients.

| plugin                            | parameters                                                       |
|-----------------------------------|------------------------------------------------------------------|
| `…AuthenticationToken`, `token`   | `token:TEXT`, `file:///path`, or `{"token": "TEXT"}`             |
| `…AuthenticationBasic`, `basic`   | `{"userId": "NAME", "password": "TEXT"}`                         |
| `…AuthenticationTls`, `tls`       | `tlsCertFile:/path,tlsKeyFile:/path`: the certificate, by TLS    |
| `…AuthenticationOAuth2`, `oauth2` | those of `client_credentials`: a token from an issuer            |
| blank                             | none: no credentials                                             |

A token file is read at each use, because it may be renewed. `renew` obtains a token from an issuer; await it before
each use.

Source: the classes of `org.apache.pulsar.client.impl.auth`.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pulsar_barycenter.credentials.client_credentials import ClientCredentials, ObtainedToken
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.key_material import path_of_url, read_file

PLUGINS: Final = {
    "authenticationtoken": "token",
    "authenticationbasic": "basic",
    "authenticationtls": "tls",
    "authenticationoauth2": "oauth2",
}

NO_METHOD: Final = "none"
"""The name of the authentication method in the binary protocol for a client without credentials."""


class _User(msgspec.Struct, rename="camel"):
    user_id: str
    password: str


@dataclass(frozen=True, slots=True)
class ClientAuthentication:
    """The credentials of a client. `method` is the name of the authentication method in the binary protocol.

    Created by `parse_authentication`.
    """

    method: str = NO_METHOD
    secret: str = field(default="", repr=False)
    token_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    setting: str = ""
    obtained: ObtainedToken | None = field(default=None, repr=False)

    async def renew(self, *, not_this: bytes | None = None) -> None:
        """Obtain a new token from the issuer if there is no token, if the current one expires soon, or if the current
        one is equal to `not_this`, which a broker has refused. Without an issuer, do nothing.

        Raises:
            KeyMaterialError: no token can be obtained.
        """
        if self.obtained is not None:
            await self.obtained.renew(not_this=None if not_this is None else not_this.decode())

    def token_in_thread(self) -> str:
        """Return the current token, for a client that uses threads. Do not call this in a thread that runs an event
        loop.

        Raises:
            KeyMaterialError: no token can be obtained.
        """
        if self.obtained is not None:
            asyncio.run(self.renew())
        return self._text()

    def auth_data(self) -> bytes | None:
        """Return the credentials to send in the CONNECT command, None if there are none.

        Raises:
            KeyMaterialError: the token file cannot be read, or no token was obtained.
        """
        text = self._text()
        return text.encode() if text else None

    def headers(self) -> Mapping[str, str]:
        """Return the headers that authenticate an HTTP request.

        Raises:
            KeyMaterialError: the token file cannot be read, or no token was obtained.
        """
        if self.method == "token":
            return {"Authorization": f"Bearer {self._text()}"}
        if self.method == "basic":
            return {"Authorization": f"Basic {base64.b64encode(self._text().encode()).decode()}"}
        return {}

    def _text(self) -> str:
        if self.obtained is not None:
            return self.obtained.token
        if not self.token_file:
            return self.secret
        data = read_file(path_of_url(self.token_file), self.setting)
        try:
            return _token(data.decode("ascii").strip(), self.setting)
        except UnicodeDecodeError:
            raise KeyMaterialError(self.setting, f"{self.token_file} does not contain a token") from None


NO_AUTHENTICATION: Final = ClientAuthentication()


def parse_authentication(
    plugin: str, parameters: str, setting: str = "brokerClientAuthenticationParameters"
) -> ClientAuthentication:
    """Parse the name of an authentication plugin and its parameters. `setting` names the setting with the parameters,
    for messages.

    Raises:
        KeyMaterialError: the plugin is unknown, or the parameters are invalid.
    """
    if not plugin:
        return NO_AUTHENTICATION
    name = plugin.rpartition(".")[2].lower()
    method = PLUGINS.get(name, name)
    if method == "token":
        return _of_token(parameters, setting)
    if method == "basic":
        user = _user(parameters, setting)
        if ":" in user.user_id:
            raise KeyMaterialError(setting, "userId must not contain a colon")
        return ClientAuthentication("basic", secret=f"{user.user_id}:{user.password}", setting=setting)
    if method == "tls":
        pairs = dict(pair.strip().split(":", 1) for pair in parameters.split(",") if ":" in pair)
        if not pairs.keys() >= {"tlsCertFile", "tlsKeyFile"}:
            raise KeyMaterialError(
                setting,
                "certificate and key are not given in the required form; write "
                "tlsCertFile:/path/cert.pem,tlsKeyFile:/path/key.pem",
            )
        return ClientAuthentication(
            "tls", certificate_file=pairs["tlsCertFile"], key_file=pairs["tlsKeyFile"], setting=setting
        )
    if method == "oauth2":
        obtained = ObtainedToken(ClientCredentials.of(parameters, setting))
        return ClientAuthentication("token", setting=setting, obtained=obtained)
    raise KeyMaterialError(setting, f"the plugin {plugin[:200]!r} is unknown; known are token, basic, tls and oauth2")


def parse_authentication_text(text: str, setting: str) -> ClientAuthentication:
    """Parse credentials that come without the name of an authentication plugin.

    The text is a token, as `parse_authentication` parses it, or the OAuth 2.0 parameters (JSON) to get one from an
    issuer.

    Raises:
        KeyMaterialError: the text is neither.
    """
    is_of_issuer = text.startswith("{") and ('"issuerUrl"' in text or '"issuer_url"' in text)
    return parse_authentication("oauth2" if is_of_issuer else "token", text, setting)


def is_no_less_secret(scheme: str, url: str) -> bool:
    """Return whether credentials that a client sent by `scheme` (http or https) may be sent on to `url`.

    Credentials that came by TLS may be sent on by TLS only.

    Raises:
        ValueError: `url` is not a URL.
    """
    return scheme != "https" or urlsplit(url).scheme == "https"


def _of_token(parameters: str, setting: str) -> ClientAuthentication:
    if parameters.startswith("file:"):
        made = ClientAuthentication("token", token_file=parameters, setting=setting)
        made.auth_data()
        return made
    text = parameters.removeprefix("token:")
    if text.startswith("{"):
        try:
            text = msgspec.json.decode(text, type=dict[str, str])["token"]
        except (msgspec.MsgspecError, KeyError):
            raise KeyMaterialError(
                setting, 'the token parameter has no valid form; write token:TEXT, file:///path or {"token": "TEXT"}'
            ) from None
    return ClientAuthentication("token", secret=_token(text.strip(), setting), setting=setting)


def _token(text: str, setting: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise KeyMaterialError(
            setting, "there is no token in the parameters; write token:TEXT or file:///path/to/the/token"
        )
    return text


def _user(parameters: str, setting: str) -> _User:
    try:
        return msgspec.json.decode(parameters, type=_User)
    except msgspec.MsgspecError:
        raise KeyMaterialError(
            setting,
            'user and password are not given in the required form; write {"userId": "NAME", "password": "TEXT"}',
        ) from None
