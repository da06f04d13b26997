"""Where the servers are and how to reach them: the store's URL and the file of `metadataStoreConfigPath`.

The file is YAML. Its keys are those of the file that Pulsar reads for etcd, and `user` and `password`, which Pulsar has
no names for. Nothing that is said of a file that is refused repeats what stands in it.

Source: Pulsar's `EtcdConfig` and `EtcdMetadataStore`.
"""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.rpc.line import Tls
from pulsar_barycenter.metadata.settings_file import read_settings_file

DEFAULT_PORT: Final = 2379
"""Of the file and of each that it names."""
_CHROOT: Final = re.compile(r"(/[A-Za-z0-9._-]{1,255}){1,16}")
_FORM: Final = "expected etcd:http://HOST:PORT,http://HOST:PORT, https for TLS, /FOLDER behind the last if wanted"


class EtcdConfigFile(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The keys of the file. Names of files are taken as they are, relative ones from the broker's folder."""

    use_tls: bool = False
    tls_provider: str | None = None
    """Of Netty; read so that Pulsar's files pass, without effect."""
    tls_trust_certs_file_path: str | None = None
    tls_key_file_path: str | None = None
    tls_certificate_file_path: str | None = None
    authority: str | None = None
    user: str | None = None
    password: str | None = None


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """All that a client needs; what it read from files is in it, so that a file replaced later changes nothing."""

    endpoints: tuple[str, ...]
    """HOST:PORT of each server, in the order in which they are tried."""
    chroot: str = ""
    """What stands before every path in the keys: blank, or `/NAME` once or more."""
    tls: Tls = field(default=Tls())
    user: str = ""
    password: str = field(default="", repr=False)


def read_settings(url: str, config_path: str = "") -> EtcdSettings:
    """Return what `url`, without its `etcd:`, and the file `config_path` (blank: none) say.

    Raises:
        StoreSettingsError: one of them cannot be read, or says what cannot be.
    """
    file = _read_file(config_path) if config_path else EtcdConfigFile()
    schemes, endpoints, chroot = _parse(url)
    if (file.tls_key_file_path is None) != (file.tls_certificate_file_path is None):
        raise StoreSettingsError(config_path, "tlsKeyFilePath and tlsCertificateFilePath go together")
    if bool(file.user) != bool(file.password):
        raise StoreSettingsError(config_path, "user and password go together")
    return EtcdSettings(
        endpoints=endpoints,
        chroot=chroot,
        tls=Tls(
            enabled=file.use_tls or schemes == {"https"},
            trusted_certificates=_pem(file.tls_trust_certs_file_path),
            certificate=_pem(file.tls_certificate_file_path),
            key=_pem(file.tls_key_file_path),
            authority=file.authority or "",
        ),
        user=file.user or "",
        password=file.password or "",
    )


def _parse(url: str) -> tuple[set[str], tuple[str, ...], str]:
    """Return the schemes, the endpoints and the chroot of an URL."""
    if "@" in url:  # not repeated: what stands there may be a password
        raise StoreSettingsError("etcd:", "user and password belong into the file of metadataStoreConfigPath")
    schemes, endpoints, chroot = set(), [], ""
    *others, last = url.split(",")
    for part in (*others, last):
        try:
            split = urlsplit(part)
            host, port = split.hostname, split.port or DEFAULT_PORT
        except ValueError:
            host = None
        if not host or split.scheme not in ("http", "https") or split.query or split.fragment:
            raise StoreSettingsError(f"etcd:{url}", _FORM)
        path = split.path.rstrip("/")
        if path and (part is not last or not _CHROOT.fullmatch(path)):
            raise StoreSettingsError(f"etcd:{url}", _FORM)
        chroot = path
        schemes.add(split.scheme)
        endpoints.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    if len(schemes) > 1:
        raise StoreSettingsError(f"etcd:{url}", "http and https cannot be mixed")
    return schemes, tuple(endpoints), chroot


def _read_file(path: str) -> EtcdConfigFile:
    content = read_settings_file(path)
    try:
        return msgspec.yaml.decode(content, type=EtcdConfigFile)
    except msgspec.ValidationError as error:  # names keys and types, no values
        raise StoreSettingsError(path, str(error)) from None
    except msgspec.DecodeError:  # quotes the line
        raise StoreSettingsError(path, "is not YAML") from None


def _pem(path: str | None) -> bytes | None:
    return read_settings_file(path) if path else None
