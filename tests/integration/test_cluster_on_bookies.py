"""Broker processes whose messages are on bookies, driven by the stock client while brokers and bookies end.

The bookies speak BookKeeper's protocol and keep entries in the memory of the test; tests/peer has the same on bookies
of Apache BookKeeper.
"""

from pathlib import Path

import pytest

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.metadata.open import open_store
from support.bookkeeper_server import BookieCluster
from support.cluster_on_bookies import Faults, numbered_messages_survive

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble")]


async def test_messages_on_bookies_survive_a_move_a_dead_bookie_and_a_dead_broker(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'bookies.sqlite'}"
    async with BookieCluster(4, await open_store(url)) as bookies:
        client = await LedgerClient.open(bookies.store)
        faults = Faults(bookies.bookies[0].stop, bookies.bookies[0].start)
        metadata = f"sqlite:{tmp_path / 'brokers.sqlite'}"
        await numbered_messages_survive(tmp_path / "data", metadata, f"metadata-store:{url}", client, faults)
        await client.close()
