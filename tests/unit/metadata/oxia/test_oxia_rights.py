"""TLS and tokens, and the errors for wrong ones."""

import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pulsar_barycenter.metadata.errors import StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.oxia.oxia_settings import read_settings
from pulsar_barycenter.metadata.oxia.oxia_store import OxiaStore
from pulsar_barycenter.metadata.store import Notification, NotificationType
from support.certificates import make_certificates
from support.metadata_backends import Heard
from support.oxia_server import need_oxia, oxia_ensemble

ISSUER = "https://issuer.example"


def write_settings(folder, certificates, **keys):
    file = folder / f"oxia-{len(list(folder.glob('oxia-*.properties')))}.properties"
    lines = {"enableTls": "true", "tlsTrustCertsFilePath": certificates.authority, **keys}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items() if value))
    return str(file)


def token_of(key, audience):
    claims = {"iss": ISSUER, "sub": "broker", "aud": audience, "exp": time.time() + 3600}
    return jwt.encode(claims, key, algorithm="RS256")


async def test_a_store_behind_tls_and_a_token(tmp_path, monkeypatch, capfd):
    """A token in a file is read again for each server; no output shows one."""
    need_oxia()
    certificates = make_certificates(tmp_path / "certificates")
    key = rsa.generate_private_key(65537, 2048)
    public = tmp_path / "public.pem"
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    issuers = {"issuers": {ISSUER: {"allowedAudiences": "oxia", "staticKeyFile": str(public)}}}
    options = [
        *("--tls-cert-file", str(certificates.certificate), "--tls-key-file", str(certificates.key)),
        *("--auth-provider-name", "oidc", "--auth-provider-params", json.dumps(issuers)),
    ]
    good, other = token_of(key, "oxia"), token_of(key, "others")
    with oxia_ensemble(tmp_path / "servers", 1, options=options) as (server,):
        url = f"{server.url}/blue"
        file = tmp_path / "token"
        file.write_text(good)
        settings = read_settings(url, write_settings(tmp_path, certificates, authParams=f"file://{file}"))
        monkeypatch.setattr("pulsar_barycenter.metadata.grpc_client.grpc_store.OPENING_S", 60.0)  # until somebody leads
        store = await OxiaStore.open(settings, session_timeout_ms=60_000)
        heard = Heard.changes(store)
        await store.put("/key", b"", ephemeral=True)
        await heard.until_heard(Notification(NotificationType.CREATED, "/key"))
        file.write_text(other)
        store.connection.leave(store.connection.line)
        with pytest.raises(StoreRefusedError, match="forbidden audience"):
            await store.put("/key", b"")
        file.write_text(good)
        store.connection.leave(store.connection.line)
        assert (await store.put("/again", b"")).created_by_self
        await store.close()

        monkeypatch.setattr("pulsar_barycenter.metadata.grpc_client.grpc_store.OPENING_S", 1.0)
        for keys, why in (({"authParams": f"token:{other}"}, "forbidden audience"), ({}, "oxia .* refused")):
            refused = read_settings(url, write_settings(tmp_path, certificates, **keys))
            with pytest.raises(StoreRefusedError, match=why) as told:
                await OxiaStore.open(refused)
            assert other not in str(told.value)
        untrusted = write_settings(tmp_path, certificates, authParams=f"token:{good}", tlsTrustCertsFilePath="")
        with pytest.raises(StoreUnavailableError, match="session was not executed"):
            await OxiaStore.open(read_settings(url, untrusted))
    captured = capfd.readouterr()
    assert good not in captured.out + captured.err
