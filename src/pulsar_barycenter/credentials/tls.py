"""TLS by PEM files: what a server shows and whom it trusts, likewise for a client, and files that are renewed.

A context is made of files as they are, and says in words what is wrong with them. `Renewed` makes another when they
have changed: connections that are open live on by the one they began with, and none goes on by the session of another
(`ListeningContext`). Protocols before TLS 1.2 are not offered. Ciphers have OpenSSL's names or Java's. Source: Pulsar's
`SecurityUtility` and `TlsServerContext`.
"""

import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import structlog

from pulsar_barycenter.credentials.authorities import client_context, load_authorities
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.key_material import read_file
from pulsar_barycenter.credentials.presented import NOTHING, Presented

log = structlog.get_logger(__name__)

PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_OF_TLS_1_3: Final = ("TLS_AES_", "TLS_CHACHA20_")


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a server shows, whom it trusts, and how strictly.

    With `trust_file` clients are asked for a certificate of one of its authorities; one of another is refused. With
    `requires_certificate` so is none. Blank `protocols` and `ciphers` are all that are safe.
    """

    certificate_file: str
    key_file: str
    trust_file: str = ""
    requires_certificate: bool = False
    protocols: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for file in (self.certificate_file, self.key_file, self.trust_file) if file)

    def context(self) -> ssl.SSLContext:
        """Make what connections go by, of the files as they are now.

        Raises:
            KeyMaterialError: a file is missing, cannot be read, or is not what it should be; a word is not known.
        """
        made = self.bare_context()
        _set_ciphers(made, self.ciphers)
        _load_pair(made, self.certificate_file, self.key_file, "tlsCertificateFilePath", "tlsKeyFilePath")
        if self.trust_file:
            load_authorities(made, self.trust_file, "tlsTrustCertsFilePath")
        elif self.requires_certificate:
            raise KeyMaterialError(
                "tlsTrustCertsFilePath",
                "with tlsRequireTrustedClientCertOnConnect=true, name the file of the authorities that are trusted",
            )
        return made

    def bare_context(self) -> ssl.SSLContext:
        """Make one without anything of the files: nobody can shake hands by it.

        Raises:
            KeyMaterialError: a version is not known.
        """
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version, made.maximum_version = _versions(self.protocols, self.ciphers)
        made.options |= ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
        made.num_tickets = 0
        if self.trust_file:
            made.verify_mode = ssl.CERT_REQUIRED if self.requires_certificate else ssl.CERT_OPTIONAL
        return made


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Whom a client trusts: the authorities of a file, or blank, those of the system. What it `shows` may be a
    certificate."""

    trust_file: str = ""
    shows: Presented = NOTHING
    verifies: bool = True
    verifies_host_name: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        named = (self.trust_file, self.shows.certificate_file, self.shows.key_file)
        return tuple(file for file in named if file)

    def context(self) -> ssl.SSLContext:
        """Make what connections go by, of the files as they are now.

        Raises:
            KeyMaterialError: a file is missing, cannot be read, or is not what it should be.
        """
        made = client_context(self.trust_file, "brokerClientTrustCertsFilePath")
        made.check_hostname = self.verifies and self.verifies_host_name
        made.verify_mode = ssl.CERT_REQUIRED if self.verifies else ssl.CERT_NONE
        if self.shows.certificate_file:
            setting = self.shows.setting
            _load_pair(made, self.shows.certificate_file, self.shows.key_file, setting, setting)
        return made


class Renewed:
    """The context of `tls`, made anew when its files have changed; looked at no more often than each `check_s`.

    `now_s` is any clock that goes on. Files that have become wrong are told once, and the context stays as it was.
    Raises KeyMaterialError where they are wrong from the start.
    """

    def __init__(self, tls: ServerTls | ClientTls, *, check_s: float, now_s: Callable[[], float]) -> None:
        self._tls = tls
        self._check_s = check_s
        self._now_s = now_s
        self._looked_s = now_s()
        self._state = _state(tls.files)
        self._context = tls.context()

    def context(self) -> ssl.SSLContext:
        """Return the context for a connection that begins now."""
        if self._now_s() - self._looked_s >= self._check_s:
            self._looked_s = self._now_s()
            state = _state(self._tls.files)
            if state != self._state:
                self._state = state
                self._renew()
        return self._context

    def _renew(self) -> None:
        try:
            self._context = self._tls.context()
        except KeyMaterialError as error:
            log.error("tls_files_not_renewed", reason=str(error))
        else:
            log.info("tls_files_renewed", files=self._tls.files)


class ListeningContext(ssl.SSLContext):
    """What a listening socket goes by: each connection by what `renewed` has when it begins, and by no session.

    A session that went on would go on by a certificate that has expired since, or is trusted no more. Tickets are off
    everywhere; what is left are the sessions of TLS 1.2 that OpenSSL remembers by their ids. It looks for them in the
    context that a connection began with, also where another one is chosen later, and Python has no way to switch that
    off: so each connection begins with a context of its own, which remembers none (0.4 ms and 15 kB of it).
    """

    def __new__(cls, tls: ServerTls, renewed: Renewed) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, tls: ServerTls, renewed: Renewed) -> None:
        self._tls = tls
        self._renewed = renewed

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection; both event loops do it by this."""
        outer = self._tls.bare_context()
        outer.sni_callback = self._choose
        return outer.wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def _choose(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._renewed.context()


def renewing_server_context(tls: ServerTls, *, check_s: float, now_s: Callable[[], float]) -> ListeningContext:
    """Return what a listening socket goes by whose files are looked at as `Renewed` does.

    Raises:
        KeyMaterialError: a file cannot be used, or a word is not known.
    """
    return ListeningContext(tls, Renewed(tls, check_s=check_s, now_s=now_s))


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the CN of a certificate as Python tells it, None if there is no certificate, or no CN in it."""
    names = [
        value for part in (certificate or {}).get("subject", ()) for key, value in part if key == "commonName" and value
    ]
    return names[-1] if names else None


def _state(files: Iterable[str]) -> tuple[object, ...]:
    """Return what differs once a file was written anew, put in place of another, or is gone."""
    found: list[object] = []
    for file in files:
        try:
            stat = Path(file).stat()
            found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)


def _versions(protocols: tuple[str, ...], ciphers: tuple[str, ...]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    for name in protocols:
        if name not in PROTOCOLS:
            raise KeyMaterialError(
                "tlsProtocols",
                f"{name[:50]!r} is not offered: there are {' and '.join(PROTOCOLS)}; older ones are weak",
            )
    chosen = [PROTOCOLS[name] for name in protocols or PROTOCOLS]
    if ciphers and all(name.startswith(_OF_TLS_1_3) for name in ciphers):
        return ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3  # none of them is of TLS 1.2
    return min(chosen), max(chosen)


def _set_ciphers(context: ssl.SSLContext, ciphers: tuple[str, ...]) -> None:
    """Allow only these; those of TLS 1.3, all of them good, are on whenever that is."""
    names = [_of_openssl(name) for name in ciphers if not name.startswith(_OF_TLS_1_3)]
    if not names:
        return
    for name in names:
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise KeyMaterialError("tlsCiphers", f"OpenSSL has no cipher {name[:100]!r}") from None
    context.set_ciphers(":".join(names))


def _of_openssl(name: str) -> str:
    """Return OpenSSL's name of a cipher: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256."""
    if "_WITH_" not in name:
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if cipher.startswith("CHACHA20"):
        cipher = cipher.removesuffix("_SHA256")
    cipher = cipher.replace("AES_", "AES").replace("_CBC", "").replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"


def _load_pair(context: ssl.SSLContext, certificate: str, key: str, certificate_setting: str, key_setting: str) -> None:
    for file, setting in ((certificate, certificate_setting), (key, key_setting)):
        if not file:
            raise KeyMaterialError(setting, "name the PEM file, as there is a port for TLS")
        if b"-----BEGIN " not in read_file(Path(file), setting):
            raise KeyMaterialError(setting, f"{file} is no PEM file: there is no -----BEGIN in it")
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            told = f"{key} is not the key of the certificate in {certificate}; give the pair that was made together"
        else:
            told = f"{certificate} and {key} are no certificate and key without a password, in PEM ({error.reason})"
        raise KeyMaterialError(key_setting, told) from None
    except (OSError, ValueError) as error:
        raise KeyMaterialError(key_setting, f"{certificate} and {key} cannot be used: {error}") from None
