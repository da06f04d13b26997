"""The address of a cluster and the credentials for it: `client.conf`, as Pulsar's tools read it, and contexts.

| from | how |
|---|---|
| options | `--url` or `--admin-url`, `--auth-plugin`, `--auth-params`, `--tls-…`; they take precedence |
| a context | `--context NAME`: a context that `pulsar-shell` stores in `~/.pulsar-shell/configs.json` |
| a file | the file in `PULSAR_CLIENT_CONF`, unless a context is named |
| Barycenter | `BARYCENTER_URL` and `BARYCENTER_TOKEN`, for what none of the above sets |
| else | port 8080 of this machine, without credentials |

The plugins for tokens, OAuth 2.0, basic authentication and mutual TLS are supported, by class or short name. No error
contains a secret.
Source: Pulsar's `PulsarAdminTool`, `PulsarAdminPropertiesProvider`, `FileConfigStore`, `AuthenticationUtil`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from pulsar_barycenter.bounds.json_text import decode_json
from pulsar_barycenter.credentials.client_authentication import (
    NO_AUTHENTICATION,
    ClientAuthentication,
    parse_authentication,
    parse_authentication_text,
)
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.tls import ClientTls

USUAL_URL: Final = "http://localhost:8080"
"""The address that `pulsar-admin` uses by default."""
CONF_VARIABLE: Final = "PULSAR_CLIENT_CONF"
TOKEN_VARIABLE: Final = "BARYCENTER_TOKEN"  # noqa: S105 - the name of a variable, not a secret
CONTEXTS: Final = Path(".pulsar-shell") / "configs.json"
"""The file of pulsar-shell's contexts, below the home folder."""
_MOST_BYTES: Final = 1 << 20
TLS: Final = "tls"
_CERTIFICATE: Final = "tlsCertificateFilePath"


class ClientConfError(ValueError):
    """A setting cannot be used; the text names the key or file, says what to do, and never contains a secret."""


@dataclass(frozen=True, slots=True)
class ClientConf:
    """How to reach a cluster: the web address of a broker (`web_service_url`), the credentials that a client sends
    (`shows`), and the authorities whose certificates are trusted with https (`tls`; None: those that the system
    trusts).
    """

    web_service_url: str = USUAL_URL
    shows: ClientAuthentication = NO_AUTHENTICATION
    tls: ClientTls | None = None


def configured(
    options: Mapping[str, Any],
    environment: Mapping[str, str],
    home: Path,
    context: str | None = None,
    *,
    usual_url: str = USUAL_URL,
) -> ClientConf:
    """Return the configuration of a client. For each key, the first of these sources that has a value decides:

    1. `options`: keys of client.conf with the values that the user typed; None for a key that the user did not give.
    2. The context of the name `context`, in a file below the folder `home`; if `context` is None, the client.conf that
       the environment variable PULSAR_CLIENT_CONF names.
    3. Environment variables, for the address and the token.
    4. `usual_url`, for the address.

    Raises:
        ClientConfError: a file cannot be read or is not valid, the context does not exist, or a value is not allowed.
    """
    file = environment.get(CONF_VARIABLE)
    known: dict[str, str] = {}
    if context is not None:
        known = parsed(_context_text(home / CONTEXTS, context), f"context {context}")
    elif file:
        known = parsed(_text(Path(file)), file)
    known |= {key: str(value) for key, value in options.items() if value is not None}
    url = known.get("webServiceUrl") or environment.get("BARYCENTER_URL") or usual_url
    plugin, params = known.get("authPlugin", ""), known.get("authParams", "")
    token = "" if plugin else environment.get(TOKEN_VARIABLE, "").strip()
    try:
        shows = (
            parse_authentication_text(token, TOKEN_VARIABLE)
            if token
            else parse_authentication(plugin, params, "authParams")
        )
    except KeyMaterialError as error:
        raise ClientConfError(str(error)) from error
    certificate, key = known.get("tlsCertificateFilePath", ""), known.get("tlsKeyFilePath", "")
    if shows.method != TLS and certificate:
        shows = replace(shows, certificate_file=certificate, key_file=key or certificate, setting=_CERTIFICATE)
    tls = ClientTls(
        known.get("tlsTrustCertsFilePath", ""),
        shows,
        verifies=not _truth(known, "tlsAllowInsecureConnection"),
        verifies_host_name=_truth(known, "tlsEnableHostnameVerification", default=True),
    )
    return ClientConf(
        web_service_url=(url if "://" in url or not url else f"http://{url}").rstrip("/"),
        shows=shows,
        tls=None if tls == ClientTls(shows=shows) and not shows.certificate_file else tls,
    )


def parsed(text: str, source: str) -> dict[str, str]:
    """Return the keys that the text of a client.conf sets, with their values.

    Raises:
        ClientConfError: a line has no `=`; the text does not contain the line, which may have a secret.
    """
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ClientConfError(f"{source}, line {number}: the line must have the form key=value")
        if value.strip():
            found[key.strip()] = value.strip()
    return found


def _context_text(file: Path, name: str) -> str:
    try:
        stored = decode_json(_text(file), _Contexts)
    except msgspec.DecodeError as error:
        raise ClientConfError(f"{file} is not a file of pulsar-shell's contexts: {error}") from error
    if name not in stored.configs:
        raise ClientConfError(
            f"there is no context {name} in {file}; the file has {', '.join(sorted(stored.configs)) or 'none'}"
        )
    return stored.configs[name].value


class _Context(msgspec.Struct):
    value: str


class _Contexts(msgspec.Struct):
    configs: dict[str, _Context] = {}


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ClientConfError(f"{file} is larger than the maximum of {_MOST_BYTES:,} bytes")
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ClientConfError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _truth(known: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    text = known.get(key, "").lower()
    if text not in ("", "true", "false"):
        raise ClientConfError(f"{key} is {text!r}: give true or false")
    return text == "true" if text else default
