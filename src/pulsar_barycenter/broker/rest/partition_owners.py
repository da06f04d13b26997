"""Asking the owners of partitions, each for the part of an answer that is its own.

What is asked here changes nothing, or may be repeated: changes that a partition may refuse are in `partition_changes`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.broker.rest.errors import RestError
from pulsar_barycenter.broker.rest.services import BrokerServices
from pulsar_barycenter.naming.topic import TopicName

T = TypeVar("T")

CONCURRENT_REQUESTS: Final = 32


class PartitionOwners:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._resources = services.resources

    async def partition_count(self, topic: TopicName) -> int:
        found = None if topic.is_partition else await self._resources.partitioned_metadata(topic)
        return 0 if found is None else found.partitions

    async def partitions(self, topic: TopicName) -> list[TopicName]:
        """Return the partitions of a topic, none of one that is not partitioned."""
        return [topic.partition(index) for index in range(await self.partition_count(topic))]

    async def call(self, method: str, path: str, body: Any = None, *, params: dict[str, str] | None = None) -> Any:
        return await self._services.admin.call(method, self._services.web_url, path, params=params, body=body)

    async def of_partitions(
        self, topic: TopicName, ask: Callable[[TopicName], Awaitable[Any]], *, missing: Iterable[int] = ()
    ) -> list[Any]:
        return await gather(ask, await self.partitions(topic), missing=missing)


async def gather(ask: Callable[[T], Awaitable[Any]], about: Iterable[T], *, missing: Iterable[int] = ()) -> list[Any]:
    """Ask about each, some at a time; a refusal with a status in `missing` counts as the answer None.

    All are asked and waited for before the first error is raised.
    """
    forgiven = frozenset(missing)
    answers = await _answers(ask, about)
    for answer in answers:
        if isinstance(answer, AdminRequestError) and answer.status not in forgiven:
            raise answer
    return [None if isinstance(answer, AdminRequestError) else answer for answer in answers]


async def tried(ask: Callable[[T], Awaitable[Any]], about: Iterable[T]) -> list[tuple[T, AdminRequestError]]:
    """Ask about each, some at a time, whatever the others answer; return those that failed, with their errors."""
    items = list(about)
    answers = await _answers(ask, items)
    return [(item, each) for item, each in zip(items, answers, strict=True) if isinstance(each, AdminRequestError)]


async def repeatable(
    ask: Callable[[T], Awaitable[Any]], about: Iterable[T], *, what: str, missing: Iterable[int] = ()
) -> None:
    """Have each done, some at a time, of something that may be repeated; `what` says it in the past, as in "unloaded".

    Raises:
        RestError: the first failure, and how many were done all the same.
    """
    items, forgiven = list(about), frozenset(missing)
    failed = [(item, error) for item, error in await tried(ask, items) if error.status not in forgiven]
    if failed:
        item, error = failed[0]
        done = len(items) - len(failed)
        raise RestError(
            error.status or 503, f"{item} was not {what}: {error.reason}. {done} of {len(items)} were. Repeat it."
        )


async def _answers(ask: Callable[[T], Awaitable[Any]], about: Iterable[T]) -> list[Any]:
    """Return what each was answered, an AdminRequestError included. Anything else that goes wrong is raised."""
    limit = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def one(item: T) -> Any:
        async with limit:
            try:
                return await ask(item)
            except AdminRequestError as error:
                return error

    return list(await asyncio.gather(*(one(item) for item in about)))
