"""TLS contexts from PEM files, for servers and clients, and their renewal when the files change.

A TLS context is created from the files as they are then; an error says what is wrong with them. `Renewed` creates
another context when the files have changed. Open connections keep the context with which they began, and no connection
resumes a session of an older context (`ListeningContext`). Protocols before TLS 1.2 are not supported. Ciphers have
OpenSSL's or Java's names.

Source: Pulsar's `SecurityUtility` and `TlsServerContext`.
"""

import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import structlog

from pulsar_barycenter.credentials.authorities import client_context, load_authorities
from pulsar_barycenter.credentials.client_authentication import NO_AUTHENTICATION, ClientAuthentication
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.key_material import read_file

log = structlog.get_logger(__name__)

PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_OF_TLS_1_3: Final = ("TLS_AES_", "TLS_CHACHA20_")


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The TLS settings of a server: its certificate, the certificate authorities that it trusts, and how strict it is.

    With `trust_file` the server requests a certificate from clients, and refuses one that is not from an authority in
    this file. With `requires_certificate` a client without a certificate is refused too. If `protocols` or `ciphers` is
    empty, all safe protocols or ciphers are allowed.
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
        """Create a TLS context from the certificate and key files as they are now.

        Raises:
            KeyMaterialError: a file is missing, cannot be read, or has the wrong content; or a protocol or cipher is
                unknown.
        """
        made = self.bare_context()
        _set_ciphers(made, self.ciphers)
        _load_pair(made, self.certificate_file, self.key_file, "tlsCertificateFilePath", "tlsKeyFilePath")
        if self.trust_file:
            load_authorities(made, self.trust_file, "tlsTrustCertsFilePath")
        elif self.requires_certificate:
            raise KeyMaterialError(
                "tlsTrustCertsFilePath",
                "tlsRequireTrustedClientCertOnConnect=true needs the file of the trusted authorities: set "
                "tlsTrustCertsFilePath",
            )
        return made

    def bare_context(self) -> ssl.SSLContext:
        """Create a TLS context without reading the certificate and key files. No handshake can succeed with it.

        Raises:
            KeyMaterialError: a protocol version is unknown.
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
    """The TLS settings of a client. It trusts the certificate authorities in `trust_file`, or those of the system if it
    is blank.

    `shows` may contain the certificate that the client presents to the server.
    """

    trust_file: str = ""
    shows: ClientAuthentication = NO_AUTHENTICATION
    verifies: bool = True
    verifies_host_name: bool = True
    trust_setting: str = "brokerClientTrustCertsFilePath"
    """The setting that names `trust_file`, for messages."""

    @property
    def files(self) -> tuple[str, ...]:
        named = (self.trust_file, self.shows.certificate_file, self.shows.key_file)
        return tuple(file for file in named if file)

    def context(self) -> ssl.SSLContext:
        """Create a TLS context from the files as they are now.

        Raises:
            KeyMaterialError: a file is missing, cannot be read, or has the wrong content.
        """
        made = client_context(self.trust_file, self.trust_setting)
        made.check_hostname = self.verifies and self.verifies_host_name
        made.verify_mode = ssl.CERT_REQUIRED if self.verifies else ssl.CERT_NONE
        if self.shows.certificate_file:
            setting = self.shows.setting
            _load_pair(made, self.shows.certificate_file, self.shows.key_file, setting, setting)
        return made


class Renewed:
    """Keeps the TLS context for the settings `tls`, and creates it again when the files have changed. The files are
    checked at most every `check_s` seconds.

    `now_s` is a monotonic clock. If the new files are invalid, this is logged once, and the previous context is used
    until the files change again and are valid.

    Raises (on construction):
        KeyMaterialError: the files are invalid.
    """

    def __init__(self, tls: ServerTls | ClientTls, *, check_s: float, now_s: Callable[[], float]) -> None:
        self._tls = tls
        self._check_s = check_s
        self._now_s = now_s
        self._looked_s = now_s()
        self._state = _state(tls.files)
        self._context = tls.context()

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection; create it again if the files have changed."""
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
    """The context of a listening socket. Each new connection uses the current context of `renewed`, and none resumes a
    session.

    A resumed session would continue with a certificate that has expired or is no longer trusted. Session tickets are
    disabled; what remains are TLS 1.2 sessions that OpenSSL caches by their ids. OpenSSL searches them in the context
    with which a connection began, even if another context is selected later, and Python cannot disable that. So each
    connection begins with its own context, which has no cached session (0.4 ms and 15 kB each).
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
        """Begin the TLS of a new connection. The event loops of asyncio and uvloop call this method."""
        outer = self._tls.bare_context()
        outer.sni_callback = self._choose
        return outer.wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def _choose(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._renewed.context()


def renewing_server_context(tls: ServerTls, *, check_s: float, now_s: Callable[[], float]) -> ListeningContext:
    """Return the context of a listening socket. New connections use renewed files of `tls`: whether the files have
    changed is checked at most every `check_s` seconds.

    Raises:
        KeyMaterialError: a file cannot be used, or a protocol or cipher is unknown.
    """
    return ListeningContext(tls, Renewed(tls, check_s=check_s, now_s=now_s))


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the common name (CN) in `certificate`, a dict as Python's `ssl` returns it; None if there is no
    certificate or no CN.
    """
    names = [
        value for part in (certificate or {}).get("subject", ()) for key, value in part if key == "commonName" and value
    ]
    return names[-1] if names else None


def _state(files: Iterable[str]) -> tuple[object, ...]:
    """Return a value for comparison, which differs after one of the files was written, replaced or deleted."""
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
                f"{name[:50]!r} is not supported; set {' or '.join(PROTOCOLS)}: older versions are weak",
            )
    chosen = [PROTOCOLS[name] for name in protocols or PROTOCOLS]
    if ciphers and all(name.startswith(_OF_TLS_1_3) for name in ciphers):
        return ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3  # none of these ciphers belongs to TLS 1.2
    return min(chosen), max(chosen)


def _set_ciphers(context: ssl.SSLContext, ciphers: tuple[str, ...]) -> None:
    """Allow only `ciphers` in a TLS context. The ciphers of TLS 1.3, which are all safe, are always allowed with TLS
    1.3.
    """
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
    """Return OpenSSL's name for a cipher with Java's name: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is
    ECDHE-RSA-AES128-GCM-SHA256.
    """
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
            raise KeyMaterialError(
                setting, "the PEM file is not set, and TLS needs one: set this key to the path of a PEM file"
            )
        if b"-----BEGIN " not in read_file(Path(file), setting):
            raise KeyMaterialError(setting, f"{file} is not a PEM file: it has no -----BEGIN")
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            detail = f"{key} is not the key of the certificate in {certificate}; set two files that belong together"
        else:
            detail = (
                f"{certificate} and {key} are not a PEM certificate and its key without a password ({error.reason})"
            )
        raise KeyMaterialError(key_setting, detail) from None
    except (OSError, ValueError) as error:
        raise KeyMaterialError(key_setting, f"{certificate} and {key} cannot be used: {error}") from None
