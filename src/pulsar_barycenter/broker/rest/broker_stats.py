"""Answers requests for the stats of the broker that gets the request.

Source: Pulsar's `BrokerStatsBase`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from aiohttp import web

from pulsar_barycenter.broker.load_manager.contract import RanksBrokers
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.requests import json_response, namespace_of
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.broker.rest.streamed import streamed
from pulsar_barycenter.broker.topics.topic import Topic
from pulsar_barycenter.naming.internal_topics import BROKER_LOAD_TOPIC

_ALLOCATORS: Final = ("default", "ml-cache")


class BrokerStats:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    async def load_report(self, request: web.Request) -> web.Response:
        """Answer with the load report. With the extensible load manager the answer is an error, as in Pulsar, because
        it makes no load report.
        """
        if self._services.control.way.hands_over:
            raise RestError(
                500,
                "The extensible load manager makes no load report. Read its load data instead, at "
                f"/barycenter/v1/snapshot or in the topic {BROKER_LOAD_TOPIC}",
            )
        return json_response(self._services.control.load_manager.load_report())

    async def topics(self, request: web.Request) -> web.StreamResponse:

        async def pieces() -> Iterator[bytes]:
            return self._topics_in_pieces()

        return await streamed(request, {"Content-Type": "application/json"}, pieces)

    def _topics_in_pieces(self) -> Iterator[bytes]:
        encode = msgspec.json.encode
        yield b"{"
        for number, (namespace, bundles) in enumerate(self._by_namespace().items()):
            yield (b"," if number else b"") + encode(namespace) + b":{"
            for index, (bundle_range, topics) in enumerate(bundles.items()):
                yield (b"," if index else b"") + encode(bundle_range) + b":{"
                yield from self._domains_in_pieces(topics)
                yield b"}"
            yield b"}"
        yield b"}"

    def _domains_in_pieces(self, topics: list[Topic]) -> Iterator[bytes]:
        broker_id = self._services.urls.broker_id
        first_domain = True
        for domain in ("persistent", "non-persistent"):
            members = [topic for topic in topics if topic.name.domain == domain]
            if not members:
                continue
            yield (b"" if first_domain else b",") + msgspec.json.encode(domain) + b":{"
            first_domain = False
            for number, topic in enumerate(members):
                stats = self._services.registry.topic_stats(topic, owner_broker=broker_id)
                key = msgspec.json.encode(str(topic.name))
                yield (b"," if number else b"") + key + b":" + msgspec.json.encode(stats)
            yield b"}"

    def _by_namespace(self) -> dict[str, dict[str, list[Topic]]]:
        found: dict[str, dict[str, list[Topic]]] = {}
        for topic in self._services.registry.loaded():
            bundle = topic.owned.bundle
            found.setdefault(str(bundle.namespace), {}).setdefault(str(bundle.range), []).append(topic)
        return found

    async def metrics(self, request: web.Request) -> web.Response:
        shown = [
            {"metrics": _sums(topics), "dimensions": {"namespace": namespace}}
            for namespace, bundles in self._by_namespace().items()
            for topics in [[topic for members in bundles.values() for topic in members]]
        ]
        return json_response(shown)

    async def allocator_stats(self, request: web.Request) -> web.Response:
        name = request.match_info["allocator"]
        if name not in _ALLOCATORS:
            raise RestError(406, f"Unknown allocator {name!r}: use one of {', '.join(_ALLOCATORS)}")
        return json_response({})

    async def mbeans(self, request: web.Request) -> web.Response:
        return json_response([])

    async def resource_availability(self, request: web.Request) -> web.Response:
        namespace = namespace_of(request)
        manager = self._services.control.load_manager
        if not isinstance(manager, RanksBrokers):
            raise RestError(
                409,
                f"{type(manager).__name__} does not rank brokers: only the simple load manager supports this request",
            )
        ranked = await manager.resource_availability(namespace)
        return json_response(
            {rank: [{"resourceId": f"http://{broker}"} for broker in brokers] for rank, brokers in ranked.items()}
        )


def _sums(topics: Iterable[Topic]) -> dict[str, Any]:
    members = list(topics)
    return {
        "brk_in_rate": sum(topic.in_rates.rate for topic in members),
        "brk_in_tp_rate": sum(topic.in_rates.throughput for topic in members),
        "brk_out_rate": sum(topic.out_rates.rate for topic in members),
        "brk_out_tp_rate": sum(topic.out_rates.throughput for topic in members),
        "brk_no_of_producers": sum(len(topic.producers) for topic in members),
        "brk_no_of_consumers": sum(topic.consumer_count for topic in members),
        "brk_topics_count": len(members),
    }
