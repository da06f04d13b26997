"""A client of system topics for tests on real sockets; the address of the broker can be changed while it runs."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pulsar_barycenter.broker.system_topics.client import FindBroker, SystemTopicClient
from pulsar_barycenter.broker.system_topics.settings import ClientSettings
from pulsar_barycenter.metadata.clock import SystemClock

DEADLINE_S = 60
QUICK = ClientSettings(first_back_off_s=0.02, longest_back_off_s=0.2)


class Whereabouts:
    """Returns where the topics are served; `url` may be changed, and None is nowhere."""

    def __init__(self, url: str | None) -> None:
        self.url = url
        self.asked = 0

    async def __call__(self) -> str | None:
        self.asked += 1
        return self.url


@asynccontextmanager
async def system_topic_clients(
    where: FindBroker, count: int, *, settings: ClientSettings = QUICK
) -> AsyncIterator[list[SystemTopicClient]]:
    """Run `count` clients, and check that they leave no task."""
    before = asyncio.all_tasks()
    clients = [
        SystemTopicClient(where, clock=SystemClock(), source=random.Random(), settings=settings) for _ in range(count)
    ]
    try:
        yield clients
    finally:
        for client in clients:
            await client.close()
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    assert not left, left


@asynccontextmanager
async def system_topic_client(
    where: FindBroker, *, settings: ClientSettings = QUICK
) -> AsyncIterator[SystemTopicClient]:
    async with system_topic_clients(where, 1, settings=settings) as (client,):
        yield client


async def until(holds: Callable[[], bool]) -> None:
    """Wait until `holds`; fail after a minute."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.01)
