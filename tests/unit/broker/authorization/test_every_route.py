"""Every route of the REST interface, requested anonymously, by a role without grants, and by roles with one grant."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from pulsar_barycenter.admin.routes.table import BY_PATH
from support.bad_proofs import BAD, GOOD, settings
from support.known_roles import ASKED, ROOT, as_role
from support.rest_cluster import Answer, RestCluster, rest_cluster

NAMED = {
    "tenant": "acme",
    "namespace": "orders",
    "topic": "t",
    "subscription": "s",
    "domain": "persistent",
    "range": "0x00000000_0xffffffff",
    "cluster": "standalone",
    "role": "carol",
    "name": "maxTenants",
    "value": "9",
    "broker": "b:1",
    "policy": "p",
    "group": "g",
    "allocator": "default",
    "file": "main.js",
    "ledger": "1",
    "entry": "1",
    "position": "1",
    "timestamp": "1",
    "seconds": "1",
    "count": "1",
    "version": "0",
    "key": "k",
    "bookie": "b:1",
    "scalable": "segments",
    "offload": "offloadPolicies",
    "generation": "v3",
    "functions": "functions",
    "rest": "",
}
ENDS_THE_BROKER = ("POST", "/admin/v2/brokers/shutdown")
EVERY_ROUTE = sorted(BY_PATH)

PUBLIC = {("GET", path) for path in ("/status.html", "/metrics", "/metrics/", "/", "/dashboard/{file}")}
KNOWN = {
    ("GET", "/admin/v2/clusters"),
    ("GET", "/admin/v2/brokers/ready"),
    ("GET", "/admin/v2/brokers/version"),
    ("GET", "/barycenter/v1/openapi.json"),
    *(route for route in EVERY_ROUTE if "{rest}" in route[1]),  # of what is left out
}
TOPIC = "/admin/v2/{domain}/{tenant}/{namespace}/{topic}"
SCHEMAS = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
EITHER = {
    *(route for route in EVERY_ROUTE if route[1].startswith("/lookup/v2/topic")),
    ("GET", "/admin/v2/namespaces/{tenant}/{namespace}/topics"),
    ("GET", "/admin/v2/namespaces/{tenant}/{namespace}/bundles"),
    ("GET", "/admin/v2/{domain}/{tenant}/{namespace}"),
    ("GET", "/admin/v2/scalable/{tenant}/{namespace}"),
    ("GET", "/admin/v2/{domain}/{tenant}/{namespace}/partitioned"),
    ("GET", "/admin/v2/non-persistent/{tenant}/{namespace}/{range}"),
    *(("GET", f"{TOPIC}/{what}") for what in ("partitions", "stats", "internalStats", "internal-info")),
    *(("GET", f"{TOPIC}/{what}") for what in ("partitioned-stats", "partitioned-internalStats", "properties")),
    *(("GET", f"{SCHEMAS}/{what}") for what in ("schema", "schema/{version}", "schemas", "metadata")),
    ("POST", f"{SCHEMAS}/version"),
}
NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
SUBSCRIPTION = f"{TOPIC}/subscription/{{subscription}}"
PRODUCE = {("POST", f"{SCHEMAS}/schema"), ("PUT", f"{TOPIC}/properties"), ("DELETE", f"{TOPIC}/properties")}
CONSUME = {
    ("GET", f"{TOPIC}/subscriptions"),
    ("PUT", SUBSCRIPTION),
    ("DELETE", SUBSCRIPTION),
    ("GET", f"{SUBSCRIPTION}/properties"),
    ("PUT", f"{SUBSCRIPTION}/properties"),
    *(("POST", f"{SUBSCRIPTION}/{what}") for what in ("skip/{count}", "skip_all", "expireMessages", "resetcursor")),
    ("POST", f"{SUBSCRIPTION}/expireMessages/{{seconds}}"),
    ("POST", f"{SUBSCRIPTION}/resetcursor/{{timestamp}}"),
    ("POST", f"{TOPIC}/all_subscription/expireMessages/{{seconds}}"),
    ("GET", f"{SUBSCRIPTION}/position/{{position}}"),
    *(("GET", f"{TOPIC}/{what}") for what in ("ledger/{ledger}/entry/{entry}", "examinemessage", "lastMessageId")),
    ("GET", f"{TOPIC}/messageid/{{timestamp}}"),
    ("PUT", f"{TOPIC}/backlogSize"),
    ("POST", f"{SUBSCRIPTION}/analyzeBacklog"),
    *((method, f"{SUBSCRIPTION}/replicatedSubscriptionStatus") for method in ("GET", "POST")),
    ("GET", f"{TOPIC}/getMessageIdByIndex"),
    *(("POST", f"{root}/unsubscribe/{{subscription}}") for root in (NAMESPACE, f"{NAMESPACE}/{{range}}")),
    *(("POST", f"{NAMESPACE}/{what}") for what in ("clearBacklog", "clearBacklog/{subscription}")),
    *(("POST", f"{NAMESPACE}/{{range}}/{what}") for what in ("clearBacklog", "clearBacklog/{subscription}")),
}
LEGACY = {route for route in EVERY_ROUTE if route[1].startswith("/lookup/v2/destination")}
"""Of a namespace of another name, acme/standalone/orders, in which nobody has a grant."""

OF_THE_TENANT = {
    route
    for route in EVERY_ROUTE
    if "{tenant}" in route[1]
    and not route[1].startswith(("/admin/v2/tenants", "/admin/v2/broker-stats", "/admin/v2/resource-quotas"))
    and not route[1].endswith(("/unload", "/split", "/bookieAffinity", "/migration"))
} | {
    ("GET", "/admin/v2/tenants/{tenant}"),
    ("GET", "/admin/v2/namespaces/{cluster}/antiAffinity/{group}"),
    ("GET", "/admin/namespaces/{cluster}/antiAffinity/{group}"),
    ("PUT", f"{TOPIC}/unload"),
}

ALLOWED = {
    "mallory": PUBLIC | KNOWN,
    "producer": PUBLIC | KNOWN | EITHER | PRODUCE,
    "at-topic": PUBLIC
    | KNOWN
    | PRODUCE
    | {route for route in EITHER if route[1].startswith((TOPIC + "/", SCHEMAS, "/lookup"))},
    "consumer": PUBLIC | KNOWN | EITHER | CONSUME,
    "sinks": PUBLIC | KNOWN,
    "admin": PUBLIC | KNOWN | OF_THE_TENANT,
    ROOT: set(EVERY_ROUTE),
}
"""What each role may, however it came by it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[RestCluster]:
    async with rest_cluster(force_delete_namespace_allowed=True, **ASKED) as running:
        yield running


async def restored(cluster: RestCluster) -> None:
    """Restore what the requests are about, whatever earlier requests did to it."""
    for method, path, body in (
        ("PUT", "/admin/v2/tenants/acme", {"adminRoles": ["admin"], "allowedClusters": ["standalone"]}),
        ("PUT", "/admin/v2/namespaces/acme/orders", {"bundles": {"numBundles": 1}}),
        ("PUT", "/admin/v2/persistent/acme/orders/t", None),
        ("POST", "/admin/v2/namespaces/acme/orders/permissions/producer", ["produce"]),
        ("POST", "/admin/v2/namespaces/acme/orders/permissions/consumer", ["consume"]),
        ("POST", "/admin/v2/namespaces/acme/orders/permissions/sinks", ["sinks", "sources", "functions", "packages"]),
        ("POST", "/admin/v2/persistent/acme/orders/t/permissions/at-topic", ["produce"]),
    ):
        answer = await cluster.call(method, path, body, headers=as_role(ROOT))
        assert answer.status in (204, 409), answer.body


async def ask(cluster: RestCluster, route: tuple[str, str], role: str) -> Answer:
    method, path = route
    query = {"tenant": "acme"} if "antiAffinity/{group}" in path else {}
    return await cluster.call(method, path.format(**NAMED), headers=as_role(role), **query)


def refused(answer: Answer) -> bool:
    """Whether it was the rights; other conditions have a 403 of their own."""
    return answer.status == 403 and "Client is not authorized to" in answer.reason


@pytest.mark.asyncio(loop_scope="module")
async def test_every_route_has_its_row_and_every_row_a_route(cluster: RestCluster) -> None:
    web = cluster.brokers[0].web
    app = web.app  # type: ignore[union-attr]
    routes = {(route.method, route.resource.canonical) for route in app.router.routes() if route.method != "HEAD"}
    assert routes == set(BY_PATH)


@pytest.mark.asyncio(loop_scope="module")
async def test_nobody_sees_more_than_whether_the_broker_is_there(cluster: RestCluster) -> None:
    for route in EVERY_ROUTE:
        answer = await ask(cluster, route, "")
        assert (answer.status == 401) is (route not in PUBLIC), (route, answer.status)
    assert (await cluster.call("HEAD", "/admin/v2/brokers")).status == 401


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asking_for_proof() -> AsyncIterator[RestCluster]:
    async with rest_cluster(**settings()) as running:
        yield running


@pytest.mark.asyncio(loop_scope="module")
async def test_a_proof_that_holds_opens_what_those_below_do_not(asking_for_proof: RestCluster) -> None:
    for proof in GOOD.values():
        await asking_for_proof.expect(200, "GET", "/admin/v2/tenants", headers=proof.in_header)


@pytest.mark.parametrize("name", BAD)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_bad_proof_opens_no_route_not_even_to_strangers(asking_for_proof: RestCluster, name: str) -> None:
    """Clients without credentials may use some routes here, by `anonymousUserRole`."""
    for method, path in EVERY_ROUTE:
        if (method, path) in PUBLIC:
            continue
        answer = await asking_for_proof.call(method, path.format(**NAMED), headers=BAD[name].in_header)
        assert (answer.status, BAD[name].said in answer.reason) == (401, True), (method, path, answer.body)
        assert "WWW-Authenticate" in answer.headers


async def test_nobody_sees_more_where_nobody_is_asked_who_it_is_either() -> None:
    """Such a configuration is refused when it is read; otherwise it would still allow nothing."""
    async with rest_cluster(authorization_enabled=True) as cluster:
        for route in EVERY_ROUTE:
            answer = await ask(cluster, route, "")
            assert (answer.status == 401) is (route not in PUBLIC), (route, answer.status)


@pytest.mark.parametrize(("asked", "status"), [(True, 401), (False, 200)])
async def test_metrics_are_for_all_unless_that_is_switched_off(asked: bool, status: int) -> None:
    async with rest_cluster(**{**ASKED, "authenticate_metrics_endpoint": asked}) as cluster:
        await cluster.expect(status, "GET", "/metrics")
        await cluster.expect(403, "GET", "/admin/v2/brokers", headers=as_role("mallory"))
        shown = await cluster.expect(200, "GET", "/metrics", headers=as_role("mallory"))
        (line,) = [line for line in shown.body.decode().splitlines() if line.startswith("barycenter_access_refusals")]
        assert line.endswith(" 1.0")


@pytest.mark.parametrize("role", sorted(ALLOWED))
@pytest.mark.asyncio(loop_scope="module")
async def test_each_role_gets_through_where_its_rights_reach_and_nowhere_else(cluster: RestCluster, role: str) -> None:
    await restored(cluster)
    through = set()
    for route in EVERY_ROUTE:
        if route == ENDS_THE_BROKER and role == ROOT:
            through.add(route)
            continue
        answer = await ask(cluster, route, role)
        if answer.status == 401 or refused(answer):
            continue
        through.add(route)
        if route[0] != "GET":
            await restored(cluster)
    assert through == ALLOWED[role]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_proxy_gets_no_further_than_its_client(cluster: RestCluster) -> None:
    await restored(cluster)
    path = "/admin/v2/persistent/acme/orders/t/stats"
    await cluster.expect(403, "GET", path, headers=as_role("proxy/producer"))
    await cluster.expect(
        204, "POST", "/admin/v2/namespaces/acme/orders/permissions/proxy", ["produce"], headers=as_role(ROOT)
    )
    await cluster.expect(200, "GET", path, headers=as_role("proxy/producer"))
    await cluster.expect(403, "GET", path, headers=as_role("proxy/mallory"))
    await cluster.expect(401, "GET", path, headers=as_role("proxy"))
    await cluster.expect(401, "GET", path, headers=as_role("producer/root"))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_refusal_says_nothing_of_what_there_is(cluster: RestCluster) -> None:
    """Whether a tenant, a namespace, a topic exists looks the same to a role without permissions."""
    await restored(cluster)
    for path in ("/admin/v2/namespaces/{}", "/admin/v2/namespaces/{}/orders", "/admin/v2/persistent/{}/orders/t/stats"):
        here, nowhere = [
            await cluster.call("GET", path.format(tenant), headers=as_role("mallory")) for tenant in ("acme", "none")
        ]
        assert (here.status, nowhere.status) == (403, 403)
        assert here.reason.replace("acme", "") == nowhere.reason.replace("none", "")
