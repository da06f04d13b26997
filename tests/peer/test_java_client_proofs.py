"""The stock Java client and its PulsarAdmin by each way to prove who one is, with a wrong proof, and with none."""

import asyncio
import base64
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest

from pulsar_barycenter.credentials.token_keys import SigningKey
from support.authorities import Authority
from support.maven import Dependency, PeerUnavailableError, class_path, java_of
from support.proofs import asking, token
from support.rest_cluster import RestCluster, rest_cluster

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("java client proofs")]

AUTH = "org.apache.pulsar.client.impl.auth.Authentication"
HTPASSWD = "alice:$apr1$abcdefgh$GQVaHFsauSKl0cgw4bVFJ/\n"
LINES = Path(__file__).parents[1] / "support" / "java" / "ClientLines.java"
NOTHING = ("", "")


@pytest.fixture(autouse=True)
def asked_for(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--peer-required"):
        pytest.skip("each starts a JVM; make peer runs it")


async def answers(urls: list[str | None], shown: list[tuple[str, str]], trust: str = "") -> list[list[str]]:
    """Return what Java's client says of each proof (plugin, parameters), and of each at every URL."""
    try:
        jars = await asyncio.to_thread(
            class_path,
            Dependency("org.apache.pulsar:pulsar-client-tools", "4.0.8"),
            versions_of=Dependency("org.apache.pulsar:pulsar", "4.0.8"),
        )
        java = java_of(17)[0]
    except PeerUnavailableError as error:
        pytest.fail(str(error))
    lines = [[str(url), *each, trust, "persistent://public/ns/t"] for each in shown for url in urls]
    process = await asyncio.create_subprocess_exec(
        *(java, "-cp", os.pathsep.join(jars), str(LINES)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    told, _ = await process.communicate("".join("\t".join(line) + "\n" for line in lines).encode())
    found = [line.removeprefix("answer ") for line in told.decode().splitlines() if line.startswith("answer ")]
    assert len(found) == len(lines)
    return [found[at : at + len(urls)] for at in range(0, len(found), len(urls))]


def assert_let_in(told: list[str]) -> None:
    """Over the binary protocol, and over HTTP."""
    assert told == ["hello", "public/default,public/ns"]


def assert_refused(told: list[str]) -> None:
    assert all(each.endswith("Exception") for each in told), told


def plain_urls(cluster: RestCluster) -> list[str | None]:
    (broker,) = cluster.brokers
    return [broker.urls.broker_url, broker.urls.web_url]


def by_token(text: str) -> tuple[str, str]:
    return f"{AUTH}Token", f"token:{text}"


async def test_tokens_of_a_secret_key() -> None:
    async with rest_cluster(**asking()) as cluster:
        cluster.authorize(token("admin"))
        await cluster.create_namespace(bundles=1)
        forged = token("alice", key=SigningKey(b"x" * 32, "HS256"))
        shown = [by_token(token("alice")), by_token(forged), by_token(token("alice", expires_at_s=1)), NOTHING]
        good, *wrong = await answers(plain_urls(cluster), shown)
        assert_let_in(good)
        for each in wrong:
            assert_refused(each)


def key_pair(folder: Path, name: str) -> tuple[Path, Path]:
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-out", str(private)], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)], check=True)
    return private, public


async def test_tokens_of_a_private_key(tmp_path: Path) -> None:
    (private, public), (other, _) = (key_pair(tmp_path, name) for name in ("ours", "theirs"))

    def signed(role: str, key: Path) -> str:
        return jwt.encode({"sub": role}, key.read_text(), "RS256")

    settings = {
        "token_secret_key": "",
        "token_public_key": f"file://{public}",
        "broker_client_authentication_parameters": f"token:{signed('broker', private)}",
    }
    async with rest_cluster(**asking(**settings)) as cluster:
        cluster.authorize(signed("admin", private))
        await cluster.create_namespace(bundles=1)
        shown = [by_token(signed("alice", private)), by_token(signed("alice", other)), NOTHING]
        good, wrong, none = await answers(plain_urls(cluster), shown)
        assert_let_in(good)
        assert_refused(wrong)
        assert_refused(none)


async def test_users_and_passwords() -> None:
    def by_password(password: str) -> tuple[str, str]:
        return f"{AUTH}Basic", f'{{"userId": "alice", "password": "{password}"}}'

    settings = {
        "authentication_enabled": True,
        "authentication_providers": ("basic",),
        "basic_auth_conf": base64.b64encode(HTPASSWD.encode()).decode(),
        "broker_client_authentication_plugin": "basic",
        "broker_client_authentication_parameters": by_password("sesame")[1],
    }
    async with rest_cluster(**settings) as cluster:
        cluster.session.headers["Authorization"] = f"Basic {base64.b64encode(b'alice:sesame').decode()}"
        await cluster.create_namespace(bundles=1)
        good, wrong, none = await answers(plain_urls(cluster), [by_password("sesame"), by_password("guess"), NOTHING])
        assert_let_in(good)
        assert_refused(wrong)
        assert_refused(none)


@asynccontextmanager
async def by_tls(folder: Path, **settings: Any) -> AsyncIterator[tuple[Authority, list[str | None]]]:
    authority = Authority(folder)
    server, alice = authority.issue("server"), authority.issue("alice")
    settings = {
        "broker_service_port": None,
        "web_service_port": None,
        "broker_service_port_tls": 0,
        "web_service_port_tls": 0,
        "tls_certificate_file_path": str(server.certificate),
        "tls_key_file_path": str(server.key),
        "tls_trust_certs_file_path": str(authority.file),
        "broker_client_tls_enabled": True,
        "broker_client_trust_certs_file_path": str(authority.file),
        **settings,
    }
    if settings.get("authentication_enabled"):
        own = authority.issue("broker")
        settings["broker_client_authentication_parameters"] = f"tlsCertFile:{own.certificate},tlsKeyFile:{own.key}"
    async with rest_cluster(**settings) as cluster:
        (broker,) = cluster.brokers
        url = f"{broker.urls.web_url_tls}/admin/v2/namespaces/public/ns"
        async with cluster.session.put(url, json={"bundles": {"numBundles": 1}}, ssl=authority.trusting(alice)) as said:
            assert said.status == 204, await said.text()
        yield authority, [broker.urls.broker_url_tls, broker.urls.web_url_tls]


async def test_certificates(tmp_path: Path) -> None:
    settings = {
        "authentication_enabled": True,
        "authentication_providers": ("tls",),
        "broker_client_authentication_plugin": "tls",
    }
    async with by_tls(tmp_path, **settings) as (authority, urls):
        shown = [
            (f"{AUTH}Tls", f"tlsCertFile:{each.certificate},tlsKeyFile:{each.key}")
            for each in (authority.issue("bob"), Authority(tmp_path, "other").issue("bob"))
        ]
        good, wrong, none = await answers(urls, [*shown, NOTHING], str(authority.file))
        assert_let_in(good)
        assert_refused(wrong)
        assert_refused(none)


async def test_tls_alone(tmp_path: Path) -> None:
    """Whoever trusts the broker's authority is served, and trusts no other broker."""
    async with by_tls(tmp_path) as (authority, urls):
        (good,) = await answers(urls, [NOTHING], str(authority.file))
        assert_let_in(good)
        (wrong,) = await answers(urls, [NOTHING], str(Authority(tmp_path, "other").file))
        assert_refused(wrong)
