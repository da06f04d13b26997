"""Every command of the binary protocol, sent by clients of one broker: what is refused, and what a grant allows."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from pulsar_barycenter.broker.authorization.refusals import Refusals
from pulsar_barycenter.broker.bounded_log import MOST_A_SECOND
from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.wire.admission import rights
from pulsar_barycenter.broker.wire.admission.rights import NEEDS
from pulsar_barycenter.broker.wire.handlers import HANDLERS
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.protocol import client_commands as say
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.protocol.commands import command_frame
from pulsar_barycenter.protocol.parsing import FIELD_OF_TYPE
from support import client_requests as ask
from support.bad_proofs import BAD, GOOD, settings
from support.known_roles import ASKED, ROOT, as_role, connect_as, port_of
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import DEADLINE_S, TYPE, WireClient

TOPIC = "persistent://acme/orders/t"
GRANTS = "/admin/v2/namespaces/acme/orders/permissions"
EXPECTED_OF_NOBODY = {
    TYPE.LOOKUP: TYPE.LOOKUP_RESPONSE,
    TYPE.PARTITIONED_METADATA: TYPE.PARTITIONED_METADATA_RESPONSE,
    TYPE.GET_SCHEMA: TYPE.GET_SCHEMA_RESPONSE,
    TYPE.GET_OR_CREATE_SCHEMA: TYPE.GET_OR_CREATE_SCHEMA_RESPONSE,
    TYPE.PRODUCER: TYPE.ERROR,
    TYPE.SUBSCRIBE: TYPE.ERROR,
    TYPE.GET_TOPICS_OF_NAMESPACE: TYPE.ERROR,
    TYPE.SCALABLE_TOPIC_LOOKUP: TYPE.SCALABLE_TOPIC_UPDATE,
    TYPE.WATCH_SCALABLE_TOPICS: TYPE.WATCH_SCALABLE_TOPICS_UPDATE,
}
"""What needs a right by itself, and what it is answered by. The rest is about who is attached, or refused to all."""
OF_NOTHING = (TYPE.CLOSE_PRODUCER, TYPE.CLOSE_CONSUMER, TYPE.SCALABLE_TOPIC_UNSUBSCRIBE)
"""What succeeds for who is not attached."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[RestCluster]:
    async with rest_cluster(**ASKED) as running:
        for method, path, body in (
            ("PUT", "/admin/v2/tenants/acme", {"adminRoles": ["admin"], "allowedClusters": ["standalone"]}),
            ("PUT", "/admin/v2/namespaces/acme/orders", {"bundles": {"numBundles": 1}}),
            ("PUT", "/admin/v2/persistent/acme/orders/t", None),
        ):
            await running.expect(204, method, path, body, headers=as_role(ROOT))
        await running.expect(200, "GET", "/lookup/v2/topic/persistent/acme/orders/t", headers=as_role(ROOT))
        yield running


async def client_of(cluster: RestCluster, role: str) -> WireClient:
    return await connect_as(port_of(cluster.brokers[0]), role)


async def granted(cluster: RestCluster, role: str, *actions: str) -> None:
    await cluster.expect(204, "POST", f"{GRANTS}/{role}", list(actions), headers=as_role(ROOT))


async def revoked(cluster: RestCluster, role: str) -> None:
    await cluster.expect(204, "DELETE", f"{GRANTS}/{role}", headers=as_role(ROOT))


def filled(number: int) -> Any:
    """Return a command of that type with all that it must have, about a topic and a namespace that exist."""
    base = api.BaseCommand(type=number)
    command = getattr(base, FIELD_OF_TYPE[number])
    for field in command.DESCRIPTOR.fields:
        text = {"topic": TOPIC, "namespace": "acme/orders", "subscription": "s"}.get(field.name, "x")
        if field.is_required and field.type == field.TYPE_STRING:
            setattr(command, field.name, text)
        elif field.name in ("request_id", "producer_id", "consumer_id"):
            setattr(command, field.name, 7)
        elif field.is_required and field.message_type is None and field.enum_type is None:
            setattr(command, field.name, 1)
        elif field.is_required and field.enum_type is not None:
            setattr(command, field.name, field.enum_type.values[0].number)
        elif field.is_required and field.type == field.TYPE_MESSAGE:
            getattr(command, field.name).SetInParent()
            fill_schema(getattr(command, field.name))
    if number == TYPE.PARTITIONED_METADATA:
        command.topic = TOPIC
    return command


def fill_schema(message: Any) -> None:
    if message.DESCRIPTOR.name == "Schema":
        message.name, message.schema_data, message.type = "s", b"", 0


def code_of(answer: Any) -> int:
    return int(answer.error if hasattr(answer, "error") else answer.error_code)


def frame_of(number: int, command: Any) -> bytes:
    return command_frame(number, **{field.name: value for field, value in command.ListFields()})


def test_every_command_has_its_row() -> None:
    assert set(NEEDS) == set(HANDLERS)


async def refuse_every_command(broker: Broker, role: str) -> None:
    for number in sorted(set(HANDLERS) - {TYPE.CONNECT, TYPE.AUTH_RESPONSE}):
        client = await connect_as(port_of(broker), role)
        client.write(frame_of(number, filled(number)))
        await client.ask(ask.consumer_stats(99, 99), TYPE.CONSUMER_STATS_RESPONSE)  # all before has its answer, or none
        expected = EXPECTED_OF_NOBODY.get(number)
        if expected is not None:
            answer = await client.expect(expected)
            assert code_of(answer) == api.AuthorizationError, FIELD_OF_TYPE[number]
        if number not in OF_NOTHING:
            assert not [name for name, _, _ in client.received if name in (TYPE.SUCCESS, TYPE.PRODUCER_SUCCESS)]
        client.close()
    for topic in broker.registry.loaded():
        assert not topic.producers
        assert not list(topic.consumers())


@pytest.mark.parametrize("role", ["mallory", "sinks", "proxy/mallory", "proxy/root"])
@pytest.mark.asyncio(loop_scope="module")
async def test_without_rights_every_command_is_refused_and_nothing_comes_of_it(cluster: RestCluster, role: str) -> None:
    await granted(cluster, "sinks", "sinks", "sources", "functions", "packages")
    await refuse_every_command(cluster.brokers[0], role)


async def test_nobody_may_any_command_where_nobody_is_asked_who_it_is_either() -> None:
    """Such a configuration is refused when it is read; otherwise it would still allow nothing."""
    async with rest_cluster(authorization_enabled=True) as running:
        await refuse_every_command(running.brokers[0], "")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asking_for_proof() -> AsyncIterator[RestCluster]:
    async with rest_cluster(**settings()) as running:
        yield running


@pytest.mark.asyncio(loop_scope="module")
async def test_a_proof_that_holds_opens_what_those_below_do_not(asking_for_proof: RestCluster) -> None:
    for proof in GOOD.values():
        client = await WireClient.connect(port_of(asking_for_proof.brokers[0]), **proof.in_connect)
        _, found = await client.ask(ask.lookup(1, "persistent://public/default/t"), TYPE.LOOKUP_RESPONSE)
        assert found.response == api.CommandLookupTopicResponse.Connect
        client.close()


@pytest.mark.parametrize("name", BAD)
@pytest.mark.asyncio(loop_scope="module")
async def test_behind_a_bad_proof_no_command_is_heard(asking_for_proof: RestCluster, name: str) -> None:
    """All are written at once with CONNECT; clients without credentials would be admitted, by `anonymousUserRole`."""
    client = await WireClient.open(port_of(asking_for_proof.brokers[0]))
    client.wire.connect("Test", **BAD[name].in_connect)
    behind = b"".join(frame_of(number, filled(number)) for number in sorted(set(HANDLERS) - {TYPE.CONNECT}))
    client.write(client.wire.data_to_send() + behind)
    error = await client.expect(TYPE.ERROR)
    await client.expect_closed()
    assert (error.error, BAD[name].said in error.message) == (api.AuthenticationError, True), error.message
    assert not client.received


@pytest.mark.parametrize(
    ("actions", "may"),
    [
        (["produce"], {"lookup", "partitions", "topics", "schema", "produce"}),
        (["consume"], {"lookup", "partitions", "topics", "schema", "consume"}),
        (["produce", "consume"], {"lookup", "partitions", "topics", "schema", "produce", "consume", "both"}),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_grant_opens_what_it_is_for(cluster: RestCluster, actions: list[str], may: set[str]) -> None:
    role = "-".join(actions)
    await granted(cluster, role, *actions)
    client = await client_of(cluster, role)
    answers = {
        "lookup": await client.ask(ask.lookup(1, TOPIC), TYPE.LOOKUP_RESPONSE),
        "partitions": await client.ask(ask.partitioned_metadata(2, TOPIC), TYPE.PARTITIONED_METADATA_RESPONSE),
        "topics": await client.ask(
            ask.get_topics_of_namespace(3, "acme/orders"), TYPE.GET_TOPICS_OF_NAMESPACE_RESPONSE, TYPE.ERROR
        ),
        "schema": await client.ask(ask.get_schema(4, TOPIC), TYPE.GET_SCHEMA_RESPONSE),
        "produce": (0, await client.produce(TOPIC, 1)),
        "consume": (0, await client.subscribe(TOPIC, "s", 1)),
        "both": (0, await client.produce(TOPIC, 2, initial_subscription_name="dead")),
    }
    through = {
        name
        for name, (_, answer) in answers.items()
        if getattr(answer, "error", getattr(answer, "error_code", None)) != api.AuthorizationError
    }
    assert through == may
    client.close()
    await revoked(cluster, role)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_consumer_seeks_asks_and_unsubscribes_by_its_right(cluster: RestCluster) -> None:
    await granted(cluster, "reader", "consume")
    client = await client_of(cluster, "reader")
    await client.subscribe(TOPIC, "mine", 1)
    assert (await client.ask(say.get_last_message_id(5, 1), TYPE.GET_LAST_MESSAGE_ID_RESPONSE, TYPE.ERROR))[
        0
    ] != TYPE.ERROR
    assert (await client.ask(ask.unsubscribe(6, 1), TYPE.SUCCESS, TYPE.ERROR))[0] == TYPE.SUCCESS
    client.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_subscription_for_certain_roles_is_refused_to_others(cluster: RestCluster) -> None:
    await granted(cluster, "one", "consume")
    await granted(cluster, "two", "consume")
    await cluster.expect(204, "POST", f"{GRANTS}/subscription/private", ["one"], headers=as_role(ROOT))
    one, two = await client_of(cluster, "one"), await client_of(cluster, "two")
    assert (await two.subscribe(TOPIC, "private", 1)).error == api.AuthorizationError
    assert not hasattr(await one.subscribe(TOPIC, "private", 1), "error")
    assert not hasattr(await two.subscribe(TOPIC, "open", 2), "error")
    one.close()
    two.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_who_loses_its_grant_is_detached_and_the_others_stay(cluster: RestCluster) -> None:
    for role in ("leaving", "staying"):
        await granted(cluster, role, "produce", "consume")
    leaving, staying = await client_of(cluster, "leaving"), await client_of(cluster, "staying")
    for client, name in ((leaving, "a"), (staying, "b")):
        await client.produce(TOPIC, 1)
        await client.subscribe(TOPIC, name, 1)
    await granted(cluster, "leaving", "produce")
    assert (await leaving.expect(TYPE.CLOSE_CONSUMER)).consumer_id == 1
    assert (await leaving.subscribe(TOPIC, "a", 2)).error == api.AuthorizationError
    await leaving.send_all(1)
    await revoked(cluster, "leaving")
    assert (await leaving.expect(TYPE.CLOSE_PRODUCER)).producer_id == 1
    assert (await leaving.produce(TOPIC, 2)).error == api.AuthorizationError
    assert not staying.pending(TYPE.CLOSE_PRODUCER) + staying.pending(TYPE.CLOSE_CONSUMER)
    await staying.send_all(1)
    leaving.close()
    staying.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_an_administrator_of_the_tenant_needs_no_grant_until_it_is_none(cluster: RestCluster) -> None:
    tenant = {"allowedClusters": ["standalone"]}
    client = await client_of(cluster, "admin")
    assert not hasattr(await client.produce(TOPIC, 1), "error")
    await cluster.expect(
        204, "POST", "/admin/v2/tenants/acme", {**tenant, "adminRoles": ["other"]}, headers=as_role(ROOT)
    )
    await client.expect(TYPE.CLOSE_PRODUCER)
    assert (await client.produce(TOPIC, 1)).error == api.AuthorizationError
    await cluster.expect(
        204, "POST", "/admin/v2/tenants/acme", {**tenant, "adminRoles": ["admin"]}, headers=as_role(ROOT)
    )
    async with asyncio.timeout(DEADLINE_S):
        while hasattr(await client.produce(TOPIC, 1), "error"):
            pass
    client.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_the_operator_hears_of_refusals_with_the_reason_but_not_of_each(cluster: RestCluster) -> None:
    authorizer = cluster.brokers[0].authorizer
    authorizer.refusals = Refusals(lambda: 0.0)
    client = await client_of(cluster, "mallory")
    with capture_logs() as logs:
        for number in range(200):
            await client.ask(ask.lookup(number, TOPIC), TYPE.LOOKUP_RESPONSE)
    told = [line for line in logs if line["event"] == "access_refused"]
    assert authorizer.refusals.total == 200
    assert len(told) == MOST_A_SECOND
    assert {line["role"] for line in told} == {"mallory"}
    assert told[0]["request"] == "lookupTopic"
    assert "has no consume or produce" in told[0]["reason"]
    assert not [line for line in logs if line["event"] == "request_refused"]
    client.close()


@pytest.mark.parametrize("kind", ["produce", "consume"])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_right_that_goes_while_the_topic_is_loaded_attaches_nobody(
    cluster: RestCluster, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The grants were checked for attached clients, and this one was not attached yet."""
    registry = cluster.brokers[0].registry
    get_or_create = registry.get_or_create
    role = f"hasty-{kind}"

    async def load_slowly(*arguments: Any, **options: Any) -> Any:
        await revoked(cluster, role)
        async with asyncio.timeout(DEADLINE_S):
            while (
                await cluster.call("GET", "/admin/v2/persistent/acme/orders/t/stats", headers=as_role(role))
            ).status != 403:
                pass
        return await get_or_create(*arguments, **options)

    await granted(cluster, role, kind)
    client = await client_of(cluster, role)
    with monkeypatch.context() as patch:
        patch.setattr(registry, "get_or_create", load_slowly)
        answer = await (client.produce(TOPIC, 1) if kind == "produce" else client.subscribe(TOPIC, role, 1))
    assert answer.error == api.AuthorizationError
    topic = await get_or_create(TopicName.parse(TOPIC))
    assert role not in {producer.name for producer in topic.producers.values()}
    assert not [consumer for consumer in topic.consumers() if consumer.subscription.name == role]
    client.close()


@pytest.mark.parametrize(
    "frame",
    [
        ask.seek(5, 1, position=say.EARLIEST),
        ask.unsubscribe(5, 1),
        say.get_last_message_id(5, 1),
    ],
    ids=["seek", "unsubscribe", "last message id"],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_an_attached_consumer_asks_for_needs_its_right_still(
    cluster: RestCluster, monkeypatch: pytest.MonkeyPatch, frame: bytes
) -> None:
    """Even before the broker got round to closing it."""
    role = "overtaken"
    await granted(cluster, role, "consume")
    client = await client_of(cluster, role)
    await client.subscribe(TOPIC, role, 1)
    with monkeypatch.context() as patch:
        patch.setattr(rights, "_still_has", lambda *_: asyncio.sleep(0, result=True))
        await revoked(cluster, role)
        async with asyncio.timeout(DEADLINE_S):
            while (
                await cluster.call("GET", "/admin/v2/persistent/acme/orders/t/stats", headers=as_role(role))
            ).status != 403:
                pass
        answer = await client.ask(frame, TYPE.SUCCESS, TYPE.ERROR, TYPE.GET_LAST_MESSAGE_ID_RESPONSE)
    assert answer[0] == TYPE.ERROR
    assert answer[1].error == api.AuthorizationError
    client.close()
