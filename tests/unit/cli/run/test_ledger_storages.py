"""Which ledger storage a broker opens by its configuration, and what it refuses."""

import asyncio
from collections.abc import Generator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.errors import BookKeeperError
from pulsar_barycenter.config.broker_conf import ConfigError, parse_broker_conf, shown
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.errors import KeyMaterialError
from pulsar_barycenter.credentials.tls import ServerTls
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage
from pulsar_barycenter.ledger.bookkeeper_storage.opened_bookies import bookie_metadata
from pulsar_barycenter.ledger.errors import LedgerError, LedgerFolderUnfitError
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY
from pulsar_barycenter.ledger.managed.records import RECORDS_WITH_EPOCHS, RecordForm
from pulsar_barycenter.ledger.pulsar_records.managed_ledger_formats_pb2 import ManagedLedgerInfo
from pulsar_barycenter.ledger.pulsar_records.records_in_pulsars_form import RecordsInPulsarsForm
from pulsar_barycenter.metadata.open import open_store
from pulsar_barycenter.protocol.frames import encode_entry
from pulsar_barycenter.protocol.pulsar_api_pb2 import MessageMetadata
from pulsar_barycenter.run import bookie_security
from pulsar_barycenter.run.ledger_storages import describe, opened_ledgers
from support.bookkeeper_server import BookieCluster
from support.certificates import make_certificates


def configured(folder: Path, **keys: object) -> BrokerConfig:
    lines = {"barycenterDataDir": folder, "barycenterLedgerStorage": "bookkeeper", **keys}
    return parse_broker_conf("".join(f"{key}={value}\n" for key, value in lines.items()), "test").config


@pytest.mark.parametrize(
    ("uri", "store", "root"),
    [
        ("", "zk:a:1/blue", "/ledgers"),
        ("zk+hierarchical://a:2181;b:2181/ledgers", "zk:a:2181,b:2181", "/ledgers"),
        ("zk+null://a:2181/one/bk", "zk:a:2181/one", "/bk"),
        ("zk://a:2181", "zk:a:2181", "/ledgers"),
        ("zk+hierarchical://a:2181/one/bk/", "zk:a:2181/one", "/bk"),
        ("metadata-store:zk:a:2181/blue/ledgers/", "zk:a:2181/blue", "/ledgers"),
        ("metadata-store:zk:a:2181/blue/ledgers", "zk:a:2181/blue", "/ledgers"),
        ("metadata-store:etcd:http://a:2379", "etcd:http://a:2379", "/ledgers"),
    ],
)
def test_the_metadata_of_bookies_is_where_pulsar_looks_for_it(uri: str, store: str, root: str) -> None:
    assert bookie_metadata(uri, "zk:a:1/blue") == (store, root)


@pytest.mark.parametrize("uri", ["zk+hierarchical://", "zk://a/ledgers", "metadata-store:", "metadata-store:mysql:a"])
def test_a_uri_that_names_no_store_is_refused_by_the_name_of_its_key(uri: str) -> None:
    with pytest.raises(LedgerError, match="bookkeeperMetadataServiceUri"):
        bookie_metadata(uri, "zk:a:1/blue")


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"managedLedgerDefaultWriteQuorum": 3}, "managedLedgerDefaultWriteQuorum"),
        ({"managedLedgerDefaultAckQuorum": 3}, "managedLedgerDefaultAckQuorum"),
        ({"managedLedgerDefaultEnsembleSize": 1}, "managedLedgerDefaultWriteQuorum"),
        ({"managedLedgerDigestType": "DUMMY"}, "managedLedgerDigestType"),
        ({"bookkeeperMetadataServiceUri": "etcd:http://a:1"}, "bookkeeperMetadataServiceUri"),
        ({"barycenterLedgerStorage": "memory"}, "barycenterLedgerStorage"),
        ({"barycenterLedgerRecords": "json"}, "barycenterLedgerRecords"),
        ({"barycenterLedgerRecords": "pulsar", "barycenterLedgerStorage": "files"}, "barycenterLedgerRecords"),
        ({"bookkeeperTLSClientAuthentication": "true"}, "bookkeeperTLSTrustCertsFilePath"),
        ({"bookkeeperTLSKeyFileType": "JKS"}, "bookkeeperTLSKeyFileType"),
        ({"bookkeeperTLSTrustCertTypes": "PKCS12"}, "bookkeeperTLSTrustCertTypes"),
        ({"bookkeeperTLSKeyStorePasswordPath": "/password"}, "bookkeeperTLSKeyStorePasswordPath"),
        ({"bookkeeperTLSProviderFactoryClass": "org.example.Tls"}, "bookkeeperTLSProviderFactoryClass"),
    ],
)
def test_keys_that_do_not_fit_together_are_refused_by_name(tmp_path: Path, keys: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        configured(tmp_path, **keys)


def test_counts_and_times_are_those_of_the_entry() -> None:
    batch = MessageMetadata(producer_name="p", sequence_id=1, publish_time=77, num_messages_in_batch=5)
    single = MessageMetadata(producer_name="p", sequence_id=1, publish_time=78)
    assert describe(encode_entry(batch.SerializeToString(), b"data")) == (5, 77)
    assert describe(encode_entry(single.SerializeToString(), b"data")) == (1, 78)
    assert describe(b"no entry") == (1, 0)


def test_a_cluster_keeps_its_storage(tmp_path: Path) -> None:
    """Brokers with files are refused where bookies have the messages, and the other way round; other bookies too."""

    async def opens(folder: Path, **keys: object) -> None:
        store = await open_store(f"sqlite:{tmp_path / 'brokers.sqlite'}")
        try:
            async with opened_ledgers(configured(folder, **keys), store):
                return
        finally:
            await store.close()

    async def play() -> None:
        url = f"sqlite:{tmp_path / 'bookies.sqlite'}"
        on_bookies = {"bookkeeperMetadataServiceUri": f"metadata-store:{url}"}
        with pytest.raises(LedgerError, match="no cluster of bookies was initialized"):
            await opens(tmp_path, **on_bookies)
        async with BookieCluster(1, await open_store(url)) as cluster:
            with capture_logs() as logs:
                await opens(tmp_path, **on_bookies)
                await opens(tmp_path, **on_bookies)
            short = [line["reason"] for line in logs if line["event"] == "too_few_bookies"]
            assert len(short) == 2
            assert "1 bookie" in short[0]
            assert "managedLedgerDefaultEnsembleSize=2" in short[0]
            with pytest.raises(LedgerFolderUnfitError, match="barycenterLedgerStorage=bookkeeper"):
                await opens(tmp_path, barycenterLedgerStorage="files")
            await cluster.store.put("/ledgers/INSTANCEID", b"another")
            with pytest.raises(LedgerError, match="on the bookies of another cluster"):
                await opens(tmp_path, **on_bookies)
            store = await open_store(f"sqlite:{tmp_path / 'brokers.sqlite'}")
            await store.delete(FOLDER_KEY)
            await store.close()
            await opens(tmp_path, barycenterLedgerStorage="files")
            with pytest.raises(LedgerError, match="keep messages in files"):
                await opens(tmp_path, **on_bookies)

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_cluster_keeps_the_form_of_its_records(tmp_path: Path) -> None:
    """The first broker chooses it, unless topics have another one; every later broker goes by it."""

    async def play() -> None:
        async with BookieCluster(2) as cluster:
            store = cluster.store

            async def opened(**keys: object) -> RecordForm:
                async with opened_ledgers(configured(tmp_path, **keys), store) as found:
                    return found.records

            of_java = ManagedLedgerInfo(ledgerInfo=[ManagedLedgerInfo.LedgerInfo(ledgerId=1)])
            await store.put("/managed-ledgers/t/n/persistent/a", of_java.SerializeToString())
            with pytest.raises(LedgerError, match="Set barycenterLedgerRecords=pulsar, or use another"):
                await opened()
            assert not await store.exists(FOLDER_KEY)
            with pytest.raises(LedgerError, match="must be compacted"):
                await opened(barycenterLedgerRecords="pulsar", loadManagerClassName="ExtensibleLoadManagerImpl")
            assert isinstance(await opened(barycenterLedgerRecords="pulsar"), RecordsInPulsarsForm)
            with pytest.raises(LedgerError, match="Set barycenterLedgerRecords=pulsar, or use another metadata store:"):
                await opened()
            with pytest.raises(LedgerFolderUnfitError, match="keep messages on bookies"):
                await opened(barycenterLedgerStorage="files")
            await store.delete(FOLDER_KEY)
            await store.put("/managed-ledgers/t/n/persistent/a", b"{}")
            with pytest.raises(LedgerError, match="Set barycenterLedgerRecords=barycenter"):
                await opened(barycenterLedgerRecords="pulsar")
            assert await opened() is RECORDS_WITH_EPOCHS

    asyncio.run(asyncio.wait_for(play(), 30))


def test_the_password_of_ledgers_is_not_shown() -> None:
    assert "seen" not in shown("managedLedgerPassword", "seen")


async def opens_on(bookies: BookieCluster, folder: Path, url: str, **keys: object) -> int:
    """Open the ledgers of a broker on bookies, store one entry, and return its number."""
    store = await open_store(f"sqlite:{folder / 'brokers.sqlite'}")
    common = {"bookkeeperMetadataServiceUri": f"metadata-store:{url}", "managedLedgerDefaultEnsembleSize": 1}
    common |= {"managedLedgerDefaultWriteQuorum": 1, "managedLedgerDefaultAckQuorum": 1}
    try:
        async with opened_ledgers(configured(folder, **common, **keys), store) as ledgers:
            assert isinstance(ledgers.storage, BookKeeperStorage)
            writer = await ledgers.storage.client.create(LedgerShape(1, 1, 1), lambda last, error: None)
            return await writer.add(b"entry")
    finally:
        await store.close()


def test_a_broker_connects_to_bookies_by_tls(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "made")
    keys = {
        "bookkeeperTLSClientAuthentication": "true",
        "bookkeeperTLSTrustCertsFilePath": made.authority,
        "bookkeeperTLSCertificateFilePath": made.certificate,
        "bookkeeperTLSKeyFilePath": made.key,
    }

    async def play() -> None:
        url = f"sqlite:{tmp_path / 'bookies.sqlite'}"
        async with BookieCluster(1, await open_store(url)) as bookies:
            (bookie,) = bookies.bookies
            with pytest.raises(BookKeeperError):
                await opens_on(bookies, tmp_path, url, **keys)
            assert bookie.ledgers == {}
            bookie.contexts = [ServerTls(str(made.certificate), str(made.key), str(made.authority)).context()]
            assert await opens_on(bookies, tmp_path, url, **keys) == 0
            assert bookie.encrypted == 1
            with pytest.raises(KeyMaterialError, match="bookkeeperTLSTrustCertsFilePath"):
                await opens_on(bookies, tmp_path, url, **keys | {"bookkeeperTLSTrustCertsFilePath": made.key})
            with pytest.raises(ConfigError, match="bookkeeperClientAuthenticationPlugin"):
                await opens_on(bookies, tmp_path, url, bookkeeperClientAuthenticationPlugin="org.example.Sasl")

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_plug_in_of_another_package_authenticates_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(*, group: str) -> tuple[EntryPoint, ...]:
        return (EntryPoint("password", f"{__name__}:Password", group),)

    monkeypatch.setattr(bookie_security, "entry_points", installed)

    async def play() -> None:
        url = f"sqlite:{tmp_path / 'bookies.sqlite'}"
        async with BookieCluster(1, await open_store(url)) as bookies:
            bookies.bookies[0].password = b"right"
            keys = {"bookkeeperClientAuthenticationPlugin": "password"}
            assert await opens_on(bookies, tmp_path, url, **keys, bookkeeperClientAuthenticationParameters="right") == 0
            with pytest.raises(ConfigError, match="ValueError: a password is needed"):
                await opens_on(bookies, tmp_path, url, **keys)

    asyncio.run(asyncio.wait_for(play(), 30))


class Password:
    name = "password"

    def __init__(self, parameters: str) -> None:
        if not parameters:
            raise ValueError("a password is needed")
        self._password = parameters.encode()

    def conversation(self, host: str) -> Generator[bytes, bytes, None]:
        yield b"hello"
        yield self._password
