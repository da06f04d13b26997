"""Helpers for histories of known failures."""

import asyncio
from typing import Any

from pulsar_barycenter.broker.cluster.lookup_answers import (
    Owner,
)
from pulsar_barycenter.metadata.errors import StoreUnavailableError
from pulsar_barycenter.metadata.store import Notification
from pulsar_barycenter.naming.bundle import Bundle
from support.control_cluster import ControlBroker, ControlCluster, topic

HAND_OVER_S = 1.0
"""Within what a bundle that somebody gives up, or is given, is served."""


def deaf(notification: Notification) -> None:
    """Lose every notification."""


async def three(cluster: ControlCluster, bundles: int = 1) -> list[ControlBroker]:
    await cluster.create_namespace(bundles)
    return [await cluster.add(port) for port in (8081, 8082, 8083)]


async def owner_first(cluster: ControlCluster, brokers: list[ControlBroker]) -> tuple[list[ControlBroker], Bundle]:
    """Let one broker own the one bundle; return the brokers, its owner first, and the bundle."""
    owner = (await cluster.follow(topic("t"), brokers[0])).broker_id
    bundle = await brokers[0].run(brokers[0].plane.lookup.bundle_of(topic("t")))
    return sorted(brokers, key=lambda broker: broker.broker_id != owner), bundle


async def served_within(
    cluster: ControlCluster, bundle: Bundle, within_s: float, asked: ControlBroker, name: str = "t"
) -> Owner:
    """Look a topic of the bundle up until a live broker serves it; that must be soon."""
    deadline = cluster.loop.time() + within_s
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                owner = await cluster.follow(topic(name), asked)
        except TimeoutError:
            raise AssertionError(f"{bundle} is not served within {within_s} s") from None
        if owner.broker_id in cluster.servers(bundle):
            return owner
        assert cluster.loop.time() < deadline, f"{bundle} is not served within {within_s} s"
        await asyncio.sleep(0.05)


def unanswered(broker: ControlBroker, method: str, path: str, *, is_done: bool, times: int = 1) -> list[str]:
    """Lose the store's answers to this broker for `times` writes at a path, carried out or not (`is_done`)."""
    honest = getattr(broker.store, method)
    lost: list[str] = []

    async def losing(at: str, *arguments: Any, **options: Any) -> Any:
        if not at.startswith(path) or len(lost) >= times:
            return await honest(at, *arguments, **options)
        lost.append(at)
        if is_done:
            await honest(at, *arguments, **options)
        raise StoreUnavailableError(at, "no answer")

    setattr(broker.store, method, losing)
    return lost
