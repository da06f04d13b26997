"""Where the servers are and how to reach them: the store's URL and the file of `metadataStoreConfigPath`.

The file has lines `key=value`. Its keys are those of the file that Oxia's Java client reads and Pulsar names, as far as
they mean something here, and the names of PEM files, which it has no keys for. Nothing that is said of a file that is
refused repeats what stands in it.

Source: Pulsar's `OxiaMetadataStoreProvider`, the Java client's `OxiaClientBuilderImpl`.
"""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from pulsar_barycenter.config.broker_conf import ConfigError, read_pairs
from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.rpc.line import Tls
from pulsar_barycenter.metadata.settings_file import read_settings_file

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_PORT: Final = 6648
MAX_SERVERS: Final = 64
_FORM: Final = "expected oxia://HOST:PORT/NAMESPACE, HOST:PORT,HOST:PORT for several, /FOLDER behind it if wanted"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,255}")
_MAX_FOLDERS: Final = 16

_TLS: Final = "enableTls"
_PLUGIN: Final = "authPluginClassName"
_TOKEN: Final = "authParams"  # noqa: S105  # the name of a key
_TRUST: Final = "tlsTrustCertsFilePath"
_CERTIFICATE: Final = "tlsCertificateFilePath"
_KEY: Final = "tlsKeyFilePath"
_AUTHORITY: Final = "authority"
KEYS: Final = (_TLS, _PLUGIN, _TOKEN, _TRUST, _CERTIFICATE, _KEY, _AUTHORITY)


@dataclass(frozen=True, slots=True)
class OxiaSettings:
    """All that a client needs; what it read from files is in it, but for a token in a file of its own."""

    endpoints: tuple[str, ...]
    """HOST:PORT of servers that know who leads, in the order in which they are tried."""
    namespace: str = DEFAULT_NAMESPACE
    chroot: str = ""
    """What stands before every path in the keys: blank, or `/NAME` once or more."""
    tls: Tls = field(default=Tls())
    token: str = field(default="", repr=False)
    """What shows who this client is; blank: nothing."""
    token_file: str = ""
    """Where it stands instead, read whenever a server is turned to: it may be renewed."""

    def token_now(self) -> str:
        """Return the token to use from now on.

        Raises:
            StoreSettingsError: its file cannot be read, or has no token in it.
        """
        if not self.token_file:
            return self.token
        return _token(self.token_file, read_settings_file(self.token_file))


def read_settings(url: str, config_path: str = "") -> OxiaSettings:
    """Return what `url`, without its `oxia:`, and the file `config_path` (blank: none) say.

    Raises:
        StoreSettingsError: one of them cannot be read, or says what cannot be.
    """
    endpoints, namespace, chroot = _parse(url)
    pairs = _read_pairs(config_path) if config_path else {}
    unknown = sorted(pairs.keys() - set(KEYS))
    if unknown:
        raise StoreSettingsError(config_path, f"has a key that is not known: {unknown[0]}; there are {', '.join(KEYS)}")
    if bool(pairs.get(_CERTIFICATE)) != bool(pairs.get(_KEY)):
        raise StoreSettingsError(config_path, f"{_CERTIFICATE} and {_KEY} go together")
    enabled = pairs.get(_TLS, "").lower()
    if enabled not in ("", "true", "false"):
        raise StoreSettingsError(config_path, f"{_TLS} is true or false")
    tls = Tls(
        enabled=enabled == "true",
        trusted_certificates=_pem(pairs.get(_TRUST)),
        certificate=_pem(pairs.get(_CERTIFICATE)),
        key=_pem(pairs.get(_KEY)),
        authority=pairs.get(_AUTHORITY, ""),
    )
    if not tls.enabled and (tls.trusted_certificates or tls.certificate):
        raise StoreSettingsError(config_path, f"names certificates, but not {_TLS}=true")
    token, token_file = _credentials(config_path, pairs)
    settings = OxiaSettings(endpoints, namespace, chroot, tls, token, token_file)
    settings.token_now()  # so that what is wrong is told now, and not at each connection
    return settings


def _parse(url: str) -> tuple[tuple[str, ...], str, str]:
    """Return the endpoints, the namespace and the chroot of an URL."""
    if "@" in url:  # not repeated: what stands there may be a password
        raise StoreSettingsError("oxia:", "a token belongs into the file of metadataStoreConfigPath")
    refused = StoreSettingsError(f"oxia:{url}", _FORM)
    if not url.startswith("//"):
        raise refused
    servers, *names = url[2:].rstrip("/").split("/")
    endpoints = []
    for server in servers.split(","):
        try:
            split = urlsplit(f"//{server}")
            host, port = split.hostname, split.port or DEFAULT_PORT
        except ValueError:
            raise refused from None
        if not host or split.netloc != server:
            raise refused
        endpoints.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    if len(endpoints) > MAX_SERVERS or len(names) > 1 + _MAX_FOLDERS or not all(map(_NAME.fullmatch, names)):
        raise refused
    namespace, *folders = names or [DEFAULT_NAMESPACE]
    return tuple(endpoints), namespace, "".join(f"/{name}" for name in folders)


def _credentials(config_path: str, pairs: dict[str, str]) -> tuple[str, str]:
    """Return a token, or the file in which it stands; both blank if none is given."""
    given = pairs.get(_TOKEN, "")
    if not given:
        return "", ""
    kind, _, rest = given.partition(":")
    if kind == "token" and rest:
        return _token(config_path, rest.encode()), ""
    if kind == "file" and rest:
        split = urlsplit(given)
        if not split.netloc:
            return "", unquote(split.path)
    raise StoreSettingsError(config_path, f"{_TOKEN} is token:TOKEN or file:///PATH")


def _token(source: str, content: bytes) -> str:
    """Return what is sent of a token: printable characters, as headers have them."""
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable():
        raise StoreSettingsError(source, "has no token in it")
    return token


def _read_pairs(path: str) -> dict[str, str]:
    try:
        return read_pairs(read_settings_file(path).decode(), path)
    except (ConfigError, UnicodeDecodeError):  # quotes the line
        raise StoreSettingsError(path, "is not a text of lines key=value") from None


def _pem(path: str | None) -> bytes | None:
    return read_settings_file(path) if path else None
