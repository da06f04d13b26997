"""Both ports with TLS: redirects of clients, their role by certificate, and connections between brokers."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.load_manager.modular.modular_load_manager import ModularLoadManager
from pulsar_barycenter.broker.rest.relay import FOLLOW
from pulsar_barycenter.broker.rest.server import RestServer
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.config.broker_conf import ConfigError
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.protocol import client_commands
from support.authorities import Authority
from support.proofs import asking, token
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

LOOKUP = "/lookup/v2/topic/persistent/public/default/t"


class Pki:
    """An authority, what brokers show, and what a client shows."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.other = Authority(folder, "other")
        self._server = self.authority.issue("server")
        self._broker = self.authority.issue("broker")

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "broker_service_port_tls": 0,
            "web_service_port_tls": 0,
            "tls_certificate_file_path": str(self._server.certificate),
            "tls_key_file_path": str(self._server.key),
            "tls_trust_certs_file_path": str(self.authority.file),
            "broker_client_tls_enabled": True,
            "broker_client_trust_certs_file_path": str(self.authority.file),
            **more,
        }

    def by_certificate(self, **more: Any) -> dict[str, Any]:
        files = f"tlsCertFile:{self._broker.certificate},tlsKeyFile:{self._broker.key}"
        return self.settings(
            authentication_enabled=True,
            authentication_providers=("org.apache.pulsar.broker.authentication.AuthenticationProviderTls",),
            broker_client_authentication_plugin="org.apache.pulsar.client.impl.auth.AuthenticationTls",
            broker_client_authentication_parameters=files,
            **more,
        )


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


async def ask(
    broker: Broker, path: str, context: ssl.SSLContext, *, follow: bool = True, **headers: str
) -> tuple[int, Any, str]:
    """Return status, JSON and `Location` of an answer by TLS."""
    async with aiohttp.ClientSession(headers=headers) as session:
        url = f"{broker.urls.web_url_tls}{path}"
        async with session.get(url, ssl=context, allow_redirects=follow) as answer:
            told = await answer.json() if answer.content_type == "application/json" else None
            return answer.status, told, answer.headers.get("Location", "")


def principals(broker: Broker) -> set[Principal]:
    return {each.principal for each in broker.wire.connections if isinstance(each, Connection)}


async def wire_client(broker: Broker, context: ssl.SSLContext, **proof: Any) -> WireClient:
    url = broker.urls.broker_url_tls
    assert url is not None
    return await WireClient.connect(int(url.rpartition(":")[2]), tls=context, **proof)


async def test_look_ups_tell_both_ways_to_a_broker(pki: Pki) -> None:
    async with rest_cluster(**pki.settings()) as cluster:
        (broker,) = cluster.brokers
        _, told, _ = await ask(broker, LOOKUP, pki.authority.trusting())
        urls = broker.urls
        assert told["brokerUrlTls"] == urls.broker_url_tls
        assert (told["brokerUrl"], told["httpUrl"], told["httpUrlTls"]) == (
            urls.broker_url,
            urls.web_url,
            urls.web_url_tls,
        )
        assert str(urls.broker_url_tls).startswith("pulsar+ssl://127.0.0.1:")
        assert urls.broker_id == str(urls.web_url).removeprefix("http://")
        report = broker.load_manager.load_report()
        assert (report.pulsar_service_url_tls, report.web_service_url_tls) == (urls.broker_url_tls, urls.web_url_tls)
        client = await wire_client(broker, pki.authority.trusting())
        assert (await client.produce("persistent://public/default/t")).producer_name
        clusters = (await cluster.expect(200, "GET", "/admin/v2/clusters/standalone")).json
        assert (clusters["serviceUrlTls"], clusters["brokerServiceUrlTls"]) == (urls.web_url_tls, urls.broker_url_tls)


async def redirected(cluster: RestCluster, context: ssl.SSLContext) -> list[str]:
    """Return where look-ups of many topics by TLS are sent that another broker serves."""
    sent = []
    for broker in cluster.brokers:
        for topic in range(6):
            status, _, location = await ask(
                broker, f"/lookup/v2/topic/persistent/public/ns/t{topic}", context, follow=False
            )
            if status == 307:
                sent.append(location)
    return sent


async def test_who_asks_by_tls_is_sent_on_by_tls(pki: Pki) -> None:
    async with rest_cluster(2, **pki.settings()) as cluster:
        await cluster.create_namespace(bundles=4)
        sent = await redirected(cluster, pki.authority.trusting())
        assert sent
        assert all(each.startswith("https://127.0.0.1:") for each in sent)


@pytest.mark.parametrize("path", ["/standalone/{}/ownedNamespaces?x=1", "/health?brokerId={}"])
async def test_who_asks_a_broker_of_another_by_tls_is_sent_on_by_tls(pki: Pki, path: str) -> None:
    """Its id has the port without TLS, which is not where to ask; the dashboard has it asked by the broker."""
    async with rest_cluster(2, **asking(**pki.settings())) as cluster:
        first, second = cluster.brokers
        trusting = pki.authority.trusting()
        bearer = {"Authorization": f"Bearer {token('alice')}"}
        where = "/admin/v2/brokers" + path.format(second.broker_id)
        await first.control.registration.refresh()
        status, _, location = await ask(first, where, trusting, follow=False, **bearer)
        assert (status, location.partition("/admin")[0]) == (307, second.urls.web_url_tls)
        assert (await ask(first, where, trusting, follow=False, **bearer, **{FOLLOW: "true"}))[0] == 200
        answer = await cluster.call("GET", where, follow=False, headers=bearer)
        assert answer.location.startswith(f"{second.urls.web_url}/")


async def test_a_broker_without_tls_is_not_told_to_who_asks_by_tls(pki: Pki) -> None:
    async with rest_cluster(**pki.settings()) as cluster:
        (first,) = cluster.brokers
        second = await cluster.add(broker_shutdown_timeout_ms=0)
        await first.control.registration.refresh()
        path = f"/admin/v2/brokers/health?brokerId={second.broker_id}"
        status, told, location = await ask(first, path, pki.authority.trusting(), follow=False)
        assert (status, location) == (412, "")
        assert "has no HTTPS port" in told["reason"]


async def test_connections_by_tls_are_counted_when_their_handshake_is_done(pki: Pki) -> None:
    """All have come before the first one shakes hands."""
    async with rest_cluster(max_http_server_connections=2, load_balancer_enabled=False, **pki.settings()) as cluster:
        (broker,) = cluster.brokers
        assert isinstance(broker.web, RestServer)
        port = broker.web.tls_port
        trusting, loop = pki.authority.trusting(), asyncio.get_running_loop()
        come = [await loop.run_in_executor(None, socket.create_connection, ("127.0.0.1", port)) for _ in range(5)]
        statuses, writers = [], []
        for _ in range(100):
            await asyncio.sleep(0)
        for each in come:
            each.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=each, ssl=trusting, server_hostname="localhost")
            writer.write(b"GET /admin/v2/clusters HTTP/1.1\r\nHost: localhost\r\n\r\n")
            statuses.append((await reader.readline()).split()[1])
            writers.append((reader, writer))
        assert statuses == [b"200"] * 2 + [b"503"] * 3
        assert b"maxHttpServerConnections" in await writers[-1][0].read()
        for _, writer in writers:
            writer.transport.abort()


async def test_without_plain_ports_brokers_reach_one_another_by_tls(pki: Pki) -> None:
    """Known by certificates, the broker by its own: an unload of a namespace goes to the owners of its bundles."""
    settings = pki.by_certificate(broker_service_port=None, web_service_port=None)
    async with rest_cluster(2, factory=ModularLoadManager, **settings) as cluster:
        first, second = cluster.brokers
        assert (first.urls.broker_url, first.urls.web_url) == (None, None)
        assert first.broker_id == str(first.urls.web_url_tls).removeprefix("https://")
        admin = pki.authority.trusting(pki.authority.issue("admin"))
        status, told, _ = await ask(first, LOOKUP, admin)
        assert (status, told["brokerUrl"]) == (200, None)
        async with aiohttp.ClientSession() as session:
            for broker in (first, second):
                url = f"{broker.urls.web_url_tls}/admin/v2/namespaces/public/default/unload"
                async with session.put(url, ssl=admin) as answer:
                    assert answer.status == 204, await answer.text()


async def test_a_certificate_is_a_role_at_both_ports(pki: Pki) -> None:
    async with rest_cluster(**pki.by_certificate()) as cluster:
        (broker,) = cluster.brokers
        alice = pki.authority.trusting(pki.authority.issue("alice"))
        assert (await ask(broker, "/admin/v2/clusters", alice))[0] == 200
        client = await wire_client(broker, alice, auth_method_name="tls")
        assert principals(broker) == {Principal("alice")}
        client.close()
        status, told, _ = await ask(broker, "/admin/v2/clusters", pki.authority.trusting())
        assert (status, "certificate of an authority that this cluster trusts" in told["reason"]) == (401, True)
        with pytest.raises(AssertionError, match="this broker requires authentication"):
            await wire_client(broker, pki.authority.trusting())
        with pytest.raises(AssertionError, match="no certificate"):
            await wire_client(broker, pki.authority.trusting(), auth_method_name="tls")
        assert (await cluster.call("GET", "/admin/v2/clusters")).status == 401
        stranger = pki.authority.trusting(pki.other.issue("alice"))
        with pytest.raises((aiohttp.ClientError, OSError)):
            await ask(broker, "/admin/v2/clusters", stranger)
        with pytest.raises((AssertionError, OSError)):
            await wire_client(broker, stranger, auth_method_name="tls")


def _old(pki: Pki) -> ssl.SSLContext:
    old = pki.authority.trusting(pki.authority.issue("alice"))
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    return old


REFUSED = {
    "TLS 1.1": _old,
    "the broker's authority is not trusted": lambda pki: pki.other.trusting(pki.authority.issue("alice")),
    "a certificate of another authority": lambda pki: pki.authority.trusting(pki.other.issue("alice")),
    "a certificate that expired": lambda pki: pki.authority.trusting(pki.authority.issue("alice", days=-1)),
    "no certificate": lambda pki: pki.authority.trusting(),
}
"""How clients come, where a certificate is required, that never get to say a word."""


GREETINGS = {
    "broker_url_tls": client_commands.connect("Test", auth_method_name="tls"),
    "web_url_tls": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


async def answered(broker: Broker, url: str, context: ssl.SSLContext) -> bool:
    """Return whether a port answers a greeting. With TLS 1.3 a client notices a refusal when it reads."""
    port = int(getattr(broker.urls, url).rpartition(":")[2])
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(GREETINGS[url])
        async with asyncio.timeout(30):
            found = await reader.read(1)
        writer.transport.abort()
    except (ssl.SSLError, ConnectionError):
        return False
    return found != b""


@pytest.mark.parametrize("how", REFUSED)
@pytest.mark.parametrize("url", GREETINGS)
async def test_whom_tls_refuses_is_no_connection_at_either_port(pki: Pki, url: str, how: str) -> None:
    settings = pki.by_certificate(tls_require_trusted_client_cert_on_connect=True)
    async with rest_cluster(load_balancer_enabled=False, **settings) as cluster:
        (broker,) = cluster.brokers
        assert not await answered(broker, url, REFUSED[how](pki))
        assert not broker.wire.connections
        assert isinstance(broker.web, RestServer)
        assert broker.web.connections == 0
        assert await answered(broker, url, pki.authority.trusting(pki.authority.issue("alice")))


async def test_tokens_are_believed_by_tls_as_without(pki: Pki) -> None:
    async with rest_cluster(**asking(**pki.settings())) as cluster:
        (broker,) = cluster.brokers
        trusting = pki.authority.trusting()
        bearer = {"Authorization": f"Bearer {token('alice')}"}
        assert (await ask(broker, "/admin/v2/clusters", trusting, **bearer))[0] == 200
        assert (await ask(broker, "/admin/v2/clusters", trusting))[0] == 401
        await wire_client(broker, trusting, auth_method_name="token", auth_data=token("alice").encode())
        assert principals(broker) == {Principal("alice")}


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        (
            {"broker_service_port": None},
            ConfigError,
            "brokerServicePort= is not allowed: .* unless brokerServicePortTls",
        ),
        ({"web_service_port": None}, ConfigError, "webServicePort= is not allowed"),
        ({"broker_service_port_tls": 0}, KeyMaterialError, "tlsCertificateFilePath: the PEM file is not set"),
    ],
)
async def test_what_is_missing_is_told_at_the_start(
    settings: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        async with rest_cluster(**settings):
            pass


async def test_certificates_prove_nothing_where_none_are_asked_for(pki: Pki) -> None:
    for settings, key in (
        ({"tls_trust_certs_file_path": ""}, "tlsTrustCertsFilePath"),
        ({"tls_allow_insecure_connection": True}, "tlsAllowInsecureConnection"),
    ):
        with pytest.raises(ConfigError, match=f"^{key}="):
            async with rest_cluster(**pki.by_certificate(**settings)):
                pass
