"""A cluster of broker processes that is migrated from files and SQLite to bookies of Apache BookKeeper and ZooKeeper.

The command is killed several times. The stock client finds its messages, its subscriptions and a stored message id.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from support.maven import PeerUnavailableError
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.real_bookies import RealBookies, real_bookies
from support.running_cluster import QUICK, running_cluster

TOPIC = "persistent://public/shop/orders"
SCHEMA = {"type": "STRING", "schema": "", "properties": {"by": "test"}}
COUNT = 1000
READ = 300
ON_FILES = QUICK | {"managedLedgerMaxEntriesPerLedger": "50", "brokerDeduplicationEnabled": "true"}
QUORUMS = {
    "managedLedgerDefaultEnsembleSize": "3",
    "managedLedgerDefaultWriteQuorum": "3",
    "managedLedgerDefaultAckQuorum": "2",
    "managedLedgerPassword": "hidden",
}
KILLED_AFTER_S = (1.0, 2.0, 3.0, 4.0)


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
async def test_clients_continue_after_a_migration_that_was_killed_several_times(
    bookies: RealBookies, tmp_path: Path
) -> None:
    data, url = tmp_path / "data", f"{bookies.url}/blue"
    async with running_cluster(data, brokers=1, configuration=ON_FILES) as (cluster, admin):
        await admin.create_namespace("public/shop", 4)
        stored = await asyncio.to_thread(send_and_read, cluster.service_url)
        await admin.expect(200, "POST", "/admin/v2/schemas/public/shop/names/schema", json=SCHEMA)
    on_bookies = (
        QUICK
        | QUORUMS
        | {
            "barycenterLedgerStorage": "bookkeeper",
            "bookkeeperMetadataServiceUri": f"metadata-store:{bookies.url}/ledgers",
            "brokerDeduplicationEnabled": "true",
        }
    )
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
    with pytest.raises(Exception, match=r".*"):
        async with running_cluster(data, brokers=1, configuration=ON_FILES):
            pass
