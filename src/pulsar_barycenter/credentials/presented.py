"""What a client of brokers shows of itself: by the names and parameters that Pulsar's clients take.

| plugin                            | parameters                                                    |
|-----------------------------------|---------------------------------------------------------------|
| `…AuthenticationToken`, `token`   | `token:TEXT`, `file:///path`, or `{"token": "TEXT"}`          |
| `…AuthenticationBasic`, `basic`   | `{"userId": "NAME", "password": "TEXT"}`                      |
| `…AuthenticationTls`, `tls`       | `tlsCertFile:/path,tlsKeyFile:/path`: the certificate, by TLS |
| `…AuthenticationOAuth2`, `oauth2` | those of `client_credentials`: a token that an issuer gives   |
| blank                             | none: nothing is shown                                        |

A token's file is read each time that it is shown, so that it may be renewed. One of an issuer is obtained by `renew`,
to be awaited before anything is shown.
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
"""The method of the binary protocol that shows nothing."""


class _User(msgspec.Struct, rename="camel"):
    user_id: str
    password: str


@dataclass(frozen=True, slots=True)
class Presented:
    """What is shown, `method` being a method of the binary protocol. Made by `presented`."""

    method: str = NO_METHOD
    secret: str = field(default="", repr=False)
    token_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    setting: str = ""
    obtained: ObtainedToken | None = field(default=None, repr=False)

    async def renew(self, *, not_this: bytes | None = None) -> None:
        """Have at hand what is shown: a token of an issuer is obtained if there is none yet, or it is about to end, or
        it is the one that a broker wants no more.

        Raises:
            KeyMaterialError: there is none to be had.
        """
        if self.obtained is not None:
            await self.obtained.renew(not_this=None if not_this is None else not_this.decode())

    def token_in_thread(self) -> str:
        """Return the token as it is now, for a client of threads: not to be called where a loop runs.

        Raises:
            KeyMaterialError: there is none to be had.
        """
        if self.obtained is not None:
            asyncio.run(self.renew())
        return self._text()

    def auth_data(self) -> bytes | None:
        """Return what goes into CONNECT, None for nothing.

        Raises:
            KeyMaterialError: the token's file cannot be read, or no token was obtained.
        """
        text = self._text()
        return text.encode() if text else None

    def headers(self) -> Mapping[str, str]:
        """Return what goes into an HTTP request.

        Raises:
            KeyMaterialError: the token's file cannot be read, or no token was obtained.
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
            raise KeyMaterialError(self.setting, f"{self.token_file} holds no token") from None


NOTHING: Final = Presented()


def presented(plugin: str, parameters: str, setting: str = "brokerClientAuthenticationParameters") -> Presented:
    """Read what a configuration says; `setting` is where the parameters stand, for messages.

    Raises:
        KeyMaterialError: the plugin is not known, or the parameters are not of its form.
    """
    if not plugin:
        return NOTHING
    name = plugin.rpartition(".")[2].lower()
    method = PLUGINS.get(name, name)
    if method == "token":
        return _of_token(parameters, setting)
    if method == "basic":
        user = _user(parameters, setting)
        if ":" in user.user_id:
            raise KeyMaterialError(setting, "a userId has no colon")
        return Presented("basic", secret=f"{user.user_id}:{user.password}", setting=setting)
    if method == "tls":
        pairs = dict(pair.strip().split(":", 1) for pair in parameters.split(",") if ":" in pair)
        if not pairs.keys() >= {"tlsCertFile", "tlsKeyFile"}:
            raise KeyMaterialError(setting, "write tlsCertFile:/path/cert.pem,tlsKeyFile:/path/key.pem")
        return Presented("tls", certificate_file=pairs["tlsCertFile"], key_file=pairs["tlsKeyFile"], setting=setting)
    if method == "oauth2":
        obtained = ObtainedToken(ClientCredentials.of(parameters, setting))
        return Presented("token", setting=setting, obtained=obtained)
    raise KeyMaterialError(setting, f"the plugin {plugin[:200]!r} is not known: there are token, basic, tls and oauth2")


def presented_text(text: str, setting: str) -> Presented:
    """Read what a single text says: a token, as above, or the parameters of one that an issuer gives.

    Raises:
        KeyMaterialError: it is neither.
    """
    is_of_issuer = text.startswith("{") and ('"issuerUrl"' in text or '"issuer_url"' in text)
    return presented("oauth2" if is_of_issuer else "token", text, setting)


def is_no_less_secret(scheme: str, url: str) -> bool:
    """Tell whether what came, or was asked for, by `scheme` may go on to `url`: what was shown by TLS is shown on by
    TLS alone.

    Raises:
        ValueError: that is no URL.
    """
    return scheme != "https" or urlsplit(url).scheme == "https"


def _of_token(parameters: str, setting: str) -> Presented:
    if parameters.startswith("file:"):
        made = Presented("token", token_file=parameters, setting=setting)
        made.auth_data()
        return made
    text = parameters.removeprefix("token:")
    if text.startswith("{"):
        try:
            text = msgspec.json.decode(text, type=dict[str, str])["token"]
        except (msgspec.MsgspecError, KeyError):
            raise KeyMaterialError(setting, 'write token:TEXT, file:///path or {"token": "TEXT"}') from None
    return Presented("token", secret=_token(text.strip(), setting), setting=setting)


def _token(text: str, setting: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise KeyMaterialError(setting, "there is no token; write token:TEXT or file:///path/to/the/token")
    return text


def _user(parameters: str, setting: str) -> _User:
    try:
        return msgspec.json.decode(parameters, type=_User)
    except msgspec.MsgspecError:
        raise KeyMaterialError(setting, 'write {"userId": "NAME", "password": "TEXT"}') from None
