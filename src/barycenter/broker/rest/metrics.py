"""Prometheus: the figures of this broker at /metrics, in the text format.

Names and labels are Pulsar's where it has one. Parts with their own registry (the load manager) are appended.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from barycenter.broker.rest.services import BrokerServices
from barycenter.broker.topics.persistent_topic import PersistentTopic
from barycenter.broker.topics.topic import Topic

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOPIC_FIGURES: Final = (
    "pulsar_rate_in",
    "pulsar_rate_out",
    "pulsar_throughput_in",
    "pulsar_throughput_out",
    "pulsar_producers_count",
    "pulsar_consumers_count",
    "pulsar_subscriptions_count",
    "pulsar_storage_size",
    "pulsar_msg_backlog",
)
_COMPACTION_FIGURES: Final = (
    "pulsar_compaction_removed_event_count",
    "pulsar_compaction_succeed_count",
    "pulsar_compaction_failed_count",
    "pulsar_compaction_duration_time_in_mills",
    "pulsar_compaction_compacted_entries_count",
    "pulsar_compaction_compacted_entries_size",
)
Sample = tuple[str, Mapping[str, str], float]


class Metrics:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/metrics", self.show), web.get("/metrics/", self.show)]

    async def show(self, request: web.Request) -> web.Response:
        """Show all figures in the Prometheus text format."""
        samples = list(self._samples())
        # Text of thousands of topics takes tens of milliseconds, and the figures do not change any more.
        parts = [await asyncio.to_thread(generate_latest, _Families(samples))]
        parts += [generate_latest(registry) for registry in self._services.registries()]
        return web.Response(body=b"".join(parts), headers={"Content-Type": CONTENT_TYPE})

    def _samples(self) -> Iterator[Sample]:
        control = self._services.control
        broker = {"cluster": self._services.config.cluster_name, "broker": self._services.urls.broker_id}
        topics = list(self._services.registry.loaded())
        counters = self._services.registry.counters
        yield "pulsar_broker_topics_count", broker, len(topics)
        yield "pulsar_broker_producers_count", broker, sum(len(topic.producers) for topic in topics)
        yield "pulsar_broker_consumers_count", broker, sum(topic.consumer_count for topic in topics)
        yield "pulsar_broker_in_messages_total", broker, counters.messages_in
        yield "pulsar_broker_out_messages_total", broker, counters.messages_out
        yield "pulsar_broker_in_bytes_total", broker, counters.bytes_in
        yield "pulsar_broker_out_bytes_total", broker, counters.bytes_out
        if counters.transfers:
            unloading = {**broker, "metric": "bundleUnloading"}
            yield "pulsar_lb_ignored_send_total", unloading, counters.dropped_sends
            yield "pulsar_lb_ignored_ack_total", unloading, counters.dropped_acks
        if control.channel is not None:
            channel = {**broker, "metric": "sunitStateChn"}
            yield "pulsar_sunit_state_chn_owned_su_total", channel, len(control.ownership.owned_bundles())
            yield from (
                (name, {**channel, **labels}, count) for name, labels, count in control.channel.counters.samples()
            )
            yield from ((name, broker, value) for name, value in control.channel.syncer.samples())
        yield "pulsar_broker_lookup_pending_requests", broker, control.lookup.in_flight
        yield "barycenter_broker_is_leader", broker, control.leadership.is_leader()
        yield "barycenter_broker_owned_bundles", broker, len(control.ownership.owned_bundles())
        yield "barycenter_brokers_active", broker, len(control.registration.brokers)
        yield "barycenter_damaged_ledgers", broker, sum(map(_damaged_ledgers, topics))
        if self._services.authorizer.is_enabled:
            yield "barycenter_access_refusals_total", broker, self._services.authorizer.refusals.total
        yield from _bundle_samples(broker, control.ownership.owned_bundles(), topics)
        if self._shows_bundles():
            yield from self._bundle_traffic(broker)
        yield from self._topic_samples(topics)

    def _shows_bundles(self) -> bool:
        """Whether each bundle's traffic is shown: if asked for, and by the extensible manager as of Pulsar 5.x."""
        config = self._services.config
        has_them = self._services.control.channel is None or config.barycenter_pulsar_compatibility != "4.x"
        return config.expose_bundles_metrics_in_prometheus and has_them

    def _bundle_traffic(self, broker: Mapping[str, str]) -> Iterator[Sample]:
        for bundle, stats in self._services.registry.bundle_stats().items():
            labels = {**broker, "bundle": bundle, "metric": "bundle"}
            yield "pulsar_bundle_msg_rate_in", labels, stats.msg_rate_in
            yield "pulsar_bundle_msg_rate_out", labels, stats.msg_rate_out
            yield "pulsar_bundle_msg_throughput_in", labels, stats.msg_throughput_in
            yield "pulsar_bundle_msg_throughput_out", labels, stats.msg_throughput_out
            yield "pulsar_bundle_producer_count", labels, stats.producer_count
            yield "pulsar_bundle_consumer_count", labels, stats.consumer_count

    def _topic_samples(self, topics: Iterable[Topic]) -> Iterator[Sample]:
        cluster = self._services.config.cluster_name
        totals: dict[str, list[float]] = {}
        counts: dict[str, int] = {}
        by_topic = self._services.config.expose_topic_level_metrics_in_prometheus
        for topic in topics:
            namespace, figures = str(topic.name.namespace), _figures(topic)
            total = totals.setdefault(namespace, [0.0] * len(figures))
            counts[namespace] = counts.get(namespace, 0) + 1
            for index, figure in enumerate(figures):
                total[index] += figure
            if by_topic:
                labels = {"cluster": cluster, "namespace": namespace, "topic": str(topic.name)}
                yield from ((name, labels, figure) for name, figure in zip(_TOPIC_FIGURES, figures, strict=True))
                yield from ((name, labels, figure) for name, figure in _compaction_figures(topic))
        for namespace, total in totals.items():
            labels = {"cluster": cluster, "namespace": namespace}
            yield "pulsar_topics_count", labels, counts[namespace]
            if not by_topic:
                yield from ((name, labels, figure) for name, figure in zip(_TOPIC_FIGURES, total, strict=True))


def _bundle_samples(broker: Mapping[str, str], owned: Iterable[object], topics: Iterable[Topic]) -> Iterator[Sample]:
    counts = {str(bundle): 0 for bundle in owned}
    for topic in topics:
        name = str(topic.owned.bundle)
        counts[name] = counts.get(name, 0) + 1
    for bundle, count in counts.items():
        yield "pulsar_bundle_topics_count", {**broker, "bundle": bundle}, count


def _damaged_ledgers(topic: Topic) -> int:
    return len(topic.ledger.damaged_ledgers) if isinstance(topic, PersistentTopic) else 0


def _figures(topic: Topic) -> tuple[float, ...]:
    size = backlog = subscriptions = 0
    if isinstance(topic, PersistentTopic):
        size = topic.ledger.stats.size
        subscriptions = len(topic.subscriptions)
        backlog = sum(subscription.cursor.backlog.messages for subscription in topic.subscriptions.values())
    return (
        topic.in_rates.rate,
        topic.out_rates.rate,
        topic.in_rates.throughput,
        topic.out_rates.throughput,
        len(topic.producers),
        topic.consumer_count,
        subscriptions,
        size,
        backlog,
    )


def _compaction_figures(topic: Topic) -> Iterable[tuple[str, float]]:
    """Return the figures of a topic that is compacted, or was to be; of others there are none, as in Pulsar."""
    if not isinstance(topic, PersistentTopic):
        return ()
    done, current = topic.compactions, topic.ledger.compacted.current
    if current is None and not done.failures:
        return ()
    figures = (
        done.total_removed,
        done.successes,
        done.failures,
        done.duration_ms,
        0 if current is None else current.segment.entries,
        0 if current is None else current.segment.size,
    )
    return zip(_COMPACTION_FIGURES, figures, strict=True)


class _Families:
    """A collector of what was read off already: the samples of one name together, behind its help and type."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for name, labels, value in self._samples:
            family = families.get(name)
            if family is None:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = families[name] = kind(name, _HELP[name])
            family.add_sample(name, dict(labels), float(value))
        return iter(families.values())


_HELP: Final = {
    "pulsar_broker_topics_count": "Topics loaded by this broker.",
    "pulsar_broker_producers_count": "Producers connected to this broker.",
    "pulsar_broker_consumers_count": "Consumers connected to this broker.",
    "pulsar_broker_in_messages_total": "Messages that producers sent since the broker started.",
    "pulsar_broker_out_messages_total": "Messages sent to consumers since the broker started.",
    "pulsar_broker_in_bytes_total": "Bytes that producers sent since the broker started.",
    "pulsar_broker_out_bytes_total": "Bytes sent to consumers since the broker started.",
    "pulsar_lb_ignored_send_total": "Messages that producers sent to topics in transfer to another broker.",
    "pulsar_lb_ignored_ack_total": "Acknowledged ids that consumers sent to topics in transfer to another broker.",
    "pulsar_sunit_state_chn_owned_su_total": "Bundles that this broker owns.",
    "pulsar_sunit_state_chn_owner_lookup_total": "Times that a bundle's owner was asked for, by its record's state.",
    "pulsar_sunit_state_chn_event_publish_ops_total": "Changes of ownership that this broker began, by what they were.",
    "pulsar_sunit_state_chn_subscribe_ops_total": "Records of ownership that this broker took over, by their state.",
    "pulsar_sunit_state_chn_cleanup_ops_total": "Repairs of ownership that failed.",
    "pulsar_sunit_state_chn_inactive_broker_cleanup_ops_total": "Lost brokers whose bundles were given to others.",
    "pulsar_sunit_state_chn_orphan_su_cleanup_ops_total": "Changes of ownership ended in place of those who did not.",
    "pulsar_sunit_state_chn_su_tombstone_cleanup_ops_total": "Records deleted long after nobody owned the bundle.",
    "pulsar_broker_lookup_pending_requests": "Lookups being answered.",
    "barycenter_broker_is_leader": "1 if this broker is the leader, else 0.",
    "barycenter_broker_owned_bundles": "Bundles that this broker owns.",
    "barycenter_brokers_active": "Brokers registered in the cluster, as this one sees it.",
    "barycenter_damaged_ledgers": "Ledgers of loaded topics that are damaged.",
    "barycenter_access_refusals_total": "Requests and commands refused to clients that lack the right for them.",
    "barycenter_ownership_records_in_store": "1 if the ownership records are in the metadata store, 0 if in the topic.",
    "barycenter_ownership_records_moving": "1 while this broker is to stand still, as ownership records are moved.",
    "barycenter_ownership_records_differing": "Ownership records that the leader did not copy to the other place yet.",
    "barycenter_ownership_records_copied": "1 once the leader's copy of the ownership records was complete, else 0.",
    "pulsar_bundle_topics_count": "Loaded topics of a bundle.",
    "pulsar_bundle_msg_rate_in": "Messages per second that producers send to the topics of a bundle.",
    "pulsar_bundle_msg_rate_out": "Messages per second sent to consumers of the topics of a bundle.",
    "pulsar_bundle_msg_throughput_in": "Bytes per second that producers send to the topics of a bundle.",
    "pulsar_bundle_msg_throughput_out": "Bytes per second sent to consumers of the topics of a bundle.",
    "pulsar_bundle_producer_count": "Producers connected to the topics of a bundle.",
    "pulsar_bundle_consumer_count": "Consumers connected to the topics of a bundle.",
    "pulsar_topics_count": "Loaded topics of a namespace.",
    "pulsar_rate_in": "Messages a second from producers.",
    "pulsar_rate_out": "Messages a second to consumers.",
    "pulsar_throughput_in": "Bytes a second from producers.",
    "pulsar_throughput_out": "Bytes a second to consumers.",
    "pulsar_producers_count": "Connected producers.",
    "pulsar_consumers_count": "Connected consumers.",
    "pulsar_subscriptions_count": "Subscriptions.",
    "pulsar_storage_size": "Bytes stored in ledgers.",
    "pulsar_msg_backlog": "Messages not acknowledged yet, of all subscriptions.",
    "pulsar_compaction_removed_event_count": "Messages that compactions removed since the topic was loaded.",
    "pulsar_compaction_succeed_count": "Compactions that succeeded since the topic was loaded.",
    "pulsar_compaction_failed_count": "Compactions that failed since the topic was loaded.",
    "pulsar_compaction_duration_time_in_mills": "How long the last compaction took.",
    "pulsar_compaction_compacted_entries_count": "Entries of the compacted ledger.",
    "pulsar_compaction_compacted_entries_size": "Bytes of the compacted ledger.",
}
