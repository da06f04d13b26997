"""Finds the bundles of topics in a running cluster: operators know topics, brokers move bundles.

Topics have the names that clients use: `orders`, `tenant/namespace/orders`, or the full name. A partitioned topic means
all its partitions. The requests are part of Pulsar's admin REST. No topic is looked up, so no bundle gets an owner.
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

MAX_PARTITIONS: Final = 10_000
"""Topics with more partitions are refused."""
_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 64 << 20
_NOT_THERE: Final = (404, 405)
"""Status codes for a namespace or a topic that does not exist, and for a domain (persistent, non-persistent) that the
broker's settings switch off.
"""
_MAX_NAMES: Final = 5


class NoSuchTopicError(ValueError):
    """The cluster has no topic of that name; the text suggests similar names."""


@dataclass(frozen=True, slots=True)
class TopicsBundle:
    """A bundle, those topics in it that were requested (`topics`), and the number of other topics in it (`others`)."""

    bundle: str
    topics: tuple[str, ...]
    others: int

    def __str__(self) -> str:
        """Return a sentence with the topics and their bundle."""
        shown = ", ".join(self.topics[:_MAX_NAMES])
        more = f" and {len(self.topics) - _MAX_NAMES:,} more" if len(self.topics) > _MAX_NAMES else ""
        others = f", with {self.others:,} other {'topic' if self.others == 1 else 'topics'}" if self.others else ""
        is_one = len(self.topics) == 1
        return f"{'topic' if is_one else 'topics'} {shown}{more} {'is' if is_one else 'are'} in {self.bundle}{others}"


async def bundles_of_topic(new_client: NewClient, url: str, topic: TopicName) -> list[TopicsBundle]:
    """Return the bundle of a topic or, if the topic is partitioned, the bundles of its partitions, sorted by name;
    `url` is the address of any broker.

    Raises:
        NoSuchTopicError: the topic does not exist.
        ClusterError: the broker does not answer, or its answer has an unexpected form.
    """
    client = new_client(timeout_s=_TIMEOUT_S, most_bytes=_MOST_BYTES)
    try:
        return await _bundles_of(client, url, topic)
    except AdminRequestError as error:
        raise ClusterError(f"no answer from {url}: {without_report(error)}") from error
    except (msgspec.ValidationError, InvalidBundlesError, InvalidNameError, KeyError) as error:
        raise ClusterError(f"{url} did not return the bundle of {topic}: {error}") from error
    finally:
        await client.close()


async def _bundles_of(client: AdminClient, url: str, topic: TopicName) -> list[TopicsBundle]:
    namespace = topic.namespace
    there = set(msgspec.convert(await _answer(client, url, f"/{topic.domain}/{namespace}", []), list[str]))
    count = await _partitions(client, url, topic)
    meant = [topic.partition(index) for index in range(count)] or [topic]
    if not count and str(topic) not in there:
        known = {TopicName.parse(name).partitioned_name.local_name for name in there}
        raise NoSuchTopicError(f"there is no topic {topic}{did_you_mean(topic.local_name, sorted(known))}")
    answer = msgspec.convert(await _answer(client, url, f"/namespaces/{namespace}/bundles", {}), dict[str, Any])
    bundles = NamespaceBundles.from_boundaries(namespace, msgspec.convert(answer["boundaries"], list[str]))
    return _gathered(bundles, meant, there)


async def _partitions(client: AdminClient, url: str, topic: TopicName) -> int:
    """Ask the broker at `url` for the number of partitions of a topic, and return it; 0 if it is not partitioned.

    Raises:
        ClusterError: the topic has more than MAX_PARTITIONS partitions.
    """
    if topic.is_partition:
        return 0
    answer: Mapping[str, Any] = await _answer(client, url, f"/{topic.lookup_name}/partitions", {})
    count = msgspec.convert(answer.get("partitions", 0), int)
    if count > MAX_PARTITIONS:
        raise ClusterError(
            f"{topic} has {count_of(count, 'partition')}, too many to look up at once; name one of its partitions,"
            f" such as {topic.partition(0)}"
        )
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


async def _answer(client: AdminClient, url: str, path: str, otherwise: Any) -> Any:
    """Send a GET request for `path` and return the answer; `otherwise` if the broker answers that the object does not
    exist.
    """
    try:
        return await client.call("GET", url, f"/admin/v2{path}")
    except AdminRequestError as error:
        if error.status in _NOT_THERE:
            return otherwise
        raise
