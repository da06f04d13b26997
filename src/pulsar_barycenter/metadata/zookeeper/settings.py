"""How ZooKeeper's servers are reached beside their addresses: the file of `metadataStoreConfigPath`.

It has lines `key=value`, as the file of ZooKeeper's own clients that Pulsar reads there. Keys and meanings are
ZooKeeper's; `user` and `password` are ours, as ZooKeeper has them in programs only. Stores of keys and trust are PEM.
Nothing that is said of a file that is refused repeats what stands in it.

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
    """Whom to trust, and as whom to come. The PEM files are read at each connection, so they may be renewed."""

    tls: bool = False
    trusted_certificates: str | None = None
    certificate_and_key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    checks_host_names: bool = True
    user: str = ""
    password: str = field(default="", repr=False)

    def client_options(self) -> dict[str, Any]:
        """Return what kazoo's client is made with. Of a user, what it creates is for that user alone."""
        options: dict[str, Any] = {"use_ssl": self.tls}
        if self.user:
            options |= {"auth_data": [("digest", f"{self.user}:{self.password}")], "default_acl": CREATOR_ALL_ACL}
        return options

    def tls_context(self) -> ssl.SSLContext:
        """Return what a connection's TLS goes by, of the PEM files as they are now.

        Raises:
            StoreSettingsError: one of them cannot be read, or has something else in it.
        """
        trusted, own = self.trusted_certificates, self.certificate_and_key
        try:
            context = ssl.create_default_context(cafile=trusted)
        except (OSError, ValueError) as error:
            raise StoreSettingsError(trusted or "", f"{_TRUST}: {_why(error, 'is no PEM of certificates')}") from None
        context.check_hostname = self.checks_host_names
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # of Python 3.13, which refuses authorities that Java takes
        try:
            if own:
                context.load_cert_chain(own, password=self.key_password or "")
        except (OSError, ValueError) as error:
            why = _why(error, f"is no PEM of a certificate and its key, or {_KEY_PASSWORD} is not the key's")
            raise StoreSettingsError(own or "", f"{_KEY}: {why}") from None
        return context


def read_settings(config_path: str) -> ZooKeeperSettings:
    """Return what the file says; a blank path, that servers are reached without TLS and credentials.

    Raises:
        StoreSettingsError: it, or a file that it names, cannot be read, or says what cannot be.
    """
    pairs = _read_pairs(config_path) if config_path else {}
    unknown = sorted(pairs.keys() - set(KEYS))
    if unknown:
        raise StoreSettingsError(config_path, f"has a key that is not known: {unknown[0]}; there are {', '.join(KEYS)}")
    if _boolean(config_path, pairs, _SASL, default=False):
        raise StoreSettingsError(config_path, f"{_SASL}: SASL is not spoken; give user and password, or a certificate")
    for location, kind in ((_TRUST, _TRUST_TYPE), (_KEY, _KEY_TYPE)):
        if location in pairs and pairs.get(kind, "PEM").upper() != "PEM":
            raise StoreSettingsError(config_path, f"{kind}: only PEM is read; `keytool` and `openssl` convert to it")
    if bool(pairs.get(_USER)) != bool(pairs.get(_PASSWORD)):
        raise StoreSettingsError(config_path, "user and password go together")
    if ":" in pairs.get(_USER, ""):
        raise StoreSettingsError(config_path, "a user of ZooKeeper has no colon in its name")
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
        settings.tls_context()  # so that what is wrong is told now, and not at each connection
    elif _TRUST in pairs or _KEY in pairs:
        raise StoreSettingsError(config_path, f"names certificates, but not {_SECURE}=true")
    return settings


def _read_pairs(path: str) -> dict[str, str]:
    try:
        return read_pairs(read_settings_file(path).decode(), path)
    except (ConfigError, UnicodeDecodeError):  # quotes the line
        raise StoreSettingsError(path, "is not a text of lines key=value") from None


def _boolean(path: str, pairs: dict[str, str], key: str, *, default: bool) -> bool:
    text = pairs.get(key, "").lower()
    if text not in ("", "true", "false"):
        raise StoreSettingsError(path, f"{key} is true or false")
    return default if not text else text == "true"


def _why(error: Exception, otherwise: str) -> str:
    cannot_be_read = isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror
    return f"cannot be read: {error.strerror}" if cannot_be_read and isinstance(error, OSError) else otherwise
