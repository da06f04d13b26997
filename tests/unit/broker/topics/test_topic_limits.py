"""Topics accept limited numbers of producers, consumers and subscriptions, with Pulsar's codes; attached ones stay."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from pulsar_barycenter.broker.namespaces.policies import Policies
from pulsar_barycenter.broker.namespaces.resources import limits_of
from pulsar_barycenter.broker.namespaces.topic_limits import TopicLimits
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.protocol import commands
from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support.one_broker import OneBroker
from support.rest_cluster import rest_cluster
from support.wire_client import TYPE, WireClient

TOPICS = ["persistent://public/default/t", "non-persistent://public/default/t"]
SHARED = api.CommandSubscribe.Shared


@pytest.fixture
async def client(request: pytest.FixtureRequest) -> AsyncIterator[WireClient]:
    broker = await OneBroker(replace(BrokerConfig(), **request.param)).start()
    yield await WireClient.connect(broker.port)
    await broker.stop()


def limited(**settings: int) -> Any:
    return pytest.mark.parametrize("client", [settings], indirect=True, ids=["limited"])


@limited(max_producers_per_topic=2)
@pytest.mark.parametrize("topic", TOPICS)
async def test_producers_of_a_topic(client: WireClient, topic: str) -> None:
    for number in (1, 2):
        assert not hasattr(await client.produce(topic, number), "error")
    refused = await client.produce(topic, 3)
    assert (refused.error, refused.message) == (api.ProducerBusy, f"Topic '{topic}' reached max producers limit, 2")
    assert not hasattr(await client.produce(f"{topic}-other", 4), "error")
    await client.ask(commands.close_producer(1, client.request_id()), TYPE.SUCCESS)
    assert not hasattr(await client.produce(topic, 5), "error")


@limited(max_consumers_per_topic=2, max_consumers_per_subscription=1)
@pytest.mark.parametrize("topic", TOPICS)
async def test_consumers_of_a_topic_and_of_a_subscription(client: WireClient, topic: str) -> None:
    assert not hasattr(await client.subscribe(topic, "a", 1, sub_type=SHARED), "error")
    refused = await client.subscribe(topic, "a", 2, sub_type=SHARED)
    assert refused.error == api.ConsumerBusy
    assert "Subscription reached max consumers limit, 1" in refused.message
    assert not hasattr(await client.subscribe(topic, "b", 3), "error")
    refused = await client.subscribe(topic, "c", 4)
    assert refused.error == api.ConsumerBusy
    assert "Topic reached max consumers limit, 2" in refused.message
    await client.ask(commands.close_consumer(1, client.request_id()), TYPE.SUCCESS)
    assert not hasattr(await client.subscribe(topic, "c", 5), "error")


@limited(max_subscriptions_per_topic=2)
@pytest.mark.parametrize("topic", TOPICS)
async def test_subscriptions_of_a_topic(client: WireClient, topic: str) -> None:
    assert not hasattr(await client.subscribe(topic, "a", 1, sub_type=SHARED), "error")
    assert not hasattr(await client.subscribe(topic, "b", 2), "error")
    for consumer_id, durable in ((3, True), (4, False)):
        refused = await client.subscribe(topic, "c", consumer_id, durable=durable)
        assert refused.error == api.NotAllowedError
        assert "maximum number of subscriptions" in refused.message
    assert not hasattr(await client.subscribe(topic, "a", 5, sub_type=SHARED), "error"), "no new one"


async def test_a_subscription_too_many_through_rest() -> None:
    async with rest_cluster(max_subscriptions_per_topic=1) as cluster:
        await cluster.create_namespace()
        topic = "/admin/v2/persistent/public/ns/t"
        await cluster.expect(204, "PUT", topic)
        await cluster.expect(204, "PUT", f"{topic}/subscription/a")
        refused = await cluster.expect(412, "PUT", f"{topic}/subscription/b")
        assert refused.reason.startswith("Exceed the maximum number of subscriptions of the topic")


def test_a_namespaces_own_limits_win_and_zero_is_none() -> None:
    config = replace(
        BrokerConfig(), max_producers_per_topic=5, max_consumers_per_topic=6, max_subscriptions_per_topic=7
    )
    assert limits_of(Policies(), config) == TopicLimits(5, 6, 0, 7)
    own = Policies(max_producers_per_topic=0, max_consumers_per_topic=1, max_consumers_per_subscription=2)
    assert limits_of(own, config) == TopicLimits(0, 1, 2, 7)
    assert limits_of(Policies(max_subscriptions_per_topic=-1), config).subscriptions == 7
