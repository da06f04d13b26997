"""Access tokens of a real OpenID Connect provider: the stock client, both admin tools and brokers among themselves.

Brokers, provider and clients are on loopback without TLS.
"""

import asyncio
import base64
import json
import os
import shlex
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import pulsar
import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.access.authentication import Session
from pulsar_barycenter.broker.access.principal import Principal
from pulsar_barycenter.broker.access.received_credentials import Credentials
from pulsar_barycenter.broker.load_manager.reporting.load_report_topic import ClientReportSender
from pulsar_barycenter.broker.wire.connection import Connection
from pulsar_barycenter.cli.main import main
from pulsar_barycenter.credentials.client_authentication import parse_authentication
from pulsar_barycenter.credentials.tls import ClientTls
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from support.maven import Dependency, PeerUnavailableError, class_path, java_of
from support.openid_provider import AUDIENCE, openid_provider
from support.rest_cluster import RestCluster, rest_cluster
from support.stock_client import connect

pytestmark = [pytest.mark.peer, pytest.mark.integration, pytest.mark.xdist_group("openid provider")]

PROVIDER = "org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID"
PLUGIN = "org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2"
QUIET = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
TOPIC = "persistent://public/ns/t"


def client_of(name: str, lifetime: int = 3600, algorithm: str = "RS256") -> dict[str, Any]:
    return {"secret": f"the-secret-of-{name}", "lifetime": lifetime, "algorithm": algorithm}


CLIENTS = {
    "broker": client_of("broker"),
    "admin": client_of("admin", algorithm="PS256"),
    "alice": client_of("alice", algorithm="ES256"),
    "brief": client_of("brief", lifetime=2),
    "brief-broker": client_of("brief-broker", lifetime=2),
}
SECRETS = [each["secret"] for each in CLIENTS.values()]


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    with ExitStack() as stack:
        try:
            url = stack.enter_context(openid_provider(tmp_path_factory.mktemp("provider"), CLIENTS))
        except PeerUnavailableError as error:
            if request.config.getoption("--peer-required"):
                raise
            pytest.skip(str(error))
        yield url


def private_key(name: str, secret: str | None = None) -> str:
    said = {"type": "client_credentials", "client_id": name, "client_secret": secret or CLIENTS[name]["secret"]}
    return f"data:application/json;base64,{base64.b64encode(json.dumps(said).encode()).decode()}"


def parameters(issuer: str, name: str, secret: str | None = None) -> str:
    """Return what Pulsar's clients, but for those of C++ and Python, are given."""
    return json.dumps({"issuerUrl": issuer, "privateKey": private_key(name, secret), "audience": AUDIENCE})


def settings(issuer: str, **more: Any) -> dict[str, Any]:
    return {
        "authentication_enabled": True,
        "authentication_providers": (PROVIDER,),
        "openid_allowed_token_issuers": (issuer,),
        "openid_allowed_audiences": (AUDIENCE,),
        "openid_require_issuers_use_https": False,
        "authorization_enabled": True,
        "super_user_roles": ("broker", "brief-broker", "admin"),
        "broker_client_authentication_plugin": PLUGIN,
        "broker_client_authentication_parameters": parameters(issuer, "broker"),
        **more,
    }


async def token_of(issuer: str, name: str) -> str:
    shows = parse_authentication(PLUGIN, parameters(issuer, name))
    await shows.renew()
    return (shows.auth_data() or b"").decode()


async def prepared(cluster: RestCluster, issuer: str) -> None:
    """Make a namespace for alice and brief."""
    cluster.authorize(await token_of(issuer, "admin"))
    await cluster.create_namespace(bundles=4)
    for name in ("alice", "brief"):
        await cluster.expect(204, "POST", f"/admin/v2/namespaces/public/ns/permissions/{name}", ["produce", "consume"])


@pytest.fixture
async def cluster(issuer: str) -> AsyncIterator[RestCluster]:
    """Two brokers and a namespace."""
    async with rest_cluster(2, **settings(issuer)) as made:
        await prepared(made, issuer)
        yield made


def stock_client(url: str | None, issuer: str, name: str, secret: str | None = None) -> pulsar.Client:
    said = {"issuer_url": issuer, "private_key": private_key(name, secret), "audience": AUDIENCE}
    authentication = pulsar.AuthenticationOauth2(json.dumps(said))
    return connect(str(url), authentication=authentication, logger=QUIET, operation_timeout_seconds=20)


def passes_messages(url: str | None, issuer: str, name: str) -> bool:
    """Send a message to each of six topics, and receive it."""
    made = stock_client(url, issuer, name)
    try:
        for number in range(6):
            consumer = made.subscribe(f"{TOPIC}{number}", f"s-{id(made)}")
            made.create_producer(f"{TOPIC}{number}").send(b"hello")
            consumer.acknowledge(consumer.receive(20_000))
            consumer.close()
    finally:
        made.close()
    return True


def is_refused(url: str | None, issuer: str, name: str, secret: str | None = None) -> bool:
    made = stock_client(url, issuer, name, secret)
    try:
        made.create_producer(f"{TOPIC}0")
    except pulsar.PulsarException:
        return True
    finally:
        made.close()
    return False


async def test_the_stock_client_finds_its_topics_on_both_brokers(cluster: RestCluster, issuer: str) -> None:
    with capture_logs() as logs:
        for broker in cluster.brokers:
            assert await asyncio.to_thread(passes_messages, broker.urls.broker_url, issuer, "alice")
        url = cluster.brokers[0].urls.broker_url
        assert await asyncio.to_thread(is_refused, url, issuer, "admin", "guess")
    assert min(len(broker.registry.loaded()) for broker in cluster.brokers) > 0, "topics of both brokers were found"
    told = str(logs)
    for secret in (*SECRETS, await token_of(issuer, "alice")):
        assert secret not in told


def own_tool(*words: str) -> tuple[int, str, str]:
    with capture_logs():
        result = CliRunner().invoke(main, ["admin", *words])
    return result.exit_code, result.stdout, result.stderr


async def test_barycenter_admin_reads_client_conf(
    cluster: RestCluster, issuer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/listed")
    conf = tmp_path / "client.conf"
    url = str(cluster.brokers[1].urls.web_url)
    conf.write_text(f"webServiceUrl={url}\nauthPlugin={PLUGIN}\nauthParams={parameters(issuer, 'admin')}\n")
    monkeypatch.setenv("PULSAR_CLIENT_CONF", str(conf))
    ended, printed, told = await asyncio.to_thread(own_tool, "topics", "list", "public/ns")
    assert ended == 0, told
    assert "persistent://public/ns/listed" in printed
    options = ("--admin-url", url, "--auth-plugin", PLUGIN, "--auth-params")
    ended, _, errors = await asyncio.to_thread(
        own_tool, *options, parameters(issuer, "admin", "guess"), "topics", "list", "public/ns"
    )
    assert ended != 0
    assert "invalid_client" in errors
    assert "guess" not in errors
    ended, _, errors = await asyncio.to_thread(
        own_tool, *options, parameters(issuer, "alice"), "tenants", "create", "alices"
    )
    assert ended != 0
    assert "not authorized to do what super users do" in errors


async def test_pulsar_admin_of_java_lists_topics(
    cluster: RestCluster, issuer: str, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--peer-required"):
        pytest.skip("it takes a minute; make peer runs it")
    await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/listed")
    jars = await asyncio.to_thread(
        class_path,
        Dependency("org.apache.pulsar:pulsar-client-tools", "4.0.8"),
        versions_of=Dependency("org.apache.pulsar:pulsar", "4.0.8"),
    )
    source = Path(__file__).parents[1] / "support" / "java" / "AdminLines.java"
    process = await asyncio.create_subprocess_exec(
        *(java_of(17)[0], "-cp", os.pathsep.join(jars), str(source), str(cluster.brokers[0].urls.web_url)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    words = ["--auth-plugin", PLUGIN, "--auth-params", parameters(issuer, "admin")]
    line = "\t".join([*words, *shlex.split("topics list public/ns")])
    answers, _ = await process.communicate(f"{line}\n".encode())
    ended, printed, errors = answers.decode().splitlines()[-1].split(" ")
    told = [base64.b64decode(each.removeprefix("=")).decode() for each in (printed, errors)]
    assert ended == "true", told
    assert "persistent://public/ns/listed" in told[0]


async def test_brokers_command_one_another(cluster: RestCluster) -> None:
    """One broker has a bundle unloaded by the one that owns it, as leaders do."""
    owner = await cluster.owner("persistent/public/ns/t0")
    other = next(broker for broker in cluster.brokers if broker is not owner)
    bundle: Bundle = await other.lookup.bundle_of(TopicName.parse("persistent://public/ns/t0"))
    assert bundle in owner.ownership.held_bundles()
    await other.env.peers.unload_bundle(str(owner.urls.web_url), bundle, destination=None, epoch=None)
    assert bundle not in owner.ownership.held_bundles()


async def test_reports_are_published_by_the_stock_client_of_a_broker(cluster: RestCluster, issuer: str) -> None:
    url = str(cluster.brokers[0].urls.broker_url)
    shows = parse_authentication(PLUGIN, parameters(issuer, "broker"))
    sender = await asyncio.to_thread(ClientReportSender, url, ClientTls(shows=shows))
    await asyncio.to_thread(sender.send, LocalBrokerData(broker_id="b:1"))
    await asyncio.to_thread(sender.close)


async def test_a_brief_token_is_renewed_while_its_client_is_connected(
    issuer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker asks by AUTH_CHALLENGE, and the client obtains another token from the provider.

    With a leeway, as clients of C++ and Python show a token until its last moment, by their own reckoning.
    """
    more = {
        "authentication_refresh_check_seconds": 0.1,
        "openid_accepted_time_leeway_seconds": 2.0,
        "broker_client_authentication_parameters": parameters(issuer, "brief-broker"),
    }
    async with rest_cluster(**settings(issuer, **more)) as cluster:
        await prepared(cluster, issuer)
        (broker,) = cluster.brokers
        made = stock_client(broker.urls.broker_url, issuer, "brief")
        producer = await asyncio.to_thread(made.create_producer, f"{TOPIC}0")
        before = {each for each in broker.wire.connections if isinstance(each, Connection)}
        assert {each.principal for each in before} == {Principal("brief")}
        goes_on = asyncio.Event()
        take = broker.authentication.refreshed

        async def refreshed(session: Session, shown: Credentials) -> Session:
            made = await take(session, shown)
            assert (made.expires_at_s or 0) > (session.expires_at_s or 0)
            goes_on.set()
            return made

        monkeypatch.setattr(broker.authentication, "refreshed", refreshed)
        async with asyncio.timeout(60):
            await goes_on.wait()
        await asyncio.to_thread(producer.send, b"after")
        assert {each for each in broker.wire.connections if isinstance(each, Connection)} == before
        await asyncio.to_thread(made.close)
        for _ in range(2):  # the broker's own token ended meanwhile
            await broker.env.peers.client.call("GET", str(broker.urls.web_url), "/admin/v2/clusters")


async def test_a_provider_that_is_away_and_comes_back_with_other_keys(tmp_path: Path, issuer: str) -> None:
    """`issuer` only says whether there can be one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    more = {"openid_key_id_cache_miss_refresh_seconds": 0.0, "openid_http_read_timeout_millis": 2_000}
    async with AsyncExitStack() as stack:
        with capture_logs() as logs:  # the broker starts before the provider
            cluster = await stack.enter_async_context(rest_cluster(**settings(url, **more)))
        assert "own_proof_not_obtained" in {each["event"] for each in logs}
        (broker,) = cluster.brokers
        with openid_provider(tmp_path, CLIENTS, port):
            await prepared(cluster, url)
            assert await asyncio.to_thread(passes_messages, broker.urls.broker_url, url, "alice")
            old = await token_of(url, "admin")
        await cluster.expect(200, "GET", "/admin/v2/clusters")
        client = AdminClient(shows=parse_authentication(PLUGIN, parameters(url, "admin")))
        stack.push_async_callback(client.close)
        with pytest.raises(AdminRequestError, match="no token was obtained"):
            await client.call("GET", str(broker.urls.web_url), "/admin/v2/clusters")
        with openid_provider(tmp_path, CLIENTS, port):
            async with asyncio.timeout(60):
                while not await lets_in(cluster, await token_of(url, "admin")):
                    await asyncio.sleep(0.05)
            assert not await lets_in(cluster, old), "a key that is published no more is not believed"
            assert await asyncio.to_thread(passes_messages, broker.urls.broker_url, url, "alice")


async def lets_in(cluster: RestCluster, token: str) -> bool:
    answer = await cluster.call("GET", "/admin/v2/clusters", headers={"Authorization": f"Bearer {token}"})
    return answer.status == 200
