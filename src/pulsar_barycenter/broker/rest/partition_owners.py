"""Sends requests to the owners of partitions, and combines their answers.

Only reads and changes that may be repeated are sent here. Changes that a partition may refuse are in
`partition_changes`.
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
        """Return the names of all partitions of a topic; an empty list if the topic is not partitioned."""
        return [topic.partition(index) for index in range(await self.partition_count(topic))]

    async def call(self, method: str, path: str, body: Any = None, *, params: dict[str, str] | None = None) -> Any:
        return await self._services.admin.call(method, self._services.web_url, path, params=params, body=body)

    async def of_partitions(
        self, topic: TopicName, ask: Callable[[TopicName], Awaitable[Any]], *, missing: Iterable[int] = ()
    ) -> list[Any]:
        return await gather(ask, await self.partitions(topic), missing=missing)


async def gather(ask: Callable[[T], Awaitable[Any]], about: Iterable[T], *, missing: Iterable[int] = ()) -> list[Any]:
    """Call `ask` for each item of `about` in parallel, and return the answers in the order of the items. For an item
    whose request fails with an HTTP status in `missing`, the answer is None.

    If requests fail with another status, the error of the first such item is raised after all requests have ended.
    """
    accepted = frozenset(missing)
    answers = await _answers(ask, about)
    for answer in answers:
        if isinstance(answer, AdminRequestError) and answer.status not in accepted:
            raise answer
    return [None if isinstance(answer, AdminRequestError) else answer for answer in answers]


async def tried(ask: Callable[[T], Awaitable[Any]], about: Iterable[T]) -> list[tuple[T, AdminRequestError]]:
    """Call `ask` for each item of `about` in parallel, even if it fails for some of them. Return the items for which it
    raised an AdminRequestError, with that error. Other exceptions are raised.
    """
    items = list(about)
    answers = await _answers(ask, items)
    return [
        (item, answer) for item, answer in zip(items, answers, strict=True) if isinstance(answer, AdminRequestError)
    ]


async def repeatable(
    ask: Callable[[T], Awaitable[Any]], about: Iterable[T], *, what: str, missing: Iterable[int] = ()
) -> None:
    """Call `ask`, which makes a change that may be repeated, for each item of `about` in parallel. `what` is the past
    participle for error messages, such as "unloaded". Errors whose HTTP status is in `missing` count as success.

    Raises:
        RestError: the error of the first failed item, with the number of items that were changed. It is raised after
            all requests have ended.
    """
    items, accepted = list(about), frozenset(missing)
    failed = [(item, error) for item, error in await tried(ask, items) if error.status not in accepted]
    if failed:
        item, error = failed[0]
        done = len(items) - len(failed)
        raise RestError(
            error.status or 503,
            f"{item} was not {what}: {error.reason}. {done} of {len(items)} were {what}. Repeat the request.",
        )


async def _answers(ask: Callable[[T], Awaitable[Any]], about: Iterable[T]) -> list[Any]:
    """Call `ask` for each item in parallel. Return one element for each item, in their order: its answer, or the
    AdminRequestError that `ask` raised. Other exceptions are raised.
    """
    limit = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def answer_of(item: T) -> Any:
        async with limit:
            try:
                return await ask(item)
            except AdminRequestError as error:
                return error

    return list(await asyncio.gather(*map(answer_of, about)))
