"""The addresses of etcd's servers and how to connect: the store's URL and the file of `metadataStoreConfigPath`.

The file is YAML. Its keys are those of the file that Pulsar reads for etcd, and `user` and `password`, for which Pulsar
has no names. An error about the file never repeats its content, because that may be a secret.

Source: Pulsar's `EtcdConfig` and `EtcdMetadataStore`.
"""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import msgspec

from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.grpc_client.server_channel import Tls
from pulsar_barycenter.metadata.settings_file import read_settings_file

DEFAULT_PORT: Final = 2379
"""The port of etcd, if an address has none."""
_CHROOT: Final = re.compile(r"(/[A-Za-z0-9._-]{1,255}){1,16}")
_FORM: Final = "expected etcd:http://HOST:PORT,http://HOST:PORT; https for TLS; optionally /FOLDER after the last"


class EtcdConfigFile(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The keys of the file with the settings for etcd. Relative file names in it are relative to the broker's working
    directory.
    """

    use_tls: bool = False
    tls_provider: str | None = None
    """A setting of Netty. It is accepted, so that Pulsar's files can be used, and has no effect."""
    tls_trust_certs_file_path: str | None = None
    tls_key_file_path: str | None = None
    tls_certificate_file_path: str | None = None
    authority: str | None = None
    user: str | None = None
    password: str | None = None


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    """The settings that a client needs to connect to etcd. It has the contents of the files with certificates and keys,
    so a later change of these files has no effect.
    """

    endpoints: tuple[str, ...]
    """HOST:PORT of each server, in the order in which they are tried."""
    chroot: str = ""
    """The path below which all keys are: blank for none, or `/NAME` one or more times."""
    tls: Tls = field(default=Tls())
    user: str = ""
    password: str = field(default="", repr=False)


def read_settings(url: str, config_path: str = "") -> EtcdSettings:
    """Return the settings from `url`, without its beginning `etcd:`, and from the file `config_path`; if this path is
    blank, no file is read.

    Raises:
        StoreSettingsError: a file cannot be read, or a setting is invalid.
    """
    file = _read_file(config_path) if config_path else EtcdConfigFile()
    schemes, endpoints, chroot = _parse(url)
    if (file.tls_key_file_path is None) != (file.tls_certificate_file_path is None):
        raise StoreSettingsError(config_path, "set both tlsKeyFilePath and tlsCertificateFilePath, or neither")
    if bool(file.user) != bool(file.password):
        raise StoreSettingsError(config_path, "set both user and password, or neither")
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
    """Split a URL into the set of its schemes (http or https), the addresses of the servers, and the chroot."""
    if "@" in url:  # not repeated, because it may be a password
        raise StoreSettingsError(
            "etcd:", "the URL must not have user and password; set them in the file of metadataStoreConfigPath"
        )
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
        raise StoreSettingsError(
            f"etcd:{url}", "http and https cannot be mixed: use one of them for all server addresses"
        )
    return schemes, tuple(endpoints), chroot


def _read_file(path: str) -> EtcdConfigFile:
    content = read_settings_file(path)
    try:
        return msgspec.yaml.decode(content, type=EtcdConfigFile)
    except msgspec.ValidationError as error:  # names keys and types, no values
        raise StoreSettingsError(path, str(error)) from None
    except msgspec.DecodeError:  # its text quotes the line
        raise StoreSettingsError(path, "the file is not YAML") from None


def _pem(path: str | None) -> bytes | None:
    return read_settings_file(path) if path else None
