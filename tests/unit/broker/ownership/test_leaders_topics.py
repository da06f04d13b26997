"""The leader's term of the internal topics: it begins whatever the election returned in between."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from pulsar_barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, Leadership
from pulsar_barycenter.broker.cluster.lookup_answers import Owner
from pulsar_barycenter.broker.ownership.channel.leaders_topics import LeadersTopics
from pulsar_barycenter.broker.ownership.serving_log import ServingLog
from pulsar_barycenter.broker.ownership.term import PauseDetector
from pulsar_barycenter.metadata.memory.memory_store import MemoryStore
from pulsar_barycenter.metadata.store import Notification, NotificationType, Record
from support.control_cluster import ControlCluster, on_virtual_time
from support.virtual_time import LoopClock


def topics_of(
    cluster: ControlCluster, store: MemoryStore, leadership: Leadership, changed: Callable[[], None] = lambda: None
) -> LeadersTopics:
    return LeadersTopics(
        store,
        leadership,
        clock=LoopClock(),
        pauses=PauseDetector(5.0, cluster.loop.time, LoopClock().now_ms),
        serving_log=ServingLog(LoopClock(), str(random.Random(1).random())),
        owner_named=lambda broker, epoch: Owner(broker, None, None, None, None, is_local=True),
        close_topics=lambda bundle, reason: None,
        changed=changed,
    )


def test_a_leader_that_hears_late_of_its_predecessors_end_serves_the_internal_topics() -> None:
    """While it takes the number of its term, the election is notified that the key was deleted, and finds its own
    key."""

    async def scenario(cluster: ControlCluster) -> None:
        store = cluster.backend.connect(LoopClock(), 10_000)
        leadership = Leadership(store, CHANNEL_LEADER_PATH)
        topics = topics_of(cluster, store, leadership)
        delete = store.delete

        async def tell_late(path: str, **options: Any) -> None:
            store.delete = delete  # type: ignore[method-assign]
            await delete(path, **options)  # the key by which the number was drawn
            store._notified(Notification(NotificationType.DELETED, CHANNEL_LEADER_PATH))
            assert not leadership.is_leader()

        store.delete = tell_late  # type: ignore[method-assign]
        await leadership.start("a:1", None)
        await cluster.until(leadership.is_leader, "it leads")
        await cluster.until(lambda: topics.served() is not None, "it serves them", within_s=2)
        await topics.close()
        await leadership.close()

    on_virtual_time(scenario)


def test_who_follows_is_told_when_the_same_broker_leads_in_another_life() -> None:
    """Its former connections may lead nowhere without an error, so they have to be checked."""

    async def scenario(cluster: ControlCluster) -> None:
        stores = [cluster.backend.connect(LoopClock(), 10_000) for _ in range(2)]
        former, follower, later = (Leadership(stores[number], CHANNEL_LEADER_PATH) for number in (0, 1, 0))
        told: list[str | None] = []

        def changed() -> None:
            leader = follower.leader()
            told.append(None if leader is None else leader.broker_id)

        await former.start("a:1", None)
        await cluster.until(former.is_leader, "it leads")
        topics = topics_of(cluster, stores[1], follower, changed)
        await follower.start("b:1", None)
        follower.decline()
        await cluster.until(lambda: told[-1:] == ["a:1"], "the follower knows")
        before, get, leads_again = len(told), stores[1].get, asyncio.Event()

        async def get_late(path: str) -> Record | None:
            await leads_again.wait()
            return await get(path)

        stores[1].get = get_late  # type: ignore[method-assign]
        await former.close()
        await later.start("a:1", None)
        leads_again.set()
        await cluster.until(lambda: "a:1" in told[before:], "the follower is told again", within_s=12)
        await topics.close()
        for each in (follower, later):
            await each.close()

    on_virtual_time(scenario)
