"""A cluster that is migrated from files and SQLite to bookies of Apache BookKeeper and ZooKeeper by the command, which
is killed several times.

The long form has broker processes: the stock client finds its messages, its subscriptions and a stored message id.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerState
from pulsar_barycenter.ledger.bookie_inspection import compare
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.folder_identity import bookie_user, check_one_folder
from pulsar_barycenter.ledger.ledger_settings import LedgerSettings
from pulsar_barycenter.ledger.managed.managed_ledger import ManagedLedger
from pulsar_barycenter.ledger.managed.records import read_list_with_epoch
from pulsar_barycenter.ledger.position import EARLIEST, Position
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.naming.topic import TopicName
from pulsar_barycenter.run.ledger_storages import describe
from pulsar_barycenter.standalone.errors import StandaloneError
from support.compaction_cases import Message, publish_entry, single
from support.ledger_world import Owner
from support.maven import PeerUnavailableError
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.real_bookies import RealBookies, real_bookies
from support.running_cluster import QUICK, running_cluster

TOPIC = "persistent://public/shop/orders"
ORDERS = TopicName.parse(TOPIC)
SCHEMA = {"type": "STRING", "schema": "", "properties": {"by": "test"}}
COUNT = 1000
READ = 300
ON_FILES = QUICK | {"managedLedgerMaxEntriesPerLedger": "50", "brokerDeduplicationEnabled": "true"}
ON_BOOKIES = {
    "barycenterLedgerStorage": "bookkeeper",
    "bookkeeperClientTimeoutInSeconds": "120",
    "managedLedgerDefaultEnsembleSize": "3",
    "managedLedgerDefaultWriteQuorum": "3",
    "managedLedgerDefaultAckQuorum": "2",
    "managedLedgerPassword": "hidden",
}
KILLED_AFTER_S = (1.0, 2.0, 3.0, 4.0, 6.0, 9.0)


@pytest.fixture
def bookies(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealBookies]:
    try:
        with real_bookies(tmp_path, 3) as cluster:
            yield cluster
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))


def send_and_read(service_url: str) -> bytes:
    """Send messages, read some in two subscriptions, and return the stored message id of message READ."""
    client = stock_client(service_url)
    subscribe_before_sending(client, TOPIC)
    subscribe_before_sending(client, TOPIC, subscription="gaps")
    producer = NumberedProducer(client, TOPIC, batching=False)
    producer.send(COUNT)
    producer.wait_acknowledged(COUNT, within_s=120)
    assert producer.failures == []
    assert receive_all(client, TOPIC, READ) == list(range(READ))
    gaps = client.subscribe(TOPIC, "gaps", consumer_type=pulsar.ConsumerType.Shared)
    for number in range(READ + 1):
        message = gaps.receive(timeout_millis=60_000)
        if number % 2:
            gaps.acknowledge(message)
    stored: bytes = message.message_id().serialize()
    client.close()
    return stored


def check_messages(service_url: str, stored: bytes) -> None:
    client = stock_client(service_url)
    reader = client.create_reader(TOPIC, pulsar.MessageId.deserialize(stored))
    assert int(reader.read_next(timeout_millis=60_000).data()) == READ + 1
    producer = NumberedProducer(client, TOPIC, batching=False)
    producer.sent = COUNT
    producer.send(50)
    producer.wait_acknowledged(50, within_s=60)
    left = receive_all(client, TOPIC, COUNT + 50 - READ)
    assert left == list(range(READ, COUNT + 50))
    gaps = client.subscribe(TOPIC, "gaps", consumer_type=pulsar.ConsumerType.Shared)
    expected = [number for number in range(COUNT + 50) if number > READ or number % 2 == 0]
    assert [int(gaps.receive(timeout_millis=60_000).data()) for _ in expected] == expected
    client.close()


def migrate(folder: Path, conf: Path, *words: str, killed_after_s: float = 0.0) -> dict[str, Any] | None:
    """Run the command; return what it printed, or None if it was killed before its end."""
    command = [sys.executable, "-m", "pulsar_barycenter", "ledger", "migrate", "--data", str(folder)]
    with subprocess.Popen(
        [*command, "--config", str(conf), "--json", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        if killed_after_s:
            try:
                process.wait(killed_after_s)
            except subprocess.TimeoutExpired:
                process.kill()
                return None
        out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.peer
@pytest.mark.full_form
async def test_topics_are_found_after_a_migration_that_was_killed_several_times(
    bookies: RealBookies, tmp_path: Path
) -> None:
    """Every entry and cursor is found, and `barycenter ledger bookies` has no complaint."""
    data, url = tmp_path / "data", f"{bookies.url}/blue"
    before = await filled_folder(data)
    conf = tmp_path / "bookies.conf"
    keys = ON_BOOKIES | {"bookkeeperMetadataServiceUri": f"metadata-store:{bookies.url}/ledgers"}
    keys |= {"metadataStoreUrl": url, "barycenterDataDir": str(data)}
    conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    for seconds in KILLED_AFTER_S:
        await asyncio.to_thread(migrate, data, conf, killed_after_s=seconds)
    done = await asyncio.to_thread(migrate, data, conf)
    assert done is not None
    assert done["state"] == "migrated"
    async with AsyncExitStack() as stack:
        store, of_bookies = await open_store(url), await open_store(bookies.url)
        stack.push_async_callback(store.close)
        stack.push_async_callback(of_bookies.close)
        client = await connect(of_bookies)
        user = await bookie_user(store, client.instance_id)
        shape = LedgerShape(3, 3, 2, password=b"hidden")
        storage = BookKeeperStorage(client, shape, describe, Caches.of(), cluster=user.cluster)
        stack.push_async_callback(storage.close)
        ledger: ManagedLedger[Any] = await ManagedLedger.open(store, storage, ORDERS, epoch=2, clock=SystemClock())
        stack.push_async_callback(ledger.close)
        assert await contents(ledger) == before
        report = await compare(store, client, user.cluster, read_list_with_epoch)
        assert (report.lacking, report.unlisted, report.others) == ([], [], 0)
        assert (await client.metadata(1)).state is LedgerState.CLOSED


async def filled_folder(data: Path) -> Any:
    """Write the data folder of a cluster with one topic in ledgers of 100 entries; return what is in the topic."""
    storage = FileLedgerStorage(data / "ledgers")
    store = await open_store(f"sqlite:{data / 'metadata.sqlite'}")
    await check_one_folder(store, str(data / "ledgers"))
    owner = Owner()
    ledger = owner.ledger = await ManagedLedger.open(
        store, storage, ORDERS, epoch=1, clock=SystemClock(), settings=LedgerSettings(max_entries_per_ledger=100),
        on_durable=owner.on_durable,
    )  # fmt: skip
    cursor = await ledger.open_cursor("slow", "earliest")
    for number in range(COUNT):
        await publish_entry(owner, single(Message(f"k{number}", b"%d" % number * 50)))
    cursor.ack_individual(owner.positions[10:300:3])
    await cursor.flush()
    found = await contents(ledger)
    await ledger.close()
    await storage.close()
    await store.close()
    return found


async def contents(ledger: ManagedLedger[Any]) -> Any:
    entries: list[Any] = []
    start = EARLIEST
    while group := await ledger.read(start, 500, 1 << 20):
        entries += [(entry.position, entry.data) for entry in group]
        start = Position(group[-1].position.ledger_id, group[-1].position.entry_id + 1)
    cursors = {name: (cursor.mark_delete, cursor.acked_ranges) for name, cursor in ledger.cursors.items()}
    return entries, cursors


@pytest.mark.peer
@pytest.mark.full_form
async def test_clients_continue_after_a_migration_that_was_killed_several_times(
    bookies: RealBookies, tmp_path: Path
) -> None:
    data, url = tmp_path / "data", f"{bookies.url}/blue"
    async with running_cluster(data, brokers=1, configuration=ON_FILES) as (cluster, admin):
        await admin.create_namespace("public/shop", 4)
        stored = await asyncio.to_thread(send_and_read, cluster.service_url)
        await admin.expect(200, "POST", "/admin/v2/schemas/public/shop/names/schema", json=SCHEMA)
    on_bookies = {
        **QUICK,
        **ON_BOOKIES,
        "bookkeeperMetadataServiceUri": f"metadata-store:{bookies.url}/ledgers",
        "brokerDeduplicationEnabled": "true",
    }
    keys = on_bookies | {"metadataStoreUrl": url, "barycenterDataDir": str(tmp_path / "data-of-bookies")}
    conf = tmp_path / "bookies.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    dry = await asyncio.to_thread(migrate, data, conf, "--dry-run")
    assert dry is not None
    assert (dry["state"], dry["refusals"]) == ("possible", [])
    for seconds in KILLED_AFTER_S:
        await asyncio.to_thread(migrate, data, conf, killed_after_s=seconds)
    done = await asyncio.to_thread(migrate, data, conf)
    assert done is not None
    assert done["state"] == "migrated"
    async with running_cluster(
        tmp_path / "data-of-bookies", brokers=1, configuration=on_bookies, metadata_store_url=url
    ) as (cluster, admin):
        await asyncio.to_thread(check_messages, cluster.service_url, stored)
        schema = await admin.expect(200, "GET", "/admin/v2/schemas/public/shop/names/schema")
        assert (schema["version"], schema["properties"]) == (0, {"by": "test"})
        await admin.expect(
            200, "POST", "/admin/v2/schemas/public/shop/names/schema", json=SCHEMA | {"properties": {"by": "other"}}
        )
        first = await admin.expect(200, "GET", "/admin/v2/schemas/public/shop/names/schema/0")
        assert first["properties"] == {"by": "test"}
    with pytest.raises(StandaloneError):
        async with running_cluster(data, brokers=1, configuration=ON_FILES):
            pass
    assert "the cluster was migrated to bookies" in (data / "logs" / "broker-0.log").read_text()
