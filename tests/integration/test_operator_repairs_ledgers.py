"""A disk damages the messages of a cluster, and an operator gets back what is whole: the whole story by command."""

import asyncio
import json
import os
import signal
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pulsar
import pytest

from pulsar_barycenter.ledger.files import file_format as fmt
from pulsar_barycenter.standalone.cluster import free_ports
from support.stock_client import connect

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("cluster in trouble"), pytest.mark.drawn_tests(2)]

TOPIC = "persistent://public/default/orders"
MESSAGES = 60
PATIENCE_MS = 2_000


async def run(*words: str) -> tuple[int | None, str]:
    """Run a command; return its exit code and all it says."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pulsar_barycenter",
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, said.decode()


@asynccontextmanager
async def standalone(folder: Path, *options: str) -> AsyncIterator[tuple[str, str]]:
    """Run one broker; give its two URLs. In the end all its processes are killed, as by a power cut."""
    web, port = free_ports(2)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pulsar_barycenter", "standalone", "--no-pipeline", "--data", str(folder)),
        *("--web-port", str(web), "--broker-port", str(port), *options),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        assert line.startswith(b"ready: ")
        yield f"http://127.0.0.1:{web}", f"pulsar://127.0.0.1:{port}"
    finally:
        for child in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            os.kill(child.pid, signal.SIGKILL)
        await process.wait()


def client_at(url: str) -> pulsar.Client:
    return connect(url)


def produce(url: str) -> None:
    client = client_at(url)
    client.subscribe(TOPIC, "s", initial_position=pulsar.InitialPosition.Earliest).close()
    producer = client.create_producer(TOPIC)
    for number in range(MESSAGES):
        producer.send(b"%03d" % number * 100)
    client.close()


def consume(url: str) -> list[int]:
    """Receive what comes until nothing more does, acknowledging nothing."""
    client = client_at(url)
    consumer = client.subscribe(TOPIC, "s")
    found = []
    try:
        while True:
            found.append(int(consumer.receive(PATIENCE_MS).data()[:3]))
    except pulsar.Timeout:
        return found
    finally:
        client.close()


def ask(web: str, path: str, method: str = "GET") -> tuple[int, str]:
    with urllib.request.urlopen(urllib.request.Request(f"{web}{path}", method=method)) as answer:
        return answer.status, answer.read().decode()


def damage(data: Path) -> list[int]:
    """Zero a stretch of the topic's ledger, as of a lost sector; return which messages it takes."""
    (file,) = (each for each in data.glob("ledgers/*/*.ledger") if each.stat().st_size > MESSAGES * 300)
    content = bytearray(file.read_bytes())
    size = (len(content) - fmt.HEADER_SIZE) // MESSAGES
    begin = fmt.HEADER_SIZE + 20 * size + 30
    content[begin : begin + 4 * size] = bytes(4 * size)
    file.write_bytes(content)
    return list(range(20, 25))


async def test_an_operator_gets_back_what_is_whole(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with standalone(data) as (_, url):
        await asyncio.to_thread(produce, url)
        code, said = await run("ledger", "check", "--data", str(data))
        assert code == 1
        assert "a broker uses these ledgers; stop the broker first" in said
    lost = damage(data)
    rest = [number for number in range(MESSAGES) if number not in lost]

    async with standalone(data) as (web, url):
        assert await asyncio.to_thread(consume, url) == list(range(lost[0]))
        (found,) = json.loads(ask(web, "/barycenter/v1/damaged-ledgers")[1])
        assert found["topic"] == TOPIC
        assert len(found["positions"]) == 1
        assert "barycenter_damaged_ledgers" in ask(web, "/metrics")[1]
    log = (data / "logs" / "broker-0.log").read_text()
    (told,) = [event for event in map(json.loads, log.splitlines()) if event["event"] == "ledger_damaged"]
    assert (told["level"], told["positions"]) == ("error", found["positions"][0])
    assert f"barycenter ledger check --data {data}" in told["mend"]

    conf = tmp_path / "broker.conf"
    conf.write_text("autoSkipNonRecoverableData=true\n")
    async with standalone(data, "--config", str(conf)) as (_, url):
        assert await asyncio.to_thread(consume, url) == rest

    code, said = await run("ledger", "check", "--data", str(data))
    assert code == 3
    assert f"lost         {found['positions'][0]}\n" in said
    code, said = await run("ledger", "repair", "--data", str(data))
    assert code == 0
    assert ".ledger.damaged" in said
    assert (await run("ledger", "check", "--data", str(data)))[0] == 0

    async with standalone(data) as (web, url):
        assert await asyncio.to_thread(consume, url) == rest
        assert json.loads(ask(web, "/barycenter/v1/damaged-ledgers")[1]) == []


async def test_a_damaged_topic_goes_when_its_deletion_is_forced(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with standalone(data) as (_, url):
        await asyncio.to_thread(produce, url)
    damage(data)
    async with standalone(data) as (web, url):
        path = "/admin/v2/persistent/public/default/orders?force=true"
        assert (await asyncio.to_thread(ask, web, path, "DELETE"))[0] == 204
        await asyncio.to_thread(produce, url)
        assert await asyncio.to_thread(consume, url) == list(range(MESSAGES))


@pytest.mark.drawn(1)
@pytest.mark.parametrize("state", ["missing", "empty"])
async def test_ledgers_without_their_metadata_are_not_passed_over(tmp_path: Path, state: str) -> None:
    """The broker does not start as if there were nothing, says what to do, and doing that works."""
    data = tmp_path / "data"
    async with standalone(data) as (_, url):
        await asyncio.to_thread(produce, url)
    kept = {file: file.read_bytes() for file in data.glob("metadata.sqlite*") if file.is_file()}
    for file in kept:
        file.unlink()
    if state == "empty":
        (data / "metadata.sqlite").touch()
    web, port = free_ports(2)
    words = ["--no-pipeline", "--data", str(data), "--web-port", str(web), "--broker-port", str(port)]
    code, said = await run("standalone", *words)
    assert code == 1
    assert f"{data / 'metadata.sqlite'} is {state}" in said
    assert f"move {data / 'ledgers'} away" in said
    assert "Traceback" not in said
    for file, content in kept.items():
        file.write_bytes(content)
    async with standalone(data) as (_, url):
        assert await asyncio.to_thread(consume, url) == list(range(MESSAGES))
    for file in kept:
        file.unlink(missing_ok=True)
    (data / "ledgers").rename(tmp_path / "away")
    async with standalone(data) as (_, url):
        await asyncio.to_thread(produce, url)
        assert await asyncio.to_thread(consume, url) == list(range(MESSAGES))


async def test_what_a_cluster_makes_is_its_users_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with standalone(data) as (_, url):
        await asyncio.to_thread(produce, url)
    made = [data, *data.rglob("*")]
    assert [path for path in made if path.stat().st_mode & 0o077] == []
