"""TLS with certificates on both sides, users with passwords, and the errors for wrong ones."""

import asyncio

import pytest

from pulsar_barycenter.metadata.errors import StoreRefusedError, StoreUnavailableError
from pulsar_barycenter.metadata.etcd.etcd_settings import read_settings
from pulsar_barycenter.metadata.etcd.etcd_store import EtcdStore
from pulsar_barycenter.metadata.store import Notification, NotificationType
from support.certificates import make_certificates
from support.etcd_server import etcd_server, need_etcd, text
from support.metadata_backends import Heard


def write_settings(folder, certificates, **keys):
    file = folder / f"etcd-{len(list(folder.glob('etcd-*.yaml')))}.yaml"
    lines = {
        "useTls": "true",
        "tlsTrustCertsFilePath": certificates.authority,
        "tlsCertificateFilePath": certificates.certificate,
        "tlsKeyFilePath": certificates.key,
        **keys,
    }
    file.write_text("".join(f"{key}: {value}\n" for key, value in lines.items() if value))
    return str(file)


def add_user(server, name, password, *prefixes):
    server.call("auth/user/add", {"name": name, "password": password})
    server.call("auth/role/add", {"name": name})
    server.call("auth/user/grant", {"user": name, "role": name})
    for prefix in prefixes:
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        permission = {"permType": "READWRITE", "key": text(prefix), "range_end": text(end)}
        server.call("auth/role/grant", {"name": name, "perm": permission})


async def test_a_store_behind_tls_and_a_password(tmp_path, monkeypatch, capfd):
    """One server shows all: which clients are admitted with which permissions, an expired token, no secret in
    errors."""
    need_etcd()
    monkeypatch.setattr("pulsar_barycenter.metadata.grpc_client.grpc_store.OPENING_S", 1.0)
    certificates = make_certificates(tmp_path / "certificates")
    with etcd_server(tmp_path, certificates=certificates) as server:
        server.call("auth/user/add", {"name": "root", "password": "of-root"})
        server.call("auth/user/grant", {"user": "root", "role": "root"})
        add_user(server, "broker", "hush-hush", "/blue/", "barycenter/blue:")
        add_user(server, "stranger", "hush-hush", "/red/")
        server.call("auth/enable", {})
        url = f"{server.url}/blue"
        good = write_settings(tmp_path, certificates, user="broker", password="hush-hush")
        store = await EtcdStore.open(read_settings(url, good), session_timeout_ms=600_000)
        heard = Heard.changes(store)
        await store.put("/key", b"", ephemeral=True)
        await heard.until_heard(Notification(NotificationType.CREATED, "/key"))
        await store.delete("/key")

        store.connection._token = "which the server does not know"
        await store.put("/again", b"")
        assert await store.children("/") == ["again"]

        store.connection._token = "nor this"
        store.connection.leave(store.connection.line)  # the watch begins anew, and everything with it
        await asyncio.gather(*(store.put(f"/n{number}", b"") for number in range(10)))
        await heard.until_heard(*(Notification(NotificationType.CREATED, f"/n{number}") for number in range(10)))
        await store.close()

        for keys, why in (
            ({"user": "broker", "password": "hush-hush-not"}, "authentication failed"),
            ({"user": "stranger", "password": "hush-hush"}, "permission denied"),
            ({}, "permission denied|user name is empty"),
        ):
            refused = read_settings(url, write_settings(tmp_path, certificates, **keys))
            with pytest.raises(StoreRefusedError, match=why) as told:
                await EtcdStore.open(refused)
            assert "hush" not in str(told.value)
        for keys in ({"tlsTrustCertsFilePath": ""}, {"tlsCertificateFilePath": "", "tlsKeyFilePath": ""}):
            untrusted = read_settings(url, write_settings(tmp_path, certificates, **keys))
            with pytest.raises(StoreUnavailableError, match="session failed: unavailable"):
                await EtcdStore.open(untrusted)
        other_name = write_settings(tmp_path, certificates, authority="elsewhere.example")
        with pytest.raises(StoreUnavailableError, match="session failed: unavailable"):
            await EtcdStore.open(read_settings(url, other_name))
        named = write_settings(tmp_path, certificates, authority="localhost", user="broker", password="hush-hush")
        await (await EtcdStore.open(read_settings(url, named))).close()
    captured = capfd.readouterr()
    assert "hush" not in captured.out + captured.err
