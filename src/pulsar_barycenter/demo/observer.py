"""Observes a cluster from outside, as a user can: load reports and look-ups over HTTP."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from pulsar_barycenter.admin.client import AdminClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.demo.record import LoadSample
from pulsar_barycenter.load.reports.load_report import LocalBrokerData
from pulsar_barycenter.naming.topic import TopicName

_ANSWER_TIMEOUT_S: Final = 2.0


class ClusterObserver:
    """Requests load reports and look-ups from brokers. Brokers that do not answer are left out."""

    def __init__(self, web_urls: Sequence[str]) -> None:
        self._web_urls = list(web_urls)
        self._client = AdminClient(timeout_s=_ANSWER_TIMEOUT_S)

    async def __aenter__(self) -> "ClusterObserver":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()

    async def load_samples(self, now_s: float) -> list[LoadSample]:
        """Query all brokers for their load, and return a sample for each broker that answers, with the time `now_s`."""
        answers = await asyncio.gather(
            *(self._get(url, "/admin/v2/broker-stats/load-report") for url in self._web_urls)
        )
        return [_sample(url, answer, now_s) for url, answer in zip(self._web_urls, answers, strict=True) if answer]

    async def owner(self, topic: str) -> str | None:
        """Return the web URL of the broker that serves `topic`; None if no broker answers the look-up."""
        name = TopicName.parse(topic)
        for url in self._web_urls:
            if answer := await self._get(url, f"/lookup/v2/topic/{quote(name.lookup_name, safe='/')}"):
                return str(answer["httpUrl"])
        return None

    async def bundles_of(self, web_url: str, namespace: str) -> set[str]:
        """Return the bundles of `namespace` that the broker at `web_url` owns; an empty set if the broker does not
        answer.
        """
        broker_id = web_url.removeprefix("http://")
        owned = await self._get(web_url, f"/admin/v2/brokers/standalone/{broker_id}/ownedNamespaces") or {}
        return {bundle for bundle in owned if bundle.startswith(f"{namespace}/")}

    async def _get(self, web_url: str, path: str) -> Any:
        try:
            return await self._client.call("GET", web_url, path)
        except AdminRequestError:
            return None


def _sample(url: str, answer: dict[str, Any], now_s: float) -> LoadSample:
    data = msgspec.convert(answer, LocalBrokerData)
    return LoadSample(
        at_s=now_s,
        broker=url.removeprefix("http://"),
        msg_rate=data.msg_rate_in + data.msg_rate_out,
        throughput=data.msg_throughput_in + data.msg_throughput_out,
        bundles=data.num_bundles,
        usage=data.max_resource_usage,
    )
