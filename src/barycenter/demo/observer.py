"""Watch a cluster from outside, as a user would: load reports and lookups over HTTP."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from barycenter.demo.record import LoadSample
from barycenter.load.reports.load_report import LocalBrokerData
from barycenter.naming.topic import TopicName

_ANSWER_TIMEOUT = aiohttp.ClientTimeout(total=2.0)


class ClusterObserver:
    """Ask brokers what they report. A broker that does not answer is left out, as a crashed one would be."""

    def __init__(self, web_urls: Sequence[str]) -> None:
        self._web_urls = list(web_urls)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "ClusterObserver":
        self._session = aiohttp.ClientSession(timeout=_ANSWER_TIMEOUT)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def load_samples(self, now_s: float) -> list[LoadSample]:
        """Return the load that each broker reports now."""
        answers = await asyncio.gather(
            *(self._get(f"{url}/admin/v2/broker-stats/load-report") for url in self._web_urls)
        )
        return [_sample(url, answer, now_s) for url, answer in zip(self._web_urls, answers, strict=True) if answer]

    async def owner(self, topic: str) -> str | None:
        """Return the web URL of the broker that serves `topic`."""
        name = TopicName.parse(topic)
        for url in self._web_urls:
            if answer := await self._get(f"{url}/lookup/v2/topic/{quote(name.lookup_name, safe='/')}"):
                return str(answer["httpUrl"])
        return None

    async def bundles_of(self, web_url: str, namespace: str) -> set[str]:
        """Return the bundles of `namespace` that the broker at `web_url` owns."""
        broker_id = web_url.removeprefix("http://")
        owned = await self._get(f"{web_url}/admin/v2/brokers/standalone/{broker_id}/ownedNamespaces") or {}
        return {bundle for bundle in owned if bundle.startswith(f"{namespace}/")}

    async def _get(self, url: str) -> Any:
        assert self._session is not None
        with suppress(aiohttp.ClientError, TimeoutError):
            async with self._session.get(url) as response:
                if response.status == 200:
                    return await response.json(content_type=None)
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
