"""Answers Prometheus: the metrics of this broker in the plain text format or in OpenMetrics.

Names and labels are Pulsar's if Pulsar has the metric. Topics are read a few at a time, so that messages are served in
between; the text is generated in a thread, from values that do not change any more. Only one answer is generated at a
time; further requests wait.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from aiohttp import web
from prometheus_client import ProcessCollector
from prometheus_client.core import InfoMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import gzip_accepted
from prometheus_client.registry import Collector

from pulsar_barycenter import version
from pulsar_barycenter.broker.rest.metrics.catalogue import BUNDLE, CONNECTION, HELP, LOOKUP_TIME, VERSION
from pulsar_barycenter.broker.rest.metrics.text import (
    OPENMETRICS_TYPE,
    PLAIN_TYPE,
    Labelled,
    Sample,
    Samples,
    wants_openmetrics,
    write_text,
)
from pulsar_barycenter.broker.rest.metrics.topic_metrics import TopicsRead
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.streamed import streamed
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.broker.wire.services import PULSAR_VERSION
from pulsar_barycenter.naming.bundle import Bundle

_READ_IN_ONE_STEP: Final = 50
"""The maximum number of topics, subscriptions and clients that are read (in some milliseconds) before other tasks of
the event loop run.
"""

_PROCESS: Final = ProcessCollector(registry=None)


class Metrics:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._answering = asyncio.Lock()

    async def show(self, request: web.Request) -> web.StreamResponse:
        openmetrics = wants_openmetrics(",".join(request.headers.getall("Accept", ())))
        compress = gzip_accepted(request.headers.get("Accept-Encoding", ""))
        headers = {"Content-Type": OPENMETRICS_TYPE if openmetrics else PLAIN_TYPE, "Vary": "Accept, Accept-Encoding"}
        if compress:
            headers["Content-Encoding"] = "gzip"
        return await streamed(request, headers, partial(self._pieces, openmetrics=openmetrics, compress=compress))

    async def _pieces(self, *, openmetrics: bool, compress: bool) -> Iterable[bytes]:
        async with self._answering:
            topics, bundles = await self._read_topics()
            sums = list(topics.of_broker())
            topics.finish()
            collectors = self._collectors([*self._samples(topics, sums), *bundles])
            return await asyncio.to_thread(
                write_text, collectors, topics.lines, HELP, openmetrics=openmetrics, compress=compress
            )

    @property
    def _cluster(self) -> dict[str, str]:
        return {"cluster": self._services.config.cluster_name}

    @property
    def _broker(self) -> dict[str, str]:
        return {**self._cluster, "broker": self._services.urls.broker_id}

    async def _read_topics(self) -> tuple[TopicsRead, list[Sample]]:
        """Read the values of all topics. Return them, and the samples of bundles, each of which is a sum over the
        bundle's topics.
        """
        topics = TopicsRead(self._services.config)
        bundles = _Bundles(self._services.control.ownership.owned_bundles())
        done = 0
        for topic in list(self._services.registry.loaded()):
            bundles.take(topic)
            for _ in topics.take(topic):
                done += 1
                if done % _READ_IN_ONE_STEP == 0:
                    await asyncio.sleep(0)
        return topics, list(bundles.samples(self._broker, traffic=self._shows_bundles()))

    def _shows_bundles(self) -> bool:
        """Return whether the answer has metrics of bundles: only if `exposeBundlesMetricsInPrometheus` is set, and with
        the extensible load manager only if `barycenterPulsarCompatibility` is not `4.x`.
        """
        config = self._services.config
        has_them = not self._services.control.way.hands_over or config.barycenter_pulsar_compatibility != "4.x"
        return config.expose_bundles_metrics_in_prometheus and has_them

    def _collectors(self, samples: list[Sample]) -> list[Collector]:
        instruments = self._services.control.env.instruments
        topic_loads = {**self._broker, "metric": "topic_load"}
        own = Labelled(instruments.registry, self._broker, topic_loads)
        others = (Labelled(registry, {}, {}) for registry in self._services.registries())
        process = Labelled(_PROCESS, self._cluster, {})
        return [Samples(samples, HELP), self._families(), own, *others, process]

    def _families(self) -> "_Read":
        counts = self._services.control.lookup.counts
        info = InfoMetricFamily(*VERSION)
        commit = f"barycenter {version()}"
        info.add_metric((), {**self._cluster, "version": PULSAR_VERSION, "commit": commit})
        lookups = SummaryMetricFamily(*LOOKUP_TIME, labels=tuple(self._cluster))
        lookups.add_metric(tuple(self._cluster.values()), counts.total, counts.seconds * 1000)
        return _Read([info, lookups])

    def _samples(self, topics: TopicsRead, sums: list[Sample]) -> Iterator[Sample]:
        control, broker = self._services.control, self._broker
        counters, instruments = self._services.registry.counters, control.env.instruments
        yield from ((name, broker, value) for name, _, value in sums)
        yield "pulsar_broker_in_messages_total", broker, counters.messages_in
        yield "pulsar_broker_out_messages_total", broker, counters.messages_out
        yield "pulsar_broker_in_bytes_total", broker, counters.bytes_in
        yield "pulsar_broker_out_bytes_total", broker, counters.bytes_out
        if counters.transfers:
            unloading = {**broker, "metric": "bundleUnloading"}
            yield "pulsar_lb_ignored_send_total", unloading, counters.dropped_sends
            yield "pulsar_lb_ignored_ack_total", unloading, counters.dropped_acks
        yield from ((name, {**broker, **labels}, value) for name, labels, value in control.way.samples())
        yield "pulsar_broker_lookup_pending_requests", broker, control.lookup.in_flight
        yield "pulsar_broker_topic_load_pending_requests", broker, instruments.loading_topics
        yield "barycenter_broker_is_leader", broker, control.leadership.is_leader()
        is_drained = self._services.urls.broker_id in self._services.config.barycenter_drained_brokers
        yield "barycenter_broker_is_drained", broker, is_drained
        yield "barycenter_broker_owned_bundles", broker, len(control.ownership.owned_bundles())
        yield "barycenter_brokers_active", broker, len(control.registration.brokers)
        yield "barycenter_damaged_ledgers", broker, topics.damaged_ledgers
        if self._services.authorizer.is_enabled:
            yield "barycenter_access_refusals_total", broker, self._services.authorizer.refusals.total
        yield from self._lookups()
        yield from self._clients()

    def _lookups(self) -> Iterator[Sample]:
        counts = self._services.control.lookup.counts
        yield "pulsar_broker_lookup_answers_total", self._cluster, counts.answers
        yield "pulsar_broker_lookup_redirects_total", self._cluster, counts.redirects
        yield "pulsar_broker_lookup_failures_total", self._cluster, counts.failures

    def _clients(self) -> Iterator[Sample]:
        """Yield the samples about connections (open, created, accepted, refused and closed), and the numbers of
        accepted and refused credentials.
        """
        connections = self._services.control.env.instruments.connections
        labels = {**self._broker, "metric": "broker_connection"}
        open_now = connections.created - connections.closed
        counts = (open_now, connections.created, connections.accepted, connections.refused, connections.closed)
        yield from ((name, labels, count) for name, count in zip(CONNECTION, counts, strict=True))
        authentication = self._services.authentication
        for method, believed in authentication.believed.items():
            yield "pulsar_authentication_success_total", {**self._cluster, **_provider(method)}, believed
        for (method, code), refused in authentication.refused.items():
            labels = {**self._cluster, **_provider(method), "reason": code}
            yield "pulsar_authentication_failures_total", labels, refused


def _provider(method: str) -> dict[str, str]:
    """Return the labels that Pulsar's metrics have for an authentication method. Requests without credentials (method
    "none") are counted for `AuthenticationProviderList`, the name of Pulsar's class that tries all providers.
    """
    name = "List" if method == "none" else method.capitalize()
    return {"provider_name": f"AuthenticationProvider{name}", "auth_method": method}


class _Bundles:
    """Sums the values of the topics of each bundle. Bundles without topics are included."""

    def __init__(self, owned: list[Bundle]) -> None:
        self._sums: dict[Bundle, list[float]] = {bundle: [0] * (1 + len(BUNDLE)) for bundle in owned}

    def take(self, topic: Topic) -> None:
        sums = self._sums.get(topic.owned.bundle)
        if sums is None:
            sums = self._sums[topic.owned.bundle] = [0] * (1 + len(BUNDLE))
        inward, outward = topic.in_rates, topic.out_rates
        sums[0] += 1
        sums[1] += inward.rate
        sums[2] += outward.rate
        sums[3] += inward.throughput
        sums[4] += outward.throughput
        sums[5] += len(topic.producers)
        sums[6] += topic.consumer_count

    def samples(self, broker: Mapping[str, str], *, traffic: bool) -> Iterator[Sample]:
        for bundle, (topics, *values) in self._sums.items():
            labels = {**broker, "bundle": str(bundle)}
            yield "pulsar_bundle_topics_count", labels, topics
            if traffic and topics:
                measured = {**labels, "metric": "bundle"}
                yield from ((name, measured, value) for name, value in zip(BUNDLE, values, strict=True))


class _Read(Collector):
    """A collector of the Prometheus client library that returns the given metric families. Their values were read
    before the library calls `collect`.
    """

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)
