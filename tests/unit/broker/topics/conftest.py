"""Two brokers that transfer a bundle."""

from collections.abc import AsyncIterator

import pytest

from support.transferred_topic import ledgers_of
from support.two_brokers import HeldLedgers, TwoBrokers


@pytest.fixture
async def cluster() -> AsyncIterator[TwoBrokers]:
    """Broker A owns the bundle."""
    running = await TwoBrokers().start()
    yield running
    await running.stop()


@pytest.fixture
async def held() -> AsyncIterator[TwoBrokers]:
    """The ledgers of broker A make nothing durable until they are released."""
    running = await TwoBrokers(storage=HeldLedgers).start()
    yield running
    ledgers_of(running).let_go()
    await running.stop()
