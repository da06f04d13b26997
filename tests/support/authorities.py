"""Certificate authorities for tests, and their certificates for servers and clients on loopback."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Issued:
    """PEM files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs every requested certificate; `file` is its own certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        own = self._builder(name).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        own = own.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        own = own.public_key(self._key.public_key())
        self.file.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(self, common_name: str, file: str = "", *, days: int = 1) -> Issued:
        """Write a certificate for loopback with that CN, for servers and clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = self._builder(common_name, days=days).public_key(key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        name = file or f"{self._name}-{common_name}"
        made = Issued(self._folder / f"{name}.cert.pem", self._folder / f"{name}.key.pem")
        made.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return made

    def trusting(self, shown: Issued | None = None) -> ssl.SSLContext:
        """Return the TLS context of a client that trusts this authority, and presents a certificate if one is given."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.file)
        if shown is not None:
            context.load_cert_chain(shown.certificate, shown.key)
        return context

    def _builder(self, common_name: str, *, days: int = 1) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)])
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - _DAY * 2).not_valid_after(now + _DAY * days)
