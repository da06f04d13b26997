"""Fixtures for tests of consumers; other tests start their own broker."""

from collections.abc import AsyncIterator

import pytest

from pulsar_barycenter.config.broker_config import BrokerConfig
from support.one_broker import OneBroker
from support.wire_client import WireClient
from support.wire_consumer import TOPIC


@pytest.fixture
async def broker() -> AsyncIterator[OneBroker]:
    """A broker for tests of consumers: it checks soon whether a consumer is alive, and blocks those that acknowledge
    little."""
    config = BrokerConfig(
        connection_liveness_check_timeout_millis=100,
        active_consumer_failover_delay_time_millis=0,
        max_unacked_messages_per_consumer=20,
    )
    running = await OneBroker(config).start()
    yield running
    await running.stop()


@pytest.fixture
async def client(broker: OneBroker) -> WireClient:
    """A client that has a producer on `TOPIC`, the first of its numbers."""
    client = await WireClient.connect(broker.port)
    await client.produce(TOPIC)
    return client
