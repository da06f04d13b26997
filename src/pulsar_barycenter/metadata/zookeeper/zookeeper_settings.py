"""The settings for connections to ZooKeeper, except the addresses: the file of `metadataStoreConfigPath`.

The file has lines `key=value`, like the file of ZooKeeper's own clients, which Pulsar reads under this setting. Keys
and meanings are ZooKeeper's. `user` and `password` are additions, because ZooKeeper's own clients can set these only in
program code. Key and trust stores are PEM. An error about the file never repeats its content, because that may be a
secret.

Source: ZooKeeper's `ZKClientConfig` and `ClientX509Util`.
"""

import ssl
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo.security import CREATOR_ALL_ACL

from pulsar_barycenter.config.broker_conf import ConfigError, read_pairs
from pulsar_barycenter.metadata.errors import StoreSettingsError
from pulsar_barycenter.metadata.settings_file import read_settings_file

_SECURE: Final = "zookeeper.client.secure"
_TRUST: Final = "zookeeper.ssl.trustStore.location"
_TRUST_TYPE: Final = "zookeeper.ssl.trustStore.type"
_KEY: Final = "zookeeper.ssl.keyStore.location"
_KEY_TYPE: Final = "zookeeper.ssl.keyStore.type"
_KEY_PASSWORD: Final = "zookeeper.ssl.keyStore.password"  # noqa: S105  # the name of a key
_HOST_NAMES: Final = "zookeeper.ssl.hostnameVerification"
_SASL: Final = "zookeeper.sasl.client"
_USER: Final = "user"
_PASSWORD: Final = "password"  # noqa: S105  # the name of a key
_WITHOUT_EFFECT: Final = ("zookeeper.clientCnxnSocket",)
KEYS: Final = (
    *(_SECURE, _TRUST, _TRUST_TYPE, _KEY, _KEY_TYPE, _KEY_PASSWORD, _HOST_NAMES, _SASL, _USER, _PASSWORD),
    *_WITHOUT_EFFECT,
)


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """TLS settings and credentials for connections to ZooKeeper. It has the paths of the PEM files, not their contents:
    the files are read at each connection, because an operator may replace them.
    """

    tls: bool = False
    trusted_certificates: str | None = None
    certificate_and_key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    checks_host_names: bool = True
    user: str = ""
    password: str = field(default="", repr=False)

    def client_options(self) -> dict[str, Any]:
        """Return arguments for the constructor of kazoo's client. If a user is configured, nodes that the client
        creates can be read and written by this user only.
        """
        options: dict[str, Any] = {"use_ssl": self.tls}
        if self.user:
            options |= {"auth_data": [("digest", f"{self.user}:{self.password}")], "default_acl": CREATOR_ALL_ACL}
        return options

    def tls_context(self) -> ssl.SSLContext:
        """Return a TLS context for a new connection, with the present contents of the PEM files.

        Raises:
            StoreSettingsError: a file cannot be read, or does not contain PEM certificates or keys.
        """
        trusted, own = self.trusted_certificates, self.certificate_and_key
        try:
            context = ssl.create_default_context(cafile=trusted)
        except (OSError, ValueError) as error:
            raise StoreSettingsError(
                trusted or "", f"{_TRUST}: the file {_why(error, 'does not contain PEM certificates')}"
            ) from None
        context.check_hostname = self.checks_host_names
        # set by Python 3.13; it refuses certificate authorities that Java accepts
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        try:
            if own:
                context.load_cert_chain(own, password=self.key_password or "")
        except (OSError, ValueError) as error:
            why = _why(error, f"does not contain a PEM certificate and its key, or {_KEY_PASSWORD} is wrong")
            raise StoreSettingsError(own or "", f"{_KEY}: the file {why}") from None
        return context


def read_settings(config_path: str) -> ZooKeeperSettings:
    """Return the settings from the file `config_path`. If this path is blank, return settings without TLS and without
    credentials.

    Raises:
        StoreSettingsError: the file, or a file that it names, cannot be read, or a setting is invalid.
    """
    pairs = _read_pairs(config_path) if config_path else {}
    unknown = sorted(pairs.keys() - set(KEYS))
    if unknown:
        raise StoreSettingsError(config_path, f"unknown key {unknown[0]}; known are {', '.join(KEYS)}")
    if _boolean(config_path, pairs, _SASL, default=False):
        raise StoreSettingsError(
            config_path, f"{_SASL}: SASL is not supported; set user and password, or a certificate"
        )
    for location, kind in ((_TRUST, _TRUST_TYPE), (_KEY, _KEY_TYPE)):
        if location in pairs and pairs.get(kind, "PEM").upper() != "PEM":
            raise StoreSettingsError(
                config_path, f"{kind}: only PEM is supported; convert the file to PEM with `keytool` and `openssl`"
            )
    if bool(pairs.get(_USER)) != bool(pairs.get(_PASSWORD)):
        raise StoreSettingsError(config_path, "set both user and password, or neither")
    if ":" in pairs.get(_USER, ""):
        raise StoreSettingsError(
            config_path, "user must not contain a colon, because ZooKeeper writes user and password as USER:PASSWORD"
        )
    settings = ZooKeeperSettings(
        tls=_boolean(config_path, pairs, _SECURE, default=False),
        trusted_certificates=pairs.get(_TRUST) or None,
        certificate_and_key=pairs.get(_KEY) or None,
        key_password=pairs.get(_KEY_PASSWORD) or None,
        checks_host_names=_boolean(config_path, pairs, _HOST_NAMES, default=True),
        user=pairs.get(_USER, ""),
        password=pairs.get(_PASSWORD, ""),
    )
    if settings.tls:
        settings.tls_context()  # so that an error is reported now, and not at each connection
    elif _TRUST in pairs or _KEY in pairs:
        raise StoreSettingsError(config_path, f"certificates need {_SECURE}=true: they have an effect with TLS only")
    return settings


def _read_pairs(path: str) -> dict[str, str]:
    try:
        return read_pairs(read_settings_file(path).decode(), path)
    except (ConfigError, UnicodeDecodeError):  # its text quotes the line
        raise StoreSettingsError(
            path, "the file must have lines key=value, but one of its lines has another form"
        ) from None


def _boolean(path: str, pairs: dict[str, str], key: str, *, default: bool) -> bool:
    text = pairs.get(key, "").lower()
    if text not in ("", "true", "false"):
        raise StoreSettingsError(path, f"{key} must be true or false")
    return default if not text else text == "true"


def _why(error: Exception, otherwise: str) -> str:
    cannot_be_read = isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror
    return f"cannot be read: {error.strerror}" if cannot_be_read and isinstance(error, OSError) else otherwise
