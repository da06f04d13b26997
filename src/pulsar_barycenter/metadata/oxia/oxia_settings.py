"""The addresses of Oxia's servers and how to connect: the store's URL and the file of `metadataStoreConfigPath`.

The file has lines `key=value`. Its keys are those of the file that Oxia's Java client reads and that Pulsar documents,
as far as they have a meaning here, and the names of PEM files, for which that client has no keys. An error about the
file never repeats its content, because that may be a secret.

Source: Pulsar's `OxiaMetadataStoreProvider`, the Java client's `OxiaClientBuilderImpl`.
"""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from pulsar_barycenter.config.broker_conf import ConfigError, read_pairs
from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.grpc_client.server_channel import Tls
from pulsar_barycenter.metadata.settings_file import read_settings_file

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_PORT: Final = 6648
MAX_SERVERS: Final = 64
_FORM: Final = (
    "expected oxia://HOST:PORT/NAMESPACE; HOST:PORT,HOST:PORT for several servers; optionally /FOLDER after it"
)
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
    """The settings that a client needs to connect to Oxia. It has the contents of the files with certificates and keys,
    but the path of the file with the token.
    """

    endpoints: tuple[str, ...]
    """HOST:PORT of servers that know the leader, in the order in which they are tried."""
    namespace: str = DEFAULT_NAMESPACE
    chroot: str = ""
    """The path below which all keys are: blank for none, or `/NAME` one or more times."""
    tls: Tls = field(default=Tls())
    token: str = field(default="", repr=False)
    """The token that identifies this client to the servers; blank: there is none."""
    token_file: str = ""
    """The file with the token, if `token` is blank. It is read at each new connection, because the token may be
    renewed.
    """

    def token_now(self) -> str:
        """Return the token for the next connection, from the settings or from the token file.

        Raises:
            StoreSettingsError: the token file cannot be read, or has no token.
        """
        if not self.token_file:
            return self.token
        return _token(self.token_file, read_settings_file(self.token_file))


def read_settings(url: str, config_path: str = "") -> OxiaSettings:
    """Return the settings from `url`, without its beginning `oxia:`, and from the file `config_path`; if this path is
    blank, no file is read.

    Raises:
        StoreSettingsError: a file cannot be read, or a setting is invalid.
    """
    endpoints, namespace, chroot = _parse(url)
    pairs = _read_pairs(config_path) if config_path else {}
    unknown = sorted(pairs.keys() - set(KEYS))
    if unknown:
        raise StoreSettingsError(config_path, f"unknown key {unknown[0]}; known are {', '.join(KEYS)}")
    if bool(pairs.get(_CERTIFICATE)) != bool(pairs.get(_KEY)):
        raise StoreSettingsError(config_path, f"set both {_CERTIFICATE} and {_KEY}, or neither")
    enabled = pairs.get(_TLS, "").lower()
    if enabled not in ("", "true", "false"):
        raise StoreSettingsError(config_path, f"{_TLS} must be true or false")
    tls = Tls(
        enabled=enabled == "true",
        trusted_certificates=_pem(pairs.get(_TRUST)),
        certificate=_pem(pairs.get(_CERTIFICATE)),
        key=_pem(pairs.get(_KEY)),
        authority=pairs.get(_AUTHORITY, ""),
    )
    if not tls.enabled and (tls.trusted_certificates or tls.certificate):
        raise StoreSettingsError(config_path, f"certificates need {_TLS}=true: they have an effect with TLS only")
    token, token_file = _credentials(config_path, pairs)
    settings = OxiaSettings(endpoints, namespace, chroot, tls, token, token_file)
    settings.token_now()  # so that an error is reported now, and not at each connection
    return settings


def _parse(url: str) -> tuple[tuple[str, ...], str, str]:
    """Split a URL into the addresses of the servers, the namespace of Oxia, and the chroot."""
    if "@" in url:  # not repeated, because it may be a password
        raise StoreSettingsError(
            "oxia:", "the URL must not have a token; set it in the file of metadataStoreConfigPath"
        )
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
    """Return two texts from `pairs`, the settings in the file `config_path`: the token, and the path of the file that
    has the token. At least one of them is blank; both are blank if no token is configured.
    """
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
    raise StoreSettingsError(config_path, f"{_TOKEN} must be token:TOKEN or file:///PATH")


def _token(source: str, content: bytes) -> str:
    """Return the token in `content`, without white space around it. `source` is the name of the file, for errors. The
    token must consist of printable ASCII characters, because it becomes part of an HTTP header.

    Raises:
        StoreSettingsError: `content` is not such a token.
    """
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable():
        raise StoreSettingsError(source, "the file does not contain a token")
    return token


def _read_pairs(path: str) -> dict[str, str]:
    try:
        return read_pairs(read_settings_file(path).decode(), path)
    except (ConfigError, UnicodeDecodeError):  # its text quotes the line
        raise StoreSettingsError(
            path, "the file must have lines key=value, but one of its lines has another form"
        ) from None


def _pem(path: str | None) -> bytes | None:
    return read_settings_file(path) if path else None
