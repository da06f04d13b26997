"""A broker whose files are removed, replaced or no longer mounted: it takes no message more, says why, and ends."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pulsar_barycenter.protocol import pulsar_api_pb2 as api
from pulsar_barycenter.standalone.cluster import BrokerProcess
from pulsar_barycenter.standalone.errors import ProcessFailedError
from support import client_requests
from support.running_cluster import running_cluster
from support.wire_client import TYPE, WireClient

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble")]

TOPIC = "persistent://public/default/kept"
SETTINGS = {"brokerShutdownTimeoutMs": "0", "loadBalancerSheddingEnabled": "false"}
MOST_SENDS = 10_000
DEADLINE_S = 60


def command(*words: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, capture_output=True, check=False)


def remove_ledgers(data: Path) -> None:
    shutil.rmtree(data / "ledgers")


def empty_ledgers(data: Path) -> None:
    for path in (data / "ledgers").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def replace_ledgers(data: Path) -> None:
    (data / "ledgers").rename(data / "moved")
    (data / "ledgers").mkdir()


def remove_metadata(data: Path) -> None:
    for path in data.glob("metadata.sqlite*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def replace_metadata(data: Path) -> None:
    shutil.copy(data / "metadata.sqlite", data / "copy")
    (data / "copy").replace(data / "metadata.sqlite")


@asynccontextmanager
async def sending(broker: BrokerProcess) -> AsyncIterator[WireClient]:
    client = await WireClient.connect(int(broker.service_url.rpartition(":")[2]))
    await client.ask(client_requests.lookup(client.request_id(), TOPIC, authoritative=False), TYPE.LOOKUP_RESPONSE)
    answer = await client.produce(TOPIC)
    assert isinstance(answer, api.CommandProducerSuccess), answer
    yield client


async def send_until_refused(client: WireClient) -> None:
    """Send one at a time until one is not acknowledged: refused, or the producer or the connection is closed."""
    for number in range(MOST_SENDS):
        client.send(number, b"x")
        try:
            kind, _, _ = await client.take(
                lambda kind, _: kind in (TYPE.SEND_RECEIPT, TYPE.SEND_ERROR, TYPE.CLOSE_PRODUCER)
            )
        except (ConnectionError, asyncio.IncompleteReadError, EOFError):
            return
        if kind != TYPE.SEND_RECEIPT:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("messages are still acknowledged")


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("lose", "said"),
    [
        (remove_ledgers, "brokers of this metadata store use another folder"),
        (empty_ledgers, "brokers of this metadata store use another folder"),
        (replace_ledgers, "brokers of this metadata store use another folder"),
        (remove_metadata, "metadata.sqlite is missing"),
        (replace_metadata, None),
    ],
)
async def test_a_broker_without_its_files_refuses_and_ends(
    tmp_path: Path, lose: Callable[[Path], None], said: str | None
) -> None:
    """Its supervisor starts it again, which fails with what is missing as long as it is."""
    data = tmp_path / "data"
    async with running_cluster(data, brokers=1, configuration=SETTINGS) as (cluster, _):
        broker = cluster.brokers[0]
        async with sending(broker) as client, asyncio.timeout(DEADLINE_S):
            client.send(0, b"x")
            await client.take(lambda kind, _: kind == TYPE.SEND_RECEIPT)
            lose(data)
            await send_until_refused(client)
            assert await broker.wait() == 1
        assert "data_lost" in broker.log.read_text()
        if said is None:
            await cluster.start_brokers([broker])
        else:
            with pytest.raises(ProcessFailedError, match=said):
                await cluster.start_brokers([broker])


async def test_a_broker_whose_disk_is_unmounted_refuses_and_ends(tmp_path: Path) -> None:
    """Mounted again, all that was acknowledged before is there."""
    data, disk = tmp_path / "data", tmp_path / "disk"
    for folder in (data / "ledgers", disk):
        folder.mkdir(parents=True)
    mounted = command("mount", "--bind", disk, data / "ledgers")
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        async with running_cluster(data, brokers=1, configuration=SETTINGS) as (cluster, admin):
            broker = cluster.brokers[0]
            async with sending(broker) as client, asyncio.timeout(DEADLINE_S):
                client.send(0, b"x")
                await client.take(lambda kind, _: kind == TYPE.SEND_RECEIPT)
                assert command("umount", "--lazy", data / "ledgers").returncode == 0
                await send_until_refused(client)
                assert await broker.wait() == 1
            with pytest.raises(ProcessFailedError, match="brokers of this metadata store use another folder"):
                await cluster.start_brokers([broker])
            assert command("mount", "--bind", disk, data / "ledgers").returncode == 0
            await cluster.start_brokers([broker])
            stats = await admin.expect(200, "GET", f"/admin/v2/{TOPIC.replace('://', '/')}/internalStats")
            assert stats["numberOfEntries"] >= 1
    finally:
        command("umount", "--lazy", data / "ledgers")
