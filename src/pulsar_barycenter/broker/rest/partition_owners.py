"""Asking the owners of partitions, each for the part of an answer that is its own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.rest.namespace_deletion import CONCURRENT_REQUESTS
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.naming.topic import TopicName


class PartitionOwners:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources

    async def partition_count(self, topic: TopicName) -> int:
        found = None if topic.is_partition else await self._resources.partitioned_metadata(topic)
        return 0 if found is None else found.partitions

    async def call(self, method: str, path: str, body: Any = None, *, params: dict[str, str] | None = None) -> Any:
        return await self._services.admin.call(method, self._services.web_url, path, params=params, body=body)

    async def of_partitions(
        self, topic: TopicName, ask: Callable[[TopicName], Awaitable[Any]], *, missing: Iterable[int] = ()
    ) -> list[Any]:
        count = await self.partition_count(topic)
        return await self.gather(ask, [topic.partition(index) for index in range(count)], missing=missing)

    async def gather(
        self, ask: Callable[[Any], Awaitable[Any]], about: Iterable[Any], *, missing: Iterable[int] = ()
    ) -> list[Any]:
        """Ask about each, some at a time; a refusal with a status in `missing` counts as the answer None."""
        limit = asyncio.Semaphore(CONCURRENT_REQUESTS)
        forgiven = frozenset(missing)

        async def one(item: Any) -> Any:
            async with limit:
                try:
                    return await ask(item)
                except AdminRequestError as error:
                    if error.status not in forgiven:
                        raise
                    return None

        return list(await asyncio.gather(*(one(item) for item in about)))
