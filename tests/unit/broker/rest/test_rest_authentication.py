"""Authentication over HTTP: by a header, at every path but those for load balancers; brokers authenticate as well."""

from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.credentials.client_authentication import parse_authentication
from support.proofs import SECRET_URL, asking, token
from support.rest_cluster import Answer, RestCluster, rest_cluster

CLUSTERS = "/admin/v2/clusters"


def header(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(role)}"}


async def get(cluster: RestCluster, path: str, headers: dict[str, str] | None = None) -> Answer:
    url = f"{cluster.brokers[0].urls.web_url}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return Answer(answer.status, await answer.read(), answer.headers)


async def test_every_path_asks_who_it_is_but_those_for_load_balancers_figures_and_the_dashboards_files() -> None:
    async with rest_cluster(**asking()) as cluster:
        for path in (CLUSTERS, "/lookup/v2/topic/persistent/public/default/t", "/openapi.json", "/no/such/path"):
            answer = await get(cluster, path)
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="barycenter"'), path
            assert "Authorization: Bearer TOKEN" in answer.reason
        for path in ("/status.html", "/metrics", "/", "/dashboard/main.js"):
            assert (await get(cluster, path)).status == 200
        assert (await get(cluster, CLUSTERS, header("alice"))).json == ["standalone"]


async def test_figures_may_be_asked_for_by_name_only() -> None:
    async with rest_cluster(**asking(authenticate_metrics_endpoint=True)) as cluster:
        for path in ("/metrics", "/metrics/"):
            assert (await get(cluster, path)).status == 401
        assert (await get(cluster, "/metrics", header("prometheus"))).status == 200


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Authorization": f"Bearer {token('a', expires_at_s=1)}"}, "the token expired"),
        ({"Authorization": "Bearer e30.e30.e30"}, "not signed"),
        ({"Authorization": "Bearer"}, "no token"),
        ({"Authorization": "Basic YTpi"}, "this broker requires authentication"),
        (header("alice") | {"X-Original-Principal": "root"}, "not one of proxyRoles"),
    ],
)
async def test_what_is_not_believed_is_refused_without_repeating_it(headers: dict[str, str], said: str) -> None:
    with capture_logs() as logs:
        async with rest_cluster(**asking(anonymous_user_role="")) as cluster:
            answer = await get(cluster, CLUSTERS, headers)
    assert answer.status == 401
    assert said in answer.reason
    (told,) = [each for each in logs if each["event"] == "authentication_refused"]
    assert (told["path"], told["reason"]) == (CLUSTERS, answer.reason)
    assert headers["Authorization"].partition(" ")[2] not in str(logs).replace(answer.reason, "") or said == "no token"


async def test_a_body_of_somebody_unknown_is_not_read() -> None:
    async with rest_cluster(**asking()) as cluster:
        answer = await cluster.call("PUT", "/admin/v2/tenants/t", b"x" * (2 << 20))
        assert answer.status == 401


async def test_settings_are_shown_without_what_is_secret() -> None:
    async with rest_cluster(**asking()) as cluster:
        answer = await get(cluster, "/admin/v2/brokers/configuration/runtime", header("admin"))
        assert answer.json["tokenSecretKey"] == answer.json["brokerClientAuthenticationParameters"] == "*****"
        assert answer.json["authenticationProviders"] == "token"
        assert SECRET_URL not in answer.body.decode()
        assert token("broker") not in answer.body.decode()


async def test_brokers_show_one_another_who_they_are() -> None:
    """The leader gets the request to unload, the owner carries it out, and every owner is asked for its partitions."""
    async with rest_cluster(2, **asking()) as cluster:
        cluster.authorize(token("admin"))
        await cluster.create_namespace(bundles=4)
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/t/partitions", 6)
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ns/unload")
        client = AdminClient(shows=parse_authentication("token", f"token:{token('alice')}"))
        url, topic = cluster.brokers[1].urls.web_url, "/lookup/v2/topic/persistent/public/ns/t-partition-"
        assert url is not None
        owners = {(await client.call("GET", url, f"{topic}{part}"))["httpUrl"] for part in range(6)}
        await client.close()
        assert len(owners) == 2
        stats = await cluster.expect(200, "GET", "/admin/v2/persistent/public/ns/t/partitioned-stats")
        assert stats.json["metadata"]["partitions"] == 6


async def test_a_broker_that_is_not_believed_by_others_cannot_command_them() -> None:
    stranger: dict[str, Any] = {"broker_client_authentication_parameters": "token:e30.e30.e30"}
    with capture_logs() as logs:
        async with rest_cluster(1, **asking(**stranger)) as cluster:
            cluster.authorize(token("admin"))
            await cluster.create_namespace(bundles=1)
            answer = await cluster.call("PUT", "/admin/v2/namespaces/public/ns/unload")
            assert (answer.status, "not signed" in answer.reason) == (401, True)
    told = [each["reason"] for each in logs if each["event"] == "own_proof_not_believed"]
    assert ["not signed" in each for each in told] == [True]
