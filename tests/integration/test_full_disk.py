"""A broker whose data is on a disk that fills up, and has room again."""

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pulsar
import pytest

from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from support import client_requests
from support.numbered_messages import NumberedProducer, receive_all, stock_client, subscribe_before_sending
from support.running_cluster import Admin, eventually, running_cluster
from support.wire_client import TYPE, WireClient

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble")]

TOPIC = "persistent://public/default/full"
BEATS_OF_A_SESSION = 5


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, large enough for a cluster at rest."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(path: Path) -> None:
    """Write to the file until the disk takes not one byte more."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while os.write(file, bytes(size)):
                    pass
            except OSError:
                continue
    finally:
        os.close(file)


def beats(metadata: Path) -> dict[int, int]:
    """The heartbeats of each session so far."""
    with closing(sqlite3.connect(metadata)) as database:
        return dict(database.execute("SELECT id, beat FROM sessions").fetchall())


async def connected(port: int, topic: str) -> WireClient:
    """A client with a producer, on the broker that a lookup makes the owner."""
    client = await WireClient.connect(port)
    await client.ask(client_requests.lookup(client.request_id(), topic, authoritative=False), TYPE.LOOKUP_RESPONSE)
    answer = await client.produce(topic)
    assert isinstance(answer, api.CommandProducerSuccess), answer
    return client


async def send_until_refused(client: WireClient) -> api.CommandSendError:
    for number in range(1000):
        client.send(number, bytes(20_000))
        kind, answer, _ = await client.take(lambda kind, _: kind in (TYPE.SEND_RECEIPT, TYPE.SEND_ERROR))
        if kind == TYPE.SEND_ERROR:
            return answer
    raise AssertionError("the disk is not full")


async def outlast_a_session(metadata: Path) -> None:
    """Wait until the broker has shown life for longer than a session lives without."""
    before = beats(metadata)

    async def has_beaten() -> bool:
        now = beats(metadata)
        assert now.keys() == before.keys(), "a session has ended"
        return all(now[session] >= beat + 2 * BEATS_OF_A_SESSION for session, beat in before.items())

    await eventually(has_beaten, within_s=15, what="heartbeats on a full disk")


async def check_what_goes_on(admin: Admin, client: object, *, subscription: str) -> None:
    """What is stored can be read, and REST answers."""
    read = await asyncio.to_thread(receive_all, client, TOPIC, 200, subscription=subscription, within_s=10)
    assert read == list(range(200))
    assert TOPIC in await admin.expect(200, "GET", "/admin/v2/persistent/public/default")
    await admin.expect(200, "GET", f"/admin/v2/{TOPIC.replace('://', '/')}/stats")


async def test_on_a_full_disk_producers_get_errors_and_reading_goes_on_until_there_is_room(disk: Path) -> None:
    """Then the producers that waited go on by themselves, and of what was acknowledged nothing is lost."""
    filler = disk / "filler"
    async with running_cluster(disk / "data", brokers=1) as (cluster, admin):
        broker = cluster.brokers[0]
        port = int(broker.service_url.rpartition(":")[2])
        client = stock_client(broker.service_url)
        try:
            for subscription in ("existing", "whole"):
                await asyncio.to_thread(subscribe_before_sending, client, TOPIC, subscription=subscription)
            producer = await asyncio.to_thread(NumberedProducer, client, TOPIC)
            producer.send(200)
            await asyncio.to_thread(producer.wait_acknowledged, 200, within_s=10)
            refused = await connected(port, f"{TOPIC}-other")
            fill(filler)

            error = await send_until_refused(refused)
            assert error.error == api.PersistenceError
            await check_what_goes_on(admin, client, subscription="existing")
            producer.send(50)
            await outlast_a_session(disk / "data" / "metadata.sqlite")
            await check_what_goes_on(admin, client, subscription="new")

            filler.unlink()
            await asyncio.to_thread(producer.wait_acknowledged, 250, within_s=20)
            assert producer.failures == []
            await (await connected(port, f"{TOPIC}-other")).send_all(5)
            read = await asyncio.to_thread(receive_all, client, TOPIC, 250, subscription="whole", within_s=10)
            assert read == list(range(250))
        finally:
            filler.unlink(missing_ok=True)
            client.close()


async def test_on_a_full_disk_send_fails_at_its_timeout_and_the_client_does_not_hammer_the_broker(disk: Path) -> None:
    """A stock client that may attach its producer at once counts its timeout anew, eight times a second."""
    filler = disk / "filler"
    async with running_cluster(disk / "data", brokers=1) as (cluster, admin):
        client = stock_client(cluster.brokers[0].service_url)
        try:
            producer = await asyncio.to_thread(
                client.create_producer, TOPIC, send_timeout_millis=5_000, batching_enabled=False
            )
            await asyncio.to_thread(producer.send, b"stored")
            before = await connections(admin)
            fill(filler)
            with pytest.raises(pulsar.Timeout):
                async with asyncio.timeout(60):
                    await asyncio.to_thread(producer.send, bytes(20_000))
            assert await connections(admin) - before <= 5
            filler.unlink()
            async with asyncio.timeout(60):
                await asyncio.to_thread(producer.send, b"stored again")
        finally:
            filler.unlink(missing_ok=True)
            client.close()


async def connections(admin: Admin) -> int:
    """How many connections of clients the broker has had."""
    text = await admin.expect(200, "GET", "/metrics")
    (line,) = (line for line in text.splitlines() if line.startswith("pulsar_connection_created_total_count"))
    return int(float(line.split()[-1]))
