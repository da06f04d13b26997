"""A bookie of Apache BookKeeper with TLS, and one that has none."""

import asyncio
from pathlib import Path

import pytest

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings, LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.client.opening import Opening, StartTls
from pulsar_barycenter.bookkeeper.errors import BookieRefusedError, BookKeeperError
from pulsar_barycenter.credentials.client_authentication import ClientAuthentication
from pulsar_barycenter.credentials.tls import ClientTls
from pulsar_barycenter.metadata.open import open_store
from support.certificates import Certificates, make_certificates
from support.maven import PeerUnavailableError
from support.real_bookies import RealBookies, real_bookies
from support.running_cluster import eventually

pytestmark = [pytest.mark.peer, pytest.mark.full_form]

SHAPE = LedgerShape(1, 1, 1)


def keys(made: Certificates) -> dict[str, str]:
    """Return the keys of a bookie with TLS that asks clients for a certificate."""
    return {
        "zkTimeout": "30000",
        "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
        "tlsProvider": "JDK",
        "tlsClientAuthentication": "true",
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": str(made.key),
        "tlsCertificatePath": str(made.certificate),
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": str(made.authority),
    }


def start_tls(made: Certificates, authority: Path) -> StartTls:
    shows = ClientAuthentication("tls", certificate_file=str(made.certificate), key_file=str(made.key))
    return StartTls(ClientTls(str(authority), shows).context)


async def write_and_read(cluster: RealBookies, step: StartTls) -> None:
    """Write 200 entries of up to 200 KiB, and let another client take the ledger over and read them."""
    entries = [b"%d" % number * (number * 300) for number in range(200)]
    store = await open_store(cluster.url)
    settings = ClientSettings(opening=(step,), timeout_s=60.0)
    clients = [await LedgerClient.open(store, settings=settings) for _ in range(2)]
    try:
        writer = await clients[0].create(SHAPE, lambda last, error: None)
        for data in entries[:-1]:
            writer.append(data)
        await writer.add(entries[-1])
        reader = await clients[1].recover(writer.ledger)
        assert reader.last_entry == len(entries) - 1
        found: list[bytes] = []
        while len(found) < len(entries):
            found += await reader.read(len(found), reader.last_entry, max_bytes=1 << 24)
        assert found == entries
    finally:
        for client in clients:
            await client.close()
        await store.close()


async def refused(cluster: RealBookies, step: StartTls) -> None:
    store = await open_store(cluster.url)
    client = await LedgerClient.open(store, settings=ClientSettings(opening=(step,), timeout_s=60.0))
    try:
        writer = await client.create(SHAPE, lambda last, error: None)
        with pytest.raises(BookKeeperError):
            await writer.add(b"one")
    finally:
        await client.close()
        await store.close()


async def first_handshake(cluster: RealBookies, step: StartTls) -> None:
    """Return after a handshake succeeded. A bookie ends one after 10 s, and its JVM loads classes in the first one."""

    async def succeeds() -> bool:
        try:
            await take(cluster, 0, step)
        except OSError:
            return False
        return True

    await eventually(succeeds, within_s=120, what="a handshake with the bookie")


async def take(cluster: RealBookies, number: int, step: StartTls) -> None:
    host, _, port = cluster.bookies[number].name.partition(":")
    _, opening = await asyncio.get_running_loop().create_connection(lambda: Opening(host), host, int(port))
    try:
        await step.take(opening)
    finally:
        opening.abort()


def test_entries_go_to_a_bookie_by_tls(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    made, strangers = make_certificates(tmp_path / "made"), make_certificates(tmp_path / "strangers")
    try:
        with real_bookies(tmp_path, 1, [keys(made)]) as cluster:
            asyncio.run(first_handshake(cluster, start_tls(made, made.authority)))
            asyncio.run(write_and_read(cluster, start_tls(made, made.authority)))
            cluster.wait_registered()
            asyncio.run(refused(cluster, start_tls(made, strangers.authority)))
            cluster.wait_registered()
            asyncio.run(refused(cluster, start_tls(strangers, made.authority)))
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))


def test_a_bookie_without_tls_says_so(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "made")
    try:
        with real_bookies(tmp_path, 1) as cluster, pytest.raises(BookieRefusedError, match="does not offer TLS"):
            asyncio.run(take(cluster, 0, start_tls(made, made.authority)))
    except PeerUnavailableError as error:
        if request.config.getoption("--peer-required"):
            raise
        pytest.skip(str(error))
