"""Broker processes on ZooKeeper and bookies of Apache BookKeeper, without a shared folder; bookies and brokers die."""

import asyncio
from pathlib import Path

import pytest

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.metadata.open import open_store
from support.cluster_on_bookies import Faults, numbered_messages_survive
from support.real_bookies import RealBookie, real_bookies


@pytest.mark.full_form
@pytest.mark.parametrize("records", ["barycenter", "pulsar"])
async def test_messages_on_bookies_survive_a_move_a_dead_bookie_and_a_dead_broker(tmp_path: Path, records: str) -> None:
    running = real_bookies(tmp_path, 4)
    bookies = await asyncio.to_thread(running.__enter__)
    try:
        await _play(bookies.url, tmp_path, bookies.bookies[0], records)
        # BookKeeper's own shell sees at most the ledgers that the paused and the killed broker left
        assert (await asyncio.to_thread(bookies.shell, "listledgers")).count("ledgerID: ") <= 2
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


async def _play(url: str, folder: Path, bookie: RealBookie, records: str) -> None:
    store = await open_store(url)
    client = await LedgerClient.open(store)

    async def stop() -> None:
        await asyncio.to_thread(bookie.kill)

    async def start() -> None:
        await asyncio.to_thread(bookie.start)

    servers = url.removeprefix("zk:")
    try:
        uri = f"zk+hierarchical://{servers}/ledgers"
        faults = Faults(stop, start)
        await numbered_messages_survive(folder / "data", f"{url}/blue", uri, client, faults, pauses=1, records=records)
    finally:
        await client.close()
        await store.close()
