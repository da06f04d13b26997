"""Administrative changes are recorded with principal, address and reason, without the values that were set."""

from urllib.parse import quote

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.rest.audit import WHY
from pulsar_barycenter.broker.rest.relay import FOLLOW
from pulsar_barycenter.cluster_logs.audit_log import MAX_WHY_CHARACTERS
from support.rest_cluster import RestCluster, rest_cluster

AUDIT = "/barycenter/v1/audit"
SET = "/admin/v2/brokers/configuration/loadBalancerSheddingExcludedNamespaces"


async def routes(cluster: RestCluster, **query: object) -> list[str]:
    changes = (await cluster.expect(200, "GET", AUDIT, **query)).json["changes"]
    return [f"{each['method']} {each['route']} {each['status']}" for each in changes]


async def test_changes_are_kept_without_what_was_set_and_refusals_and_questions_are_not() -> None:
    async with rest_cluster() as cluster:
        why = quote("because äö\x07 " + "x" * MAX_WHY_CHARACTERS, safe="")
        with capture_logs() as logged:
            await cluster.expect(200, "POST", f"{SET}/public%2Fsecret", headers={WHY: why})
            await cluster.expect(412, "POST", "/admin/v2/brokers/configuration/clusterName/x")
            await cluster.expect(404, "DELETE", "/admin/v2/tenants/nobody")
            await cluster.expect(200, "GET", "/admin/v2/tenants")
            await cluster.expect(200, "DELETE", SET)
        assert await routes(cluster) == [
            "POST /admin/v2/brokers/configuration/{name}/{value} 200",
            "DELETE /admin/v2/brokers/configuration/{name} 200",
        ]
        changed, removed = (await cluster.expect(200, "GET", AUDIT)).json["changes"]
        assert changed["about"] == {"name": "loadBalancerSheddingExcludedNamespaces"}
        assert changed["why"].startswith("because äö  x")
        assert len(changed["why"]) <= MAX_WHY_CHARACTERS
        assert "why" not in removed
        told = [each for each in logged if each["event"] == "administered"]
        assert [(each["route"], each["principal"]) for each in told] == [
            (changed["route"], "nobody"),
            (removed["route"], "nobody"),
        ]
        assert "secret" not in str(told) + str(changed)


async def test_a_change_is_kept_by_the_broker_that_does_it_and_found_by_all() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace(bundles=1)
        owner = await cluster.owner("persistent/public/ns/t")
        other = next(broker for broker in cluster.brokers if broker is not owner)
        unload = "/admin/v2/namespaces/public/ns/0x00000000_0xffffffff/unload"
        with capture_logs() as logged:
            await cluster.expect(204, "PUT", unload, at=other, headers={FOLLOW: "1", WHY: "relayed"}, follow=False)
        passed = [each["broker"] for each in logged if each["event"] == "request_passed_on"]
        assert passed == [other.broker_id]
        for at in cluster.brokers:
            last = (await cluster.expect(200, "GET", AUDIT, at=at)).json["changes"][-1]
            assert (last["by"], last["why"]) == (owner.broker_id, "relayed")
        changes = (await cluster.expect(200, "GET", AUDIT, of="broker", limit=1000)).json["changes"]
        assert [each["by"] for each in changes if each.get("why") == "relayed"] == [owner.broker_id]
        newest = (await cluster.expect(200, "GET", AUDIT, limit=1)).json
        older = (await cluster.expect(200, "GET", AUDIT, limit=1, before=newest["next"])).json
        assert older["changes"][0]["at"] <= newest["changes"][0]["at"]
        assert older["changes"] != newest["changes"]


@pytest.mark.parametrize(
    "query", [{"of": "nobody"}, {"before": "yesterday"}, {"request_id": "a b"}, {"limit": "many"}, {"since": "-1"}]
)
async def test_what_no_page_can_be_found_for_is_refused(query: dict[str, str]) -> None:
    async with rest_cluster() as cluster:
        await cluster.expect(400, "GET", AUDIT, **query)
