"""/metrics: both formats, requested and omitted metrics, and the stats of topics that clients use."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as plain_families

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.rest.metrics import endpoint
from pulsar_barycenter.broker.rest.metrics.catalogue import (
    CONSUMER,
    PRODUCER,
    SUBSCRIPTION,
    SUBSCRIPTION_ALSO_HERE,
    TOPIC,
)
from pulsar_barycenter.broker.rest.metrics.text import escaped, wants_openmetrics
from support.proofs import asking, token
from support.rest_cluster import RestCluster, rest_cluster
from support.wire_client import WireClient

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
TOPIC_NAME = "persistent://public/ns/t"
Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scrape(cluster: RestCluster, accept: str = "") -> list[Any]:
    text = (await cluster.expect(200, "GET", "/metrics", headers={"Accept": accept})).body.decode()
    return list(openmetrics_families(text) if accept else plain_families(text))


async def found(cluster: RestCluster, **labels: str) -> dict[str, float]:
    """The samples that have these labels, by their names."""
    return {
        sample.name: sample.value
        for family in await scrape(cluster)
        for sample in family.samples
        if labels.items() <= sample.labels.items()
    }


def a_second_later(broker: Broker) -> None:
    """Compute rates over a second, in which all topics were loaded."""
    for topic in broker.registry.loaded():
        topic.loaded_at_ms = broker.registry.rates_at_ms
    broker.registry.update_rates(broker.registry.rates_at_ms + 1000)


@asynccontextmanager
async def used_topic(*, kind: str = "persistent", **settings: Any) -> AsyncIterator[tuple[RestCluster, Broker]]:
    """A broker with a topic that a producer sent 3 messages to, which a Shared consumer got and gave back."""
    async with rest_cluster(**settings) as cluster:
        await cluster.create_namespace()
        broker = await cluster.owner(f"{kind}/public/ns/t")
        assert broker.urls.broker_url is not None
        client = await WireClient.connect(int(broker.urls.broker_url.rpartition(":")[2]))
        name = f"{kind}://public/ns/t"
        await client.produce(name)
        await client.subscribe(name, sub_type=1, permits=10)
        await client.send_all(3)
        await client.messages(3)
        a_second_later(broker)
        yield cluster, broker
        client.close()


# ---- formats ----


async def test_both_formats_tell_the_same_and_openmetrics_ends_as_it_has_to() -> None:
    async with used_topic() as (cluster, _):
        plain, openmetrics = await scrape(cluster), await scrape(cluster, OPENMETRICS)
        samples = [{sample.name for family in each for sample in family.samples} for each in (plain, openmetrics)]
        assert samples[0] == samples[1]
        assert len({family.name for family in openmetrics}) == len(openmetrics)
        answer = await cluster.expect(200, "GET", "/metrics", headers={"Accept": OPENMETRICS})
        assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert answer.body.count(b"# EOF") == 1
        assert answer.body.endswith(b"\n# EOF\n")
        text = (await cluster.expect(200, "GET", "/metrics")).body
        assert b"# EOF" not in text
        assert {name for name in samples[0] if name.endswith("_created")} == set()


async def test_every_family_has_its_help_and_stands_once() -> None:
    async with used_topic() as (cluster, _):
        text = (await cluster.expect(200, "GET", "/metrics")).body.decode()
        types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
        helped = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP") and len(line.split()) > 3]
        assert len(set(types)) == len(types)
        assert helped == types


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5", True),
        ("application/openmetrics-text", True),
        ("text/plain;version=0.0.4", False),
        ("*/*", False),
        ("", False),
        ("application/openmetrics-text; version=0.0.1, text/plain", False),
        ("application/openmetrics-text; version=x", False),
        ("application/openmetrics-text; version=1.x.0; escaping=\u00fc", False),
    ],
)
def test_who_asks_for_openmetrics_gets_it_and_everybody_else_plain_text(accept: str, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics


async def test_the_text_is_compressed_for_whoever_says_so() -> None:
    async with rest_cluster() as cluster:
        url = f"{cluster.brokers[0].urls.web_url}/metrics"
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.get(url, headers={"Accept-Encoding": "gzip"}) as answer,
        ):
            assert answer.headers["Content-Encoding"] == "gzip"
            assert b"pulsar_broker_topics_count" in gzip.decompress(await answer.read())
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.get(url, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            assert "Content-Encoding" not in answer.headers
            assert b"pulsar_broker_topics_count" in await answer.read()


def test_the_value_of_a_label_is_written_so_that_it_can_be_read() -> None:
    assert escaped('a"b\\c\nd') == 'a\\"b\\\\c\\nd'


# ---- topics ----


async def test_a_topic_tells_what_its_clients_did() -> None:
    async with used_topic() as (cluster, _):
        topic = await found(cluster, topic=TOPIC_NAME)
        assert topic.keys() >= TOPIC.keys() | SUBSCRIPTION.keys()
        assert topic.keys().isdisjoint(CONSUMER.keys() | PRODUCER.keys())
        assert (topic["pulsar_in_messages_total"], topic["pulsar_out_messages_total"]) == (3, 3)
        assert (topic["pulsar_rate_in"], topic["pulsar_rate_out"]) == (3, 3)
        assert topic["pulsar_storage_write_rate"] == topic["pulsar_entry_size_count"] == 3
        assert topic["pulsar_storage_read_rate"] == 3
        assert sum(value for name, value in topic.items() if "entry_size_le" in name) == 3
        assert 0 < topic["pulsar_storage_write_latency_count"] <= 3
        assert topic["pulsar_entry_size_sum"] == topic["pulsar_storage_size"] == topic["pulsar_storage_backlog_size"]
        assert topic["pulsar_subscription_back_log"] == topic["pulsar_msg_backlog"] == 3
        assert topic["pulsar_subscription_unacked_messages"] == 3
        assert topic["pulsar_subscription_consumers_count"] == 1
        broker = await found(cluster)
        assert (broker["pulsar_broker_rate_in"], broker["pulsar_broker_msg_backlog"]) == (3, 3)
        assert broker["pulsar_broker_subscriptions_count"] == 1
        assert (broker["pulsar_active_connections"], broker["pulsar_connection_create_success_count"]) == (1, 1)
        assert broker["pulsar_topic_load_times_count"] == 1
        assert broker["pulsar_broker_lookup_count"] == broker["pulsar_broker_lookup_answers_total"] > 0


async def test_what_a_consumer_gives_back_is_to_be_delivered_again() -> None:
    async with used_topic() as (cluster, broker):
        topic = next(iter(broker.registry.loaded()))
        (consumer,) = topic.consumers()
        consumer.subscription.redeliver(consumer, None, None)
        a_second_later(broker)
        assert (await found(cluster, topic=TOPIC_NAME))["pulsar_subscription_msg_rate_redeliver"] == 3
        stats = (await cluster.expect(200, "GET", "/admin/v2/persistent/public/ns/t/stats")).json
        assert next(iter(stats["subscriptions"].values()))["msgRateRedeliver"] == 3


async def test_a_subscription_that_keeps_nothing_has_no_backlog() -> None:
    async with used_topic(kind="non-persistent") as (cluster, _):
        topic = await found(cluster, topic="non-persistent://public/ns/t")
        assert topic.keys() >= SUBSCRIPTION_ALSO_HERE.keys()
        assert "pulsar_subscription_back_log" not in topic
        assert topic["pulsar_out_messages_total"] == 3


async def test_consumers_and_producers_are_shown_if_asked_for() -> None:
    async with used_topic(
        expose_consumer_level_metrics_in_prometheus=True, expose_producer_level_metrics_in_prometheus=True
    ) as (cluster, _):
        consumer = await found(cluster, topic=TOPIC_NAME, consumer_id="1")
        assert consumer.keys() == CONSUMER.keys()
        assert (consumer["pulsar_consumer_unacked_messages"], consumer["pulsar_consumer_available_permits"]) == (3, 7)
        producer = await found(cluster, topic=TOPIC_NAME, producer_id="1")
        assert producer.keys() == PRODUCER.keys()
        assert producer["pulsar_producer_msg_rate_in"] == 3


async def test_without_topics_their_namespaces_tell_the_sums() -> None:
    async with used_topic(
        expose_topic_level_metrics_in_prometheus=False, expose_consumer_level_metrics_in_prometheus=True
    ) as (cluster, broker):
        await cluster.expect(204, "PUT", "/admin/v2/persistent/public/ns/u", at=broker)
        families = await scrape(cluster)
        samples = [sample for family in families for sample in family.samples]
        assert {label for sample in samples for label in sample.labels} & {"topic", "subscription"} == set()
        namespace = await found(cluster, namespace="public/ns")
        assert namespace.keys() >= TOPIC.keys()
        assert (namespace["pulsar_in_messages_total"], namespace["pulsar_out_messages_total"]) == (3, 3)
        assert (namespace["pulsar_topics_count"], namespace["pulsar_subscriptions_count"]) == (2, 1)
        assert namespace["pulsar_average_msg_size"] > 0
        backlog = await found(cluster, namespace="public/ns", remote_cluster="local")
        assert backlog == {"pulsar_msg_backlog": 3}


async def test_others_have_their_turn_while_topics_are_read_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_READ_IN_ONE_STEP", 2)
    async with rest_cluster() as cluster:
        await cluster.create_namespace(bundles=1)
        for number in range(10):
            await cluster.expect(204, "PUT", f"/admin/v2/persistent/public/ns/t{number}")
        metrics = endpoint.Metrics(cluster_services(cluster))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        await asyncio.sleep(0)
        before = turns
        figures, _ = await metrics._read_topics()
        assert turns - before == 5
        assert figures.lines.count == 20  # of each topic its values, and the age of its backlog
        beside.cancel()


def cluster_services(cluster: RestCluster) -> Any:
    from pulsar_barycenter.broker.rest.server import _services_of

    broker = cluster.brokers[0]
    return _services_of(broker, None, None, lambda: None, None)  # type: ignore[arg-type]


# ---- clients ----


async def test_proofs_are_told_by_pulsars_names_of_providers_and_reasons() -> None:
    async with rest_cluster(**asking()) as cluster:
        cluster.authorize(token("admin"))
        await cluster.expect(200, "GET", "/admin/v2/tenants")
        await cluster.expect(401, "GET", "/admin/v2/tenants", headers={"Authorization": "Bearer nonsense"})
        told = {
            (sample.name, *sorted(sample.labels.items()))
            for family in await scrape(cluster)
            for sample in family.samples
            if sample.name.startswith("pulsar_authentication")
        }
        provider = [("auth_method", "token"), ("cluster", "standalone")]
        name = ("provider_name", "AuthenticationProviderToken")
        assert ("pulsar_authentication_success_total", *provider, name) in told
        reason = ("reason", "INVALID_TOKEN")
        assert ("pulsar_authentication_failures_total", *provider, name, reason) in told
