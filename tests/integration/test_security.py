"""The stock client by each way to prove who it is, at both kinds of service URL, and with what proves nothing."""

import asyncio
import base64
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pulsar
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from structlog.testing import capture_logs

from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.credentials.token_keys import SigningKey
from support.authorities import Authority, Issued
from support.proofs import SECRET_URL, asking, token
from support.rest_cluster import RestCluster, rest_cluster
from support.stock_client import connect

pytestmark = pytest.mark.integration

QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
BASIC = {"userId": "alice", "password": "sesame"}
HTPASSWD = "alice:$apr1$abcdefgh$GQVaHFsauSKl0cgw4bVFJ/\n"


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with capture_logs() as found:
        yield found


def client(url: str | None, authentication: Any = None, **options: Any) -> pulsar.Client:
    options = {"operation_timeout_seconds": 20, **options}
    return connect(str(url), authentication=authentication, logger=QUIET, **options)


def works(url: str | None, authentication: Any, topics: int = 1, **options: Any) -> bool:
    """Send a message to each of so many topics of public/ns, and receive it."""
    made = client(url, authentication, **options)
    try:
        for number in range(topics):
            topic = f"persistent://public/ns/t{number}"
            consumer = made.subscribe(topic, f"s-{id(made)}")
            made.create_producer(topic).send(b"hello")
            message = consumer.receive(20_000)
            consumer.acknowledge(message)
            consumer.close()
    finally:
        made.close()
    return True


def refused(url: str | None, authentication: Any, **options: Any) -> bool:
    """Whether a client gets no producer; some clients of C++ try again until their time is over."""
    made = client(url, authentication, operation_timeout_seconds=1, **options)
    try:
        made.create_producer("persistent://public/ns/t0")
    except pulsar.PulsarException:
        return True
    finally:
        made.close()
    return False


async def try_all(cases: list[tuple[Any, ...]], judge: Any, **options: Any) -> list[bool]:
    return await asyncio.gather(*(asyncio.to_thread(judge, *case, **options) for case in cases))


def bearer(text: str) -> pulsar.AuthenticationToken:
    return pulsar.AuthenticationToken(text)


async def test_tokens_let_a_client_in_and_it_finds_its_topics_on_both_brokers(logs: list[Any]) -> None:
    expired, forged = token("alice", expires_at_s=1), token("alice", key=SigningKey(b"x" * 32, "HS256"))
    good = token("alice")
    tampered = f"{good[:-5]}AAAAA"
    async with rest_cluster(2, **asking()) as cluster:
        cluster.authorize(token("admin"))
        await cluster.create_namespace(bundles=4)
        urls = [each for broker in cluster.brokers for each in (broker.urls.broker_url, broker.urls.web_url)]
        for each in urls:  # binary first, which gives the bundles owners: see docs/security.md of redirects by HTTP
            assert await asyncio.to_thread(works, each, bearer(good), 6)
        served = [len(broker.registry.loaded()) for broker in cluster.brokers]
        assert min(served) > 0, "topics of both brokers were found"
        wrong = [None, *(bearer(each) for each in (expired, forged, tampered))]
        assert all(await try_all([(url, each) for url in urls[:2] for each in wrong], refused))
    told = str(logs)
    assert "authentication_refused" in told
    for secret in (good, expired, forged, tampered, token("broker"), token("admin"), SECRET_URL):
        assert secret not in told
        assert secret.rpartition(".")[2] not in told


async def test_tokens_of_a_private_key_let_a_client_in(tmp_path: Path) -> None:
    ours, theirs = (rsa.generate_private_key(public_exponent=65_537, key_size=2048) for _ in range(2))
    public = tmp_path / "public.pem"
    public.write_bytes(ours.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))

    def signed(role: str, by: rsa.RSAPrivateKey = ours) -> str:
        return jwt.encode({"sub": role}, by, "RS256")

    settings = {
        "token_secret_key": "",
        "token_public_key": f"file://{public}",
        "broker_client_authentication_parameters": f"token:{signed('broker')}",
    }
    async with rest_cluster(**asking(**settings)) as cluster:
        cluster.authorize(signed("admin"))
        await cluster.create_namespace(bundles=1)
        (broker,) = cluster.brokers
        for url in (broker.urls.broker_url, broker.urls.web_url):
            assert await asyncio.to_thread(works, url, bearer(signed("alice")))
            wrong = [None, bearer(signed("alice", theirs)), bearer(token("alice"))]
            assert all(await try_all([(url, each) for each in wrong], refused))


async def test_tls_alone_lets_in_whoever_trusts_the_broker(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    settings = tls_settings(authority, authority.issue("server"))
    async with rest_cluster(**settings) as cluster:
        await cluster.create_namespace(bundles=1)
        (broker,) = cluster.brokers
        for url in (broker.urls.broker_url_tls, broker.urls.web_url_tls):
            trust = {"tls_trust_certs_file_path": str(authority.file), "tls_validate_hostname": True}
            assert await asyncio.to_thread(works, url, None, **trust)
            assert await asyncio.to_thread(refused, url, None, tls_trust_certs_file_path=str(other.file))


async def test_a_token_is_renewed_while_its_client_is_connected() -> None:
    shown: list[int] = []
    asked_again = threading.Event()

    def supply() -> str:
        shown.append(1)
        if len(shown) > 1:
            asked_again.set()
            return token("alice")
        return token("alice", expires_at_s=int(time.time()) + 2)

    async with rest_cluster(**asking(authentication_refresh_check_seconds=0.1)) as cluster:
        cluster.authorize(token("admin"))
        await cluster.create_namespace(bundles=1)
        (broker,) = cluster.brokers
        made = client(broker.urls.broker_url, bearer(supply))  # type: ignore[arg-type]
        producer = await asyncio.to_thread(made.create_producer, "persistent://public/ns/t")
        before = connections_of(broker)
        assert await asyncio.to_thread(asked_again.wait, 30)
        await asyncio.to_thread(producer.send, b"after")
        assert connections_of(broker) == before
        assert {each.principal for each in before} == {Principal("alice")}
        await asyncio.to_thread(made.close)


def connections_of(broker: Broker) -> set[Connection]:
    return {each for each in broker.wire.connections if isinstance(each, Connection)}


def tls_settings(authority: Authority, server: Issued) -> dict[str, Any]:
    return {
        "broker_service_port_tls": 0,
        "web_service_port_tls": 0,
        "tls_certificate_file_path": str(server.certificate),
        "tls_key_file_path": str(server.key),
        "tls_trust_certs_file_path": str(authority.file),
        "broker_client_tls_enabled": True,
        "broker_client_trust_certs_file_path": str(authority.file),
    }


async def test_certificates_let_a_client_in_by_tls_alone(tmp_path: Path) -> None:
    """Two brokers without plain ports, which are known to one another by their certificate."""
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    own = authority.issue("broker")
    settings = tls_settings(authority, authority.issue("server")) | {
        "broker_service_port": None,
        "web_service_port": None,
        "authentication_enabled": True,
        "authentication_providers": ("tls",),
        "broker_client_authentication_plugin": "tls",
        "broker_client_authentication_parameters": f"tlsCertFile:{own.certificate},tlsKeyFile:{own.key}",
    }
    alice, stranger = authority.issue("alice"), other.issue("alice")
    trust = {"tls_trust_certs_file_path": str(authority.file), "tls_validate_hostname": True}
    async with rest_cluster(2, **settings) as cluster:
        urls = [each for broker in cluster.brokers for each in (broker.urls.broker_url_tls, broker.urls.web_url_tls)]
        await create_namespace(cluster, authority, alice)
        shows = pulsar.AuthenticationTLS(str(alice.certificate), str(alice.key))
        assert all(await try_all([(url, shows, 6) for url in urls], works, **trust))
        unknown = pulsar.AuthenticationTLS(str(stranger.certificate), str(stranger.key))
        assert all(await try_all([(url, each) for url in urls[:2] for each in (None, unknown)], refused, **trust))
        distrust = {"tls_trust_certs_file_path": str(other.file)}
        assert all(await try_all([(url, shows) for url in urls[:2]], refused, **distrust))
        plain = str(urls[0]).replace("pulsar+ssl", "pulsar")
        assert all(await try_all([(plain, None)], refused))


async def create_namespace(cluster: RestCluster, authority: Authority, shown: Issued) -> None:
    url = f"{cluster.brokers[0].urls.web_url_tls}/admin/v2/namespaces/public/ns"
    async with cluster.session.put(url, json={"bundles": {"numBundles": 4}}, ssl=authority.trusting(shown)) as answer:
        assert answer.status == 204, await answer.text()


async def test_users_let_a_client_in(logs: list[Any]) -> None:
    settings = {
        "authentication_enabled": True,
        "authentication_providers": ("org.apache.pulsar.broker.authentication.AuthenticationProviderBasic",),
        "basic_auth_conf": base64.b64encode(HTPASSWD.encode()).decode(),
        "broker_client_authentication_plugin": "basic",
        "broker_client_authentication_parameters": '{"userId": "alice", "password": "sesame"}',
    }
    async with rest_cluster(2, **settings) as cluster:
        cluster.session.headers["Authorization"] = f"Basic {base64.b64encode(b'alice:sesame').decode()}"
        await cluster.create_namespace(bundles=4)
        urls = [cluster.brokers[0].urls.broker_url, cluster.brokers[1].urls.web_url]
        for each in urls:
            assert await asyncio.to_thread(works, each, pulsar.AuthenticationBasic("alice", "sesame"), 6)
        wrong = [pulsar.AuthenticationBasic("alice", "guess"), pulsar.AuthenticationBasic("bob", "sesame")]
        assert all(await try_all([(url, each) for url in urls for each in wrong], refused))
    told = str(logs)
    assert "the user or the password is wrong" in told
    for secret in ("sesame", "guess", base64.b64encode(b"alice:sesame").decode(), "$apr1$"):
        assert secret not in told
