"""X5: automatic splits divide one bundle into 128."""

import asyncio
import math
import time
from typing import Final

from benchmarks.manager_comparison.managers import BALANCING_KEYS, NAMESPACE, TOPIC, Figures, Manager, compared
from pulsar_barycenter.naming.bundles import NamespaceBundles
from pulsar_barycenter.naming.namespace import NamespaceName
from pulsar_barycenter.naming.topic import TopicName

BROKERS: Final = 3
BUNDLES: Final = 128
TOPICS: Final = 1_024
MOST_TOPICS: Final = 4
"""Topics of a bundle above which it is split, the default being 1,000; each of 64 bundles has some 16."""
_SPLITTING: Final = "loadBalancerAutoBundleSplitEnabled"
_KEYS: Final = {
    **BALANCING_KEYS,
    _SPLITTING: "false",
    "loadBalancerNamespaceBundleMaxTopics": f"{MOST_TOPICS}",
    "loadBalancerNamespaceMaximumBundles": f"{BUNDLES}",
}
_PAYLOAD: Final = 100
_RATE: Final = 500.0
_LOOK_S: Final = 0.1
_SETTLE_S: Final = 2.0
_LONGEST_S: Final = 120.0
_AFTER_S: Final = 5.0
"""Several brokers may split at once, each of which counts for itself: there may come more."""


async def one_into_many(manager: Manager) -> dict[str, Figures]:
    """X5: from when splitting is allowed until the namespace has its most bundles, and each that holds a topic has an
    owner: others get one when somebody looks them up."""
    namespace = NamespaceName.parse(NAMESPACE)
    topics = [TopicName.parse(f"{TOPIC}-partition-{number}") for number in range(TOPICS)]
    async with compared(manager, brokers=BROKERS, bundles=1, partitions=TOPICS, keys=_KEYS) as system:
        with await asyncio.to_thread(system.publishers, _PAYLOAD) as publishers, publishers.sending(_RATE):
            await asyncio.sleep(_SETTLE_S)
            began_s = time.perf_counter()
            await system.set(_SPLITTING, "true")
            ended_s = math.inf
            while time.perf_counter() < began_s + _LONGEST_S:
                boundaries = (await system.call("GET", f"namespaces/{NAMESPACE}/bundles"))["boundaries"]
                if len(boundaries) > BUNDLES:
                    bundles = NamespaceBundles.from_boundaries(namespace, boundaries)
                    if {str(bundles.find(topic)) for topic in topics} <= (await system.owners()).keys():
                        ended_s = time.perf_counter()
                        break
                await asyncio.sleep(_LOOK_S)
            await asyncio.sleep(_AFTER_S)
            count = len((await system.call("GET", f"namespaces/{NAMESPACE}/bundles"))["boundaries"]) - 1
    return {"X5": {f"until there are {BUNDLES} bundles, s": ended_s - began_s, "bundles in the end": count}}
