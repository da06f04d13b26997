"""Certificates for servers and clients on loopback, of an authority for the tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority, and the certificate of a server or client on loopback."""

    authority: Path
    certificate: Path
    key: Path


ELLIPTIC: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
RSA: Final = ("-newkey", "rsa:2048", "-nodes")
"""Of what kind a key is, as openssl is told."""


def make_certificates(folder: Path, key: Sequence[str] = ELLIPTIC) -> Certificates:
    """Let openssl create an authority, and a certificate of it for servers and clients on loopback."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on the PATH to make certificates with")
    folder.mkdir(parents=True, exist_ok=True)
    made = Certificates(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n")
    ca_key, request = folder / "ca.key", folder / "request.pem"
    _openssl("req", "-x509", *key, "-keyout", ca_key, "-out", made.authority, "-subj", "/CN=tests", "-days", "2")
    _openssl("req", *key, "-keyout", made.key, "-out", request, "-subj", "/CN=loopback")
    signed_by = ("-CA", made.authority, "-CAkey", ca_key, "-CAcreateserial")
    _openssl("x509", "-req", "-in", request, *signed_by, "-out", made.certificate, "-days", "2", "-extfile", extensions)
    return made


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
