"""A cluster of broker processes without a shared folder: messages are on bookies, and each broker has its own data
folder.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.errors import NoSuchLedgerError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.doctor.reading.bookies import read_bookies
from pulsar_barycenter.standalone.cluster import BrokerProcess, StandaloneCluster
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import Admin, eventually, running_cluster

TOPIC: Final = "persistent://public/orders/eu"
REST: Final = f"/admin/v2/{TOPIC.replace('://', '/')}"
PASSWORD: Final = "hidden-in-logs"
ON_BOOKIES: Final = {
    "barycenterLedgerStorage": "bookkeeper",
    "managedLedgerDefaultEnsembleSize": "3",
    "managedLedgerDefaultWriteQuorum": "3",
    "managedLedgerDefaultAckQuorum": "2",
    "managedLedgerPassword": PASSWORD,
    "managedLedgerMaxEntriesPerLedger": "100",
}
"""Each entry on three bookies, stored when two have it, in ledgers that are soon full."""
CONFIGURATION: Final = {
    **ON_BOOKIES,
    "metadataStoreSessionTimeoutMillis": "5000",
    "loadBalancerSheddingEnabled": "false",
    "bookkeeperClientTimeoutInSeconds": "5",
    "leaderOnlyMetadataWrites": "false",
}
PART: Final = 150
"""Messages that are sent after each thing that happens."""


@dataclass(frozen=True)
class Faults:
    """What happens to bookies while messages are sent."""

    stop_bookie: Callable[[], Awaitable[None]]
    start_bookie: Callable[[], Awaitable[None]]


async def numbered_messages_survive(
    folder: Path,
    url: str,
    metadata_of_bookies: str,
    client: LedgerClient,
    faults: Faults,
    *,
    pauses: int = 0,
    records: str = "barycenter",
) -> None:
    """Send numbered messages while the bundle moves, a bookie is down and the owner dies; check that all arrive in
    order, that only ledgers that are written are open, and that a deleted topic leaves no ledger.

    `pauses` times the owner is paused for longer than its session, while it writes, and goes on beside its successor.
    `records` is the form of the records of topics.
    """
    keys = CONFIGURATION | {
        "bookkeeperMetadataServiceUri": metadata_of_bookies,
        "barycenterLedgerRecords": records,
    }
    async with running_cluster(folder, brokers=2, configuration=keys, metadata_store_url=url, has_own_folders=True) as (
        cluster,
        admin,
    ):
        await admin.create_namespace("public/orders", 4)
        stock = await asyncio.to_thread(stock_client, cluster.service_url)
        await asyncio.to_thread(subscribe_before_sending, stock, TOPIC)
        producer = await asyncio.to_thread(NumberedProducer, stock, TOPIC, batching=False)

        async def send_part() -> None:
            producer.send(PART)
            await asyncio.to_thread(producer.wait_acknowledged, producer.sent, within_s=90)

        await send_part()
        bundle = await admin.bundle_range(TOPIC)
        await admin.expect(204, "PUT", f"/admin/v2/namespaces/public/orders/{bundle}/unload")
        await send_part()
        await faults.stop_bookie()
        await send_part()
        for _ in range(pauses):
            paused = await admin.owner(TOPIC)
            other = next(broker.index for broker in cluster.brokers if broker is not paused)
            producer.send(PART)
            assert paused.pid is not None
            os.kill(paused.pid, signal.SIGSTOP)

            async def is_taken(paused: BrokerProcess = paused, other: int = other) -> bool:
                return (await admin.owner(TOPIC, broker=other)) is not paused

            await eventually(is_taken, within_s=60, what="the bundle of a paused broker has another owner")
            await send_part()
            os.kill(paused.pid, signal.SIGCONT)
            await send_part()
        killed = await admin.owner(TOPIC)
        left = next(broker.index for broker in cluster.brokers if broker is not killed)
        await cluster.kill_broker(killed)
        await send_part()
        assert producer.failures == []
        stats = await admin.expect(200, "GET", f"{REST}/stats", broker=left)
        backlog = stats["subscriptions"]["check"]["msgBacklog"]
        stored = (await admin.expect(200, "GET", f"{REST}/internalStats", broker=left))["numberOfEntries"]
        assert backlog == stored, "nothing is acknowledged, and each entry is one message"
        # what a paused owner stored without a receipt was sent again, as deduplication is off
        assert producer.sent <= stored <= producer.sent + pauses * PART
        await faults.start_bookie()
        received = await asyncio.to_thread(receive_all, stock, TOPIC, producer.sent)
        assert received == list(range(producer.sent))
        await _check_ledgers(admin, left, client)
        bookies = await read_bookies(url, "", metadata_of_bookies)
        assert (bookies.failure, bookies.lacking) == ("", ())
        await asyncio.to_thread(stock.close)
        await admin.expect(204, "DELETE", f"{REST}?force=true", broker=left)

        async def no_ledger() -> bool:
            """Each broker that lost the topic may leave the ledger that it had created and not listed yet."""
            left = [ledger async for ledger in client.ids()]
            return not left or (
                len(left) <= 1 + pauses
                and set(left) <= set((await read_bookies(url, "", metadata_of_bookies)).unlisted)
            )

        await eventually(no_ledger, within_s=30, what="the ledgers of a deleted topic are deleted")
        _check_logs(cluster)


async def _check_ledgers(admin: Admin, broker: int, client: LedgerClient) -> None:
    """Check that each ledger of the topic is on bookies, and that all but the last one are closed, and of its size."""
    found: dict[str, Any] = await admin.expect(200, "GET", f"{REST}/internalStats", broker=broker)
    listed = found["ledgers"]
    for number, ledger in enumerate(listed):
        metadata = await client.metadata(ledger["ledgerId"])
        if number < len(listed) - 1:
            assert metadata.state is LedgerState.CLOSED
            assert metadata.last_entry + 1 >= ledger["entries"]
    stored = {ledger async for ledger in client.ids()}
    assert {ledger["ledgerId"] for ledger in listed} <= stored
    try:
        await client.metadata(max(stored) + 1000)
    except NoSuchLedgerError:
        return
    raise AssertionError("a ledger that nobody made has metadata")


def _check_logs(cluster: StandaloneCluster) -> None:
    for broker in cluster.brokers:
        assert not (cluster.settings.directory.root / f"broker-{broker.index}" / "ledgers").exists()
        text = broker.log.read_text(errors="replace")
        assert PASSWORD not in text
        assert [line for line in text.splitlines() if "Traceback" in line and "bookkeeper" in line] == []
