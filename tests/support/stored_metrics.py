"""Load of brokers over time as the metrics of Pulsar that a Prometheus stores, and a server that answers as one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from pulsar_barycenter.load.reports.load_report import LocalBrokerData, NamespaceBundleStats, ResourceUsage
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.prometheus.series import TOPIC_SERIES, Series

NAMESPACE = NamespaceName.parse("shop/orders")
BUNDLES = NamespaceBundles.equal(NAMESPACE, 4)
BEGIN_MS = 1_790_000_040_000
STEP_MS = 60_000
BROKERS = ("broker-a", "broker-b")
_METRIC = re.compile(r"^([a-z_A-Z]+)\{(.*)\}$")
_MATCHER = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class Load:
    """The traffic of topics at steps: rate in by topic; out is double, a message has 100 bytes. `owners` are numbers
    of brokers by bundle and step; `down` are steps without a broker, `started` its starts by step, epoch s.
    """

    rates: dict[str, list[float]]
    owners: dict[str, list[int]]
    steps: int
    cpu: list[list[float]]
    down: set[tuple[int, int]] = field(default_factory=set)
    started: dict[int, list[int]] = field(default_factory=dict)
    cluster: str = "c1"
    job: str = "pulsar"

    def at_s(self, step: int) -> float:
        return (BEGIN_MS + step * STEP_MS) / 1000

    def instance(self, broker: int) -> str:
        return f"10.0.0.{broker + 1}:8080"

    def starts(self, broker: int) -> list[int]:
        return self.started.get(broker, [1_789_000_000] * self.steps)

    def reports(self) -> Iterator[LocalBrokerData]:
        """Yield what a collector would have recorded, by time and broker, without numbers."""
        for step in range(self.steps):
            for broker, name in enumerate(BROKERS):
                if (step, broker) in self.down:
                    continue
                stats: dict[str, NamespaceBundleStats] = {}
                for topic, rates in sorted(self.rates.items()):
                    bundle = str(BUNDLES.find(TopicName.parse(topic)))
                    if self.owners[bundle][step] == broker:
                        stats[bundle] = _plus(stats.get(bundle, NamespaceBundleStats()), rates[step])
                yield LocalBrokerData(
                    broker_id=f"{name}:8080",
                    last_update=BEGIN_MS + step * STEP_MS,
                    cpu=ResourceUsage(self.cpu[broker][step] * 4, 400.0),
                    last_stats=dict(sorted(stats.items())),
                )

    def series(self) -> list[Series]:
        found = []
        for broker, name in enumerate(BROKERS):
            labels = {"cluster": self.cluster, "instance": self.instance(broker), "job": self.job}
            up = [step for step in range(self.steps) if (step, broker) not in self.down]
            found += [
                self._made("pulsar_lb_cpu_usage", {**labels, "broker": name}, up, self.cpu[broker]),
                self._made("pulsar_broker_topics_count", labels, up, [7] * self.steps),
                self._made("process_start_time_seconds", labels, up, self.starts(broker)),
            ]
            for topic, rates in self.rates.items():
                bundle = str(BUNDLES.find(TopicName.parse(topic)))
                mine = [step for step in up if self.owners[bundle][step] == broker]
                of = {**labels, "namespace": str(NAMESPACE), "topic": topic}
                for name_of_metric, value in _figures():
                    found.append(self._made(name_of_metric, of, mine, [value(rate) for rate in rates]))
        return [series for series in found if series.values]

    def _made(self, name: str, labels: dict[str, str], steps: Sequence[int], values: Sequence[float]) -> Series:
        return Series({"__name__": name, **labels}, [(self.at_s(step), repr(values[step])) for step in steps])


def _figures() -> list[tuple[str, Any]]:
    return [
        (TOPIC_SERIES["rate_in"], lambda rate: rate),
        (TOPIC_SERIES["rate_out"], lambda rate: 2 * rate),
        (TOPIC_SERIES["throughput_in"], lambda rate: 100 * rate),
        (TOPIC_SERIES["throughput_out"], lambda rate: 200 * rate),
        (TOPIC_SERIES["producers"], lambda rate: 1),
        (TOPIC_SERIES["consumers"], lambda rate: 2),
    ]


def _plus(stats: NamespaceBundleStats, rate: float) -> NamespaceBundleStats:
    return NamespaceBundleStats(
        msg_rate_in=stats.msg_rate_in + rate,
        msg_rate_out=stats.msg_rate_out + 2 * rate,
        msg_throughput_in=stats.msg_throughput_in + 100 * rate,
        msg_throughput_out=stats.msg_throughput_out + 200 * rate,
        producer_count=stats.producer_count + 1,
        consumer_count=stats.consumer_count + 2,
        topics=stats.topics + 1,
    )


def steady(steps: int = 12, topics: int = 9) -> Load:
    """A load in which two bundles change their broker in the middle."""
    names = [f"persistent://{NAMESPACE}/orders-{number}" for number in range(topics)]
    owners = {
        str(bundle): [row % 2 if step < steps // 2 or row > 1 else 1 - row % 2 for step in range(steps)]
        for row, bundle in enumerate(BUNDLES.bundles)
    }
    rates = {name: [10.0 * (number + 1) + step for step in range(steps)] for number, name in enumerate(names)}
    cpu = [[20.0 + broker + step for step in range(steps)] for broker in range(2)]
    return Load(rates, owners, steps, cpu)


class FakePrometheus:
    """A web server with stored series, and answers to give first. `now_ms` is its clock."""

    def __init__(self, series: Sequence[Series]) -> None:
        self.series = list(series)
        self.first: list[web.Response] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.tokens: list[str] = []
        self.most_points = 11_000
        self.now_ms = max((int(at * 1000) for each in series for at, _ in each.values), default=BEGIN_MS)
        app = web.Application()
        app.router.add_get("/api/v1/query", self._query)
        app.router.add_get("/api/v1/query_range", self._query_range)
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def __aenter__(self) -> FakePrometheus:
        await self.server.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()

    async def _query(self, request: web.Request) -> web.Response:
        assert request.query["query"] == "time()"
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.first:
            return self.first.pop(0)
        at = self.now_ms / 1000
        return web.json_response({"status": "success", "data": {"resultType": "scalar", "result": [at, str(at)]}})

    async def _query_range(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        self.asked.append((asked["query"], asked))
        if self.first:
            return self.first.pop(0)
        first, last, step = (float(asked[name]) for name in ("start", "end", "step"))
        if not asked["query"].startswith("count") and (last - first) / step >= self.most_points:
            error = "exceeded maximum resolution of 11,000 points per timeseries"
            return web.json_response({"status": "error", "errorType": "bad_data", "error": error}, status=400)
        times = [first + row * step for row in range(int((last - first) / step) + 1)]
        counted = re.fullmatch(r"count by \(cluster\) \(last_over_time\((.*)\[(\d+)s\]\)\)", asked["query"])
        found = self._counted(counted[1], float(counted[2]), times) if counted else self._chosen(asked["query"], times)
        return web.Response(
            body=msgspec.json.encode({"status": "success", "data": {"resultType": "matrix", "result": found}}),
            content_type="application/json",
        )

    def _chosen(self, query: str, times: list[float]) -> list[Series]:
        parsed = _METRIC.match(query)
        assert parsed, query
        wanted = [("__name__", parsed[1]), *_MATCHER.findall(parsed[2])]
        chosen = []
        for series in self.series:
            if all(series.metric.get(name, "") == value for name, value in wanted):
                values = dict(series.values)
                chosen.append(Series(series.metric, [(at, values[at]) for at in times if at in values]))
        return [series for series in chosen if series.values]

    def _counted(self, selector: str, range_s: float, times: list[float]) -> list[Series]:
        pattern = re.search(r'__name__=~"([^"]*)"', selector)
        assert pattern
        wanted = _MATCHER.findall(selector)
        found: dict[str, dict[float, str]] = {}
        for series in self.series:
            if re.fullmatch(pattern[1], series.metric["__name__"]) and all(
                series.metric.get(name, "") == value for name, value in wanted
            ):
                for at in times:
                    if any(at - range_s < point <= at for point, _ in series.values):
                        found.setdefault(series.metric.get("cluster", ""), {})[at] = "1"
        return [Series({"cluster": name} if name else {}, sorted(values.items())) for name, values in found.items()]
