"""The bundles that topics lie in, asked of a running cluster: people know topics, brokers move bundles.

Topics are named as clients name them: `orders`, `tenant/namespace/orders`, or in full; a partitioned topic stands for
all of its partitions. Brokers are asked by admin REST that Apache Pulsar has, too. No owner is looked up, so no bundle
gets one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pulsar_barycenter.admin.client import AdminClient, NewClient
from pulsar_barycenter.admin.errors import AdminRequestError
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.naming.errors import InvalidBundlesError, InvalidNameError
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.observer.answers import without_report
from pulsar_barycenter.observer.running_cluster import ClusterError
from pulsar_barycenter.terminal.suggestions import did_you_mean

MOST_PARTITIONS: Final = 10_000
"""A topic with more is not looked for."""
_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 64 << 20
_NOT_THERE: Final = (404, 405)
"""What a broker says of a namespace or a topic that does not exist, and of a domain that is switched off."""
_MOST_NAMED: Final = 5


class NoSuchTopicError(ValueError):
    """The cluster has no topic of that name; the text says which names are near."""


@dataclass(frozen=True, slots=True)
class TopicsBundle:
    """A bundle with the `topics` in it that were meant, and how many `others` it has."""

    bundle: str
    topics: tuple[str, ...]
    others: int

    def __str__(self) -> str:
        """Say it in a line that people read."""
        shown = ", ".join(self.topics[:_MOST_NAMED])
        more = f" and {len(self.topics) - _MOST_NAMED:,} more" if len(self.topics) > _MOST_NAMED else ""
        others = f", with {self.others:,} other {'topic' if self.others == 1 else 'topics'}" if self.others else ""
        is_one = len(self.topics) == 1
        return f"{'topic' if is_one else 'topics'} {shown}{more} {'is' if is_one else 'are'} in {self.bundle}{others}"


async def bundles_of_topic(new_client: NewClient, url: str, topic: TopicName) -> list[TopicsBundle]:
    """Return the bundle of a topic, or those of its partitions, by name; `url` is the web address of any broker.

    Raises:
        NoSuchTopicError: there is no such topic.
        ClusterError: the broker does not answer, or not so.
    """
    client = new_client(timeout_s=_TIMEOUT_S, most_bytes=_MOST_BYTES)
    try:
        return await _bundles_of(client, url, topic)
    except AdminRequestError as error:
        raise ClusterError(f"no answer from {url}: {without_report(error)}") from error
    except (msgspec.ValidationError, InvalidBundlesError, InvalidNameError, KeyError) as error:
        raise ClusterError(f"{url} does not say where {topic} is: {error}") from error
    finally:
        await client.close()


async def _bundles_of(client: AdminClient, url: str, topic: TopicName) -> list[TopicsBundle]:
    namespace = topic.namespace
    there = set(msgspec.convert(await _told(client, url, f"/{topic.domain}/{namespace}", []), list[str]))
    count = await _partitions(client, url, topic)
    meant = [topic.partition(index) for index in range(count)] or [topic]
    if not count and str(topic) not in there:
        known = {TopicName.parse(name).partitioned_name.local_name for name in there}
        raise NoSuchTopicError(f"there is no topic {topic}{did_you_mean(topic.local_name, sorted(known))}")
    told = msgspec.convert(await _told(client, url, f"/namespaces/{namespace}/bundles", {}), dict[str, Any])
    bundles = NamespaceBundles.from_boundaries(namespace, msgspec.convert(told["boundaries"], list[str]))
    return _gathered(bundles, meant, there)


async def _partitions(client: AdminClient, url: str, topic: TopicName) -> int:
    """Return how many partitions a topic has; 0 if it is not partitioned.

    Raises:
        ClusterError: it has more than MOST_PARTITIONS.
    """
    if topic.is_partition:
        return 0
    told: Mapping[str, Any] = await _told(client, url, f"/{topic.lookup_name}/partitions", {})
    count = msgspec.convert(told.get("partitions", 0), int)
    if count > MOST_PARTITIONS:
        raise ClusterError(f"{topic} has {count_of(count, 'partition')}; name one, such as {topic.partition(0)}")
    return max(0, count)


def _gathered(bundles: NamespaceBundles, meant: Iterable[TopicName], there: set[str]) -> list[TopicsBundle]:
    found: dict[str, list[str]] = {}
    for topic in meant:
        found.setdefault(str(bundles.find(topic)), []).append(str(topic))
    others = dict.fromkeys(found, 0)
    named = {name for names in found.values() for name in names}
    for name in there - named:
        bundle = str(bundles.find(TopicName.parse(name)))
        if bundle in others:
            others[bundle] += 1
    return [TopicsBundle(bundle, tuple(topics), others[bundle]) for bundle, topics in sorted(found.items())]


async def _told(client: AdminClient, url: str, path: str, otherwise: Any) -> Any:
    """Return an answer, `otherwise` if there is no such thing."""
    try:
        return await client.call("GET", url, f"/admin/v2{path}")
    except AdminRequestError as error:
        if error.status in _NOT_THERE:
            return otherwise
        raise
