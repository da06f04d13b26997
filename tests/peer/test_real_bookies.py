"""Ledgers on bookies of Apache BookKeeper: written, taken over while bookies are killed, and read by Java."""

import asyncio
import hashlib
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.errors import BookKeeperError, WriterStoppedError
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from pulsar_barycenter.bookkeeper.wire.digests import DigestType
from pulsar_barycenter.metadata.open import open_store
from support.bookkeeper_bytes import java_bytes, parsed
from support.maven import PeerUnavailableError, tool
from support.pulsar_peer import resolve_class_path, silent
from support.real_bookies import RealBookies, real_bookies, run_java

JAVA = Path(__file__).parents[1] / "support" / "java"
PASSWORD = b"secret"
SHAPE = LedgerShape(3, 3, 2, DigestType.CRC32C, PASSWORD)
DIGESTS = {DigestType.CRC32C: "CRC32C", DigestType.CRC32: "CRC32", DigestType.HMAC: "MAC"}


@pytest.fixture(scope="module")
def class_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pulsar's jars, and the programs of this test."""
    try:
        jars = os.pathsep.join(silent(resolve_class_path()[1]))
        javac = tool("javac")
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))
    classes = tmp_path_factory.mktemp("classes")
    sources = [str(JAVA / f"{name}.java") for name in ("BookKeeperBytes", "BookKeeperLedgers")]
    subprocess.run([javac, "-nowarn", "-proc:none", "-d", classes, "-cp", jars, *sources], check=True)
    return f"{classes}{os.pathsep}{jars}"


@pytest.fixture
def bookies(class_path: str, tmp_path: Path) -> Iterator[RealBookies]:
    with real_bookies(tmp_path, 4) as cluster:
        yield cluster


class Java:
    """BookKeeper's own client."""

    def __init__(self, bookies: RealBookies, class_path: str) -> None:
        self._bookies = bookies
        self._class_path = class_path

    async def ask(self, *words: str) -> list[str]:
        command = ("BookKeeperLedgers", self._bookies.zookeeper, *words)
        printed = await asyncio.to_thread(run_java, self._class_path, *command)
        return next(line for line in printed.splitlines() if line.startswith("answer ")).split()[1:]


def with_client(bookies: RealBookies, test: Callable[[LedgerClient], Awaitable[None]]) -> None:
    async def play() -> None:
        store = await open_store(bookies.url)
        client = await LedgerClient.open(store)
        try:
            await test(client)
        finally:
            await client.close()
            await store.close()

    asyncio.run(asyncio.wait_for(play(), 240))


class Reports:
    def __init__(self) -> None:
        self.last = -1
        self.errors: list[BookKeeperError] = []

    def __call__(self, entry: int, error: BookKeeperError | None) -> None:
        if error is None:
            self.last = entry
        else:
            self.errors.append(error)


async def all_of(client: LedgerClient, ledger: int) -> list[bytes]:
    reader = await client.open_unfenced(ledger, password=PASSWORD)
    found: list[bytes] = []
    while len(found) <= reader.last_entry:
        found += await reader.read(len(found), reader.last_entry, max_bytes=1 << 20)
    return found


def told_of(metadata: LedgerMetadata, entries: list[bytes]) -> list[str]:
    """What the Java program prints of a closed ledger."""
    return [str(metadata.last_entry), str(metadata.length), hashlib.sha256(b"".join(entries)).hexdigest()]


def test_the_bytes_of_java_are_those_of_the_unit_tests(class_path: str) -> None:
    assert parsed(run_java(class_path, "org.apache.bookkeeper.proto.BookKeeperBytes")) == java_bytes()


def test_ledgers_survive_killed_bookies_and_java_reads_them(bookies: RealBookies, class_path: str) -> None:
    """One ledger loses a bookie that it can do without and then one that it cannot, while it is written."""
    java = Java(bookies, class_path)
    entries = [b"%06d-" % number + bytes(number % 900) for number in range(6_000)]

    async def test(client: LedgerClient) -> None:
        reports = Reports()
        writer = await client.create(SHAPE, reports)
        killed = [bookies.named(name) for name in writer.metadata.last_segment.members[:2]]
        for number, data in enumerate(entries):
            await writer.room()
            writer.append(data)
            if number in (2_000, 4_000):
                killed[number // 2_000 - 1].kill()
                if number == 4_000:
                    killed[0].start()
                    await asyncio.to_thread(bookies.wait_registered)
            if not number % 100:
                await asyncio.sleep(0)
        metadata = await writer.close()
        assert (metadata.last_entry, reports.last, reports.errors) == (5_999, 5_999, [])
        assert await all_of(client, writer.ledger) == entries
        assert await java.ask("recover", str(writer.ledger), "CRC32C") == told_of(metadata, entries)
        read = await asyncio.to_thread(bookies.shell, "readledger", "-ledgerid", str(writer.ledger), "-msg")
        assert [read.count(data[:7].decode()) for data in entries[::500]] == [1] * 12

    with_client(bookies, test)


@pytest.mark.full_form
def test_java_and_python_take_ledgers_over_from_each_other(bookies: RealBookies, class_path: str) -> None:
    java = Java(bookies, class_path)

    async def test(client: LedgerClient) -> None:
        for kind, name in DIGESTS.items():
            ledger, last = map(int, await java.ask("write", "300", name))
            reader = await client.recover(ledger, password=PASSWORD)
            assert reader.last_entry >= last == 299
            found = await all_of(client, ledger)
            assert found[:300] == [b"entry-%d" % number for number in range(300)]
            assert await java.ask("recover", str(ledger), name) == told_of(await client.metadata(ledger), found)

            reports = Reports()
            writer = await client.create(LedgerShape(3, 2, 2, kind, PASSWORD), reports)
            for number in range(200):
                writer.append(b"python-%d" % number)
            await writer.add(b"end")
            told = await java.ask("recover", str(writer.ledger), name)
            metadata = await client.metadata(writer.ledger)
            assert metadata.state is LedgerState.CLOSED
            assert told == told_of(metadata, [*(b"python-%d" % number for number in range(200)), b"end"])
            with pytest.raises(WriterStoppedError):
                await writer.add(b"late")

    with_client(bookies, test)


@pytest.mark.full_form
def test_a_ledger_is_recovered_while_one_of_its_bookies_is_dead(bookies: RealBookies) -> None:
    async def test(client: LedgerClient) -> None:
        store = await open_store(bookies.url)
        former = await LedgerClient.open(store)
        reports = Reports()
        writer = await former.create(SHAPE, reports)
        for number in range(500):
            writer.append(b"%d" % number)
        await writer.add(b"last")
        bookies.named(writer.metadata.last_segment.members[1]).kill()
        first, second = await asyncio.gather(*(client.recover(writer.ledger, password=PASSWORD) for _ in range(2)))
        assert first.last_entry == second.last_entry == reports.last == 500
        with pytest.raises(WriterStoppedError):
            await writer.add(b"late")
        assert await all_of(client, writer.ledger) == [*(b"%d" % number for number in range(500)), b"last"]
        await client.delete(writer.ledger)
        await former.close()
        await store.close()

    with_client(bookies, test)
