"""The leader's term of the internal topics: it begins whatever the election thought in between."""

import random
from typing import Any

from barycenter.broker.cluster.leadership import CHANNEL_LEADER_PATH, Leadership
from barycenter.broker.cluster.lookup_answers import Owner
from barycenter.broker.ownership.channel.leaders_topics import LeadersTopics
from barycenter.broker.ownership.serving_log import ServingLog
from barycenter.broker.ownership.term import PauseDetector
from barycenter.metadata.store import Notification, NotificationType
from support.control_cluster import ControlCluster, LoopClock, on_virtual_time


def test_a_leader_that_hears_late_of_its_predecessors_end_serves_the_internal_topics() -> None:
    """While it takes the number of its term, the election is told that the key was deleted, and finds its own key."""

    async def scenario(cluster: ControlCluster) -> None:
        store = cluster.backend.connect(LoopClock(), 10_000)
        leadership = Leadership(store, CHANNEL_LEADER_PATH)
        topics = LeadersTopics(
            store,
            leadership,
            clock=LoopClock(),
            pauses=PauseDetector(5.0, cluster.loop.time, LoopClock().now_ms),
            serving_log=ServingLog(LoopClock(), str(random.Random(1).random())),
            owner_named=lambda broker, epoch: Owner(broker, None, None, None, None, is_local=True),
            close_topics=lambda bundle, reason: None,
            changed=lambda: None,
        )
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
