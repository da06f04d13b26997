"""Whom a connection by TLS trusts: the authorities of a PEM file, or those of the system."""

import ssl
from pathlib import Path

from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.key_material import read_file


def client_context(file: str, setting: str) -> ssl.SSLContext:
    """Return what a client goes by that trusts the authorities in `file` alone, or those of the system if it is blank.

    The host's name is checked, and nothing before TLS 1.2 is spoken. An authority may lack a key usage, as those of
    Pulsar's own recipe do, which Python refuses from 3.13 on. `setting` is where the file is named.

    Raises:
        KeyMaterialError: the file cannot be read, or holds no certificates in PEM.
    """
    made = ssl.create_default_context()
    if file:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        load_authorities(made, file, setting)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made


def load_authorities(context: ssl.SSLContext, file: str, setting: str) -> None:
    """Have a context trust the authorities in a PEM file, too.

    Raises:
        KeyMaterialError: the file cannot be read, or holds no certificates in PEM.
    """
    data = read_file(Path(file), setting)
    try:
        context.load_verify_locations(cadata=data.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError):
        raise KeyMaterialError(setting, f"{file} holds no certificates in PEM") from None
