"""The certificate authorities that a TLS connection trusts: those of a PEM file, or those of the system."""

import ssl
from pathlib import Path

from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.key_material import read_file


def client_context(file: str, setting: str) -> ssl.SSLContext:
    """Return a client's TLS context that trusts only the certificate authorities in `file`, or those of the system if
    `file` is blank.

    The host name is verified, and the protocol is at least TLS 1.2. Authorities without the key-usage extension are
    accepted, because those of Pulsar's documentation lack it; Python refuses them by default from 3.13 on. `setting` is
    the setting that names the file.

    Raises:
        KeyMaterialError: the file cannot be read, or contains no PEM certificates.
    """
    made = ssl.create_default_context()
    if file:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        load_authorities(made, file, setting)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made


def load_authorities(context: ssl.SSLContext, file: str, setting: str) -> None:
    """Make a TLS context trust the certificate authorities in a PEM file. `setting` is the setting that names the file.

    Raises:
        KeyMaterialError: the file cannot be read, or contains no PEM certificates.
    """
    data = read_file(Path(file), setting)
    try:
        context.load_verify_locations(cadata=data.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError):
        raise KeyMaterialError(setting, f"{file} contains no PEM certificates") from None
