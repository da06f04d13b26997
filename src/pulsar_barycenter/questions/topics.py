"""Reads the topics of bundles with their stats, and no more topics than are shown.

It costs one request for each bundle to list its topics, and one for each topic that is shown.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pulsar_barycenter.admin.client import AdminClient, NewClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.naming.bundle import Bundle
from pulsar_barycenter.naming.errors import InvalidNameError
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.answers import without_report
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.status.board import BundleRow, TopicRow, topic_row

MAX_TOPICS: Final = 200
"""The maximum number of topics whose stats are read: the first ones by name, bundle after bundle."""
MAX_BUNDLES: Final = 20
"""The maximum number of bundles whose topics are listed if no bundle is chosen."""
_AT_ONCE: Final = 16
_TIMEOUT_S: Final = 10.0
_MAX_ANSWER_BYTES: Final = 16 << 20
_NOT_THERE: Final = (404, 405)
"""Status codes for a topic that the broker has not loaded, and for a domain that is switched off."""


@dataclass(frozen=True, slots=True)
class SeenTopics:
    """The topics whose stats were read (`rows`), and the number of all topics of the requested bundles (`count`), which
    may be greater because the number of rows is limited.
    """

    rows: Sequence[TopicRow] = ()
    count: int = 0


async def topics_of(new_client: NewClient, url: str, bundles: Sequence[BundleRow]) -> SeenTopics:
    """Return the topics of `bundles` with their stats, up to a limit; `url` is the web address of any broker.

    Raises:
        ClusterError: the broker does not answer, or its answer has an unexpected form.
    """
    client = new_client(timeout_s=_TIMEOUT_S, most_bytes=_MAX_ANSWER_BYTES)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(path: str, **params: str) -> Any:
        async with gate:
            return await _answer(client, url, path, params)

    async def names(row: BundleRow) -> list[tuple[str, BundleRow]]:
        try:
            bundle = Bundle.parse(row.bundle)
        except InvalidNameError as error:
            raise ClusterError(f"{row.bundle}: {error}") from error
        stored, passing = await asyncio.gather(
            ask(f"/persistent/{bundle.namespace}", bundle=str(bundle.range)),
            ask(f"/non-persistent/{bundle.namespace}/{bundle.range}"),
        )
        found = msgspec.convert([*(stored or ()), *(passing or ())], list[str])
        return [(topic, row) for topic in found]

    async def row_of(topic: str, row: BundleRow) -> TopicRow:
        stats = await ask(f"/{TopicName.parse(topic).lookup_name}/stats")
        return topic_row(topic, row.bundle, row.broker, stats)

    try:
        found = [pair for pairs in await asyncio.gather(*map(names, bundles)) for pair in pairs]
        rows = await asyncio.gather(*(row_of(topic, row) for topic, row in found[:MAX_TOPICS]))
    except AdminRequestError as error:
        raise ClusterError(f"the topics cannot be read: {without_report(error)}") from error
    except (msgspec.ValidationError, InvalidNameError) as error:
        raise ClusterError(f"no topics from {url}: {error}") from error
    finally:
        await client.close()
    return SeenTopics(rows, len(found))


async def _answer(client: AdminClient, url: str, path: str, params: dict[str, str]) -> Any:
    """Send a GET request for `path` and return the answer. Return None if the broker answers that the object does not
    exist: it has not loaded the topic, or topics of this domain (persistent or non-persistent) are switched off.

    Raises:
        AdminRequestError: the request failed for another reason.
    """
    try:
        return await client.call("GET", url, f"/admin/v2{path}", params=params)
    except AdminRequestError as error:
        if error.status in _NOT_THERE:
            return None
        raise
