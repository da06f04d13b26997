"""Two whole brokers, their locks and look-ups, and a bundle that goes from one to the other in two phases."""

from prometheus_client.parser import text_string_to_metric_families

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.ownership.bundle_topics import NoTopics, Topics
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.topic import TopicName
from support import client_requests
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import TYPE, WireClient

TOPIC = "persistent://public/ns/t"
DROPPED = ("pulsar_lb_ignored_send", "pulsar_lb_ignored_ack")


def port_of(broker: Broker) -> int:
    assert broker.urls.broker_url is not None
    return int(broker.urls.broker_url.rpartition(":")[2])


async def dropped(cluster: RestCluster, broker: Broker) -> dict[str, tuple[float, dict[str, str]]]:
    text = (await cluster.expect(200, "GET", "/metrics", at=broker)).body.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = [families[name].samples[0] for name in DROPPED if name in families]
    return {sample.name: (sample.value, dict(sample.labels)) for sample in samples}


class KeepsClients(NoTopics):
    """Has the first phase of a transfer done where ownership closes a bundle: its topics go, its clients stay."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def close_bundle(self, bundle: Bundle, *, reason: str) -> int:
        return await self._topics.begin_transfer(bundle, reason=reason)


async def leave(source: Broker, bundle: Bundle) -> None:
    """The first phase, from the end of serving to the release of the lock."""
    source.ownership.attach_topics(KeepsClients(source.registry))
    assert await source.ownership.release(bundle, reason="test") == 1
    source.ownership.attach_topics(source.registry)


async def test_clients_go_on_at_the_next_owner_by_the_address_that_they_are_told() -> None:
    async with rest_cluster(2) as cluster:
        await cluster.create_namespace()
        source = await cluster.owner("persistent/public/ns/t")
        target = next(broker for broker in cluster.brokers if broker is not source)
        bundle = await source.lookup.bundle_of(TopicName.parse(TOPIC))
        client = await WireClient.connect(port_of(source))
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, permits=10)
        await client.send_all(3)
        await client.messages(3)
        assert await dropped(cluster, source) == {}

        await leave(source, bundle)
        client.send(3, b"3", batch=4)
        await client.settled()
        await target.ownership.acquire(bundle, reason="test")
        await source.registry.finish_transfer(bundle, target.urls, reason="test")
        told = {
            (await client.expect(kind)).assignedBrokerServiceUrl for kind in (TYPE.CLOSE_PRODUCER, TYPE.CLOSE_CONSUMER)
        }
        assert told == {target.urls.broker_url}

        there = await WireClient.connect(port_of(target))
        await there.produce(TOPIC)
        await there.subscribe(TOPIC, permits=10)
        assert len(await there.messages(3)) == 3
        await there.send_all(1, first=3)
        assert source.registry.get_loaded(TopicName.parse(TOPIC)) is None

        labels = {"cluster": "standalone", "broker": source.broker_id, "metric": "bundleUnloading"}
        assert await dropped(cluster, source) == {
            "pulsar_lb_ignored_send_total": (4.0, labels),
            "pulsar_lb_ignored_ack_total": (0.0, labels),
        }
        assert await dropped(cluster, target) == {}

        question = client_requests.lookup(client.request_id(), TOPIC)
        _, answer = await client.ask(question, TYPE.LOOKUP_RESPONSE)
        assert answer.brokerServiceUrl == target.urls.broker_url
        client.close()
        there.close()
