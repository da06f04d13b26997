"""Brokers have the permissions for requests to each other by their own role, with any load manager; no other role
has."""

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.broker.load_manager.factory import configured_load_manager
from pulsar_barycenter.naming.internal_topics import SERVICE_UNIT_STATE_TOPIC
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.known_roles import ASKED, ROOT, connect_as, port_of
from support.proofs import token
from support.rest_cluster import RestCluster, rest_cluster

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"


@pytest.mark.parametrize(("super_users", "told"), [((ROOT,), ["broker"]), ((ROOT, "broker"), [])])
async def test_a_broker_whose_own_role_has_not_all_rights_tells_so_at_its_start(
    super_users: tuple[str, ...], told: list[str]
) -> None:
    with capture_logs() as logs:
        async with rest_cluster(1, **{**ASKED, "super_user_roles": super_users}):
            pass
    assert [line["role"] for line in logs if line["event"] == "own_role_is_no_super_user"] == told


@pytest.mark.parametrize("manager", [EXTENSIBLE, MODULAR])
async def test_brokers_that_ask_for_rights_share_their_load_and_their_bundles(manager: str) -> None:
    cluster = RestCluster()
    cluster.authorize(token(ROOT))
    try:
        for _ in range(2):
            await cluster.add(
                configured_load_manager, broker_shutdown_timeout_ms=0, load_manager_class_name=manager, **ASKED
            )
        await cluster.create_namespace("public/ns")
        await cluster.expect(204, "POST", "/admin/v2/namespaces/public/ns/permissions/alice", ["produce", "consume"])
        owner = await cluster.owner("persistent/public/ns/t")
        client = await connect_as(port_of(owner), "alice")
        assert not hasattr(await client.produce("persistent://public/ns/t", 1), "error")
        await cluster.expect(204, "PUT", "/admin/v2/namespaces/public/ns/unload")
        assert (await cluster.expect(200, "GET", "/admin/v2/brokers/health")).body == b"ok"
        assert [broker.authorizer.refusals.total for broker in cluster.brokers] == [0, 0]
        for broker in cluster.brokers:
            stranger = await connect_as(port_of(broker), "alice")
            assert (await stranger.produce(SERVICE_UNIT_STATE_TOPIC, 1)).error == api.AuthorizationError
            assert (await stranger.subscribe(SERVICE_UNIT_STATE_TOPIC, "s", 1)).error == api.AuthorizationError
            stranger.close()
        client.close()
    finally:
        await cluster.close()
