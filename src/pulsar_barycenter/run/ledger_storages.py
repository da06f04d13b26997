"""Opens the ledger storage that a broker's configuration names: files of a folder, or bookies."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from pulsar_barycenter.bookkeeper.client.client_settings import ClientSettings, LedgerShape
from pulsar_barycenter.bookkeeper.client.ledger_client import LedgerClient
from pulsar_barycenter.bookkeeper.metadata.ledger_store import draw_of
from pulsar_barycenter.bookkeeper.wire.digests import DigestType
from pulsar_barycenter.cluster_logs.data_folder import LEDGERS
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.bookkeeper_storage.bookkeeper_storage import BookKeeperStorage, connect
from pulsar_barycenter.ledger.bookkeeper_storage.opened_bookies import bookie_metadata
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.files.folder_needs import Access
from pulsar_barycenter.ledger.files.folder_probe import fit_access
from pulsar_barycenter.ledger.folder_identity import FOLDER_KEY, check_one_bookie_cluster, check_one_folder
from pulsar_barycenter.ledger.inspection import first_list
from pulsar_barycenter.ledger.managed.records import RECORDS_WITH_EPOCHS, RecordForm
from pulsar_barycenter.ledger.pulsar_records.cursor_ledgers import CursorLedgersOnBookies
from pulsar_barycenter.ledger.pulsar_records.list_readers import form_of_list
from pulsar_barycenter.ledger.pulsar_records.records_in_pulsars_form import RecordsInPulsarsForm
from pulsar_barycenter.ledger.storage import LedgerStorage
from pulsar_barycenter.load.managers import OWNERS_IN_STORE, ManagerKind, StrategyError, manager_kind, short_name
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.files.data_faults import DataFault
from pulsar_barycenter.metadata.open import OF_ONE_MACHINE, open_store
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.protocol.errors import MalformedFrameError
from pulsar_barycenter.protocol.frames import read_metadata
from pulsar_barycenter.run.bookie_security import steps_of

log = structlog.get_logger(__name__)

REGISTERED_BROKERS: Final = "/loadbalance/brokers"
"""The path in the metadata store below which every running broker has a key with its name."""
_FRAME_PADDING: Final = 10 * 1024
"""How many bytes a packet to a bookie may have in addition to the message, as in Pulsar
(`Commands.MESSAGE_SIZE_FRAME_PADDING`).
"""
_MAX_UNCONFIRMED_BYTES: Final = 32 << 20
"""The maximum number of bytes sent to a bookie that it has not confirmed: half of its queue, because each packet has a
header too.
"""
_DIGESTS: Final = {"CRC32C": DigestType.CRC32C, "CRC32": DigestType.CRC32, "MAC": DigestType.HMAC}


@dataclass(frozen=True, slots=True)
class OpenedLedgers:
    """An open ledger storage (`storage`), the form in which the records of topics are stored (`records`), and `checks`.
    Each check is a function that returns what is wrong if data of the storage has disappeared, else None.
    """

    storage: LedgerStorage
    records: RecordForm = RECORDS_WITH_EPOCHS
    checks: tuple[Callable[[], DataFault | None], ...] = ()


@asynccontextmanager
async def opened_ledgers(config: BrokerConfig, store: MetadataStore) -> AsyncIterator[OpenedLedgers]:
    """Open the storage of a broker's ledgers, and close it when the block ends. `store` is the brokers' metadata store.

    Raises:
        LedgerError: the folder is not suitable or cannot be used, or there is no suitable cluster of bookies.
        MetadataError: the store did not answer.
        ConfigError, KeyMaterialError: the connections to bookies cannot be protected as configured.
    """
    async with AsyncExitStack() as opened:
        if config.barycenter_ledger_storage == "bookkeeper":
            bookies = await bookies_of(config, store, opened)
            opened.push_async_callback(bookies.close)
            yield OpenedLedgers(bookies, records_of(config, bookies))
        else:
            files = await ledgers_of(config, store)
            opened.push_async_callback(files.close)
            yield OpenedLedgers(files, checks=(files.check,))


def records_of(config: BrokerConfig, bookies: BookKeeperStorage) -> RecordForm:
    """Return the form in which the records of topics are stored if their messages are on bookies: Barycenter's or
    Pulsar's, as the configuration says.
    """
    if config.barycenter_ledger_records == "pulsar":
        return RecordsInPulsarsForm(CursorLedgersOnBookies(bookies.client, shape_of(config)), SystemClock())
    return RECORDS_WITH_EPOCHS


async def ledgers_of(config: BrokerConfig, store: MetadataStore) -> FileLedgerStorage:
    """Return the storage of a broker's ledgers in files, after checking that its folder is suitable: that its file
    system can be used, and that it is the same folder for all brokers of `store`.

    Raises:
        LedgerError: the folder is not suitable, or cannot be used.
        MetadataError: the store did not answer.
    """
    folder = str(Path(config.barycenter_data_dir) / LEDGERS)
    several_machines = not config.effective_metadata_store_url.startswith(OF_ONE_MACHINE)
    access = await asyncio.to_thread(fit_access, folder, several_machines=several_machines)
    await check_one_folder(store, folder)
    return FileLedgerStorage(folder, caches=_caches(config), direct=access is Access.DIRECT)


async def bookies_of(config: BrokerConfig, store: MetadataStore, opened: AsyncExitStack) -> BookKeeperStorage:
    """Return the storage of a broker's ledgers on bookies (the servers of Apache BookKeeper).

    If the metadata of the ledgers is in another store than `store`, `opened` closes that store when it is closed
    itself. If there are too few bookies, this is only logged, because more may start later.

    Raises:
        LedgerError: bookkeeperMetadataServiceUri names no store, there is no cluster of bookies, or the brokers of
            `store` use another cluster, files, or another form of the records of topics.
        MetadataError: a store did not answer.
        ConfigError, KeyMaterialError: a TLS file cannot be used, or there is no such authentication plug-in.
    """
    client, store_of_bookies = await client_of(config, store, opened)
    try:
        await _check_records(config, store)
        records = config.barycenter_ledger_records
        cluster = await check_one_bookie_cluster(store, client.instance_id, records=records)
    except BaseException:
        await client.close()
        raise
    storage = BookKeeperStorage(
        client,
        shape_of(config),
        describe,
        _caches(config),
        cluster=cluster,
        has_own_store=store_of_bookies is not store,
    )
    if storage.shortage:
        log.error("too_few_bookies", reason=storage.shortage)
    return storage


async def client_of(
    config: BrokerConfig, store: MetadataStore, opened: AsyncExitStack
) -> tuple[LedgerClient, MetadataStore]:
    """Return a client of the bookies that the configuration names, and the store with the metadata of the bookies.
    `store` is the brokers' metadata store; if the metadata of the bookies is in another store, `opened` closes that
    store when it is closed itself.

    Raises:
        LedgerError: bookkeeperMetadataServiceUri names no store, or there is no cluster of bookies.
        MetadataError: a store did not answer.
    """
    url, root = bookie_metadata(config.bookkeeper_metadata_service_uri, config.effective_metadata_store_url)
    if url != config.effective_metadata_store_url:
        store_of_bookies = await open_store(
            url,
            session_timeout_ms=config.metadata_store_session_timeout_millis,
            operation_timeout_s=config.metadata_store_operation_timeout_seconds,
            config_path=config.metadata_store_config_path,
        )
        opened.push_async_callback(store_of_bookies.close)
    else:
        store_of_bookies = store
    timeout_s = config.bookkeeper_client_timeout_in_seconds
    settings = ClientSettings(
        timeout_s=timeout_s,
        max_frame_bytes=config.max_message_size + _FRAME_PADDING,
        max_unconfirmed_bytes=_MAX_UNCONFIRMED_BYTES,
        opening=steps_of(config, asyncio.get_running_loop().time),
    )
    client = await connect(store_of_bookies, root=root, draw=draw_of(url), settings=settings)
    return client, store_of_bookies


async def _check_records(config: BrokerConfig, store: MetadataStore) -> None:
    """Check that brokers with this configuration can use the configured form of the records of topics (Barycenter's or
    Pulsar's). Check also, if no broker has recorded its kind of storage in `store` yet, that the topics in `store` have
    this form.

    Raises:
        LedgerError: the topics have another form, or the load manager needs a topic to be compacted, which brokers with
            Pulsar's form do not do.
        MetadataError: the store did not answer.
    """
    records = config.barycenter_ledger_records
    if records == "pulsar" and _compacts_owners(config):
        raise LedgerError(
            f"loadManagerClassName={config.load_manager_class_name} keeps ownership records in a topic that must be"
            " compacted, and brokers with barycenterLedgerRecords=pulsar compact no topic. Set"
            f" loadManagerClassName={ManagerKind.MODULAR.class_name}, or"
            f" loadManagerServiceUnitStateTableViewClassName={OWNERS_IN_STORE}"
        )
    first = None if await store.exists(FOLDER_KEY) else await first_list(store)
    if first and (found := form_of_list(first)) != records:
        raise LedgerError(
            f"this metadata store has topics whose lists of ledgers are those of barycenterLedgerRecords={found}, and"
            f" this broker has barycenterLedgerRecords={records}. Set barycenterLedgerRecords={found}, or use another"
            " metadata store"
        )


def _compacts_owners(config: BrokerConfig) -> bool:
    """Return whether the configured load manager keeps the ownership records in a topic, which has to be compacted.
    Return False if the load manager is unknown; the start of the broker is refused elsewhere then.
    """
    try:
        kind = manager_kind(config.load_manager_class_name)
    except StrategyError:
        return False
    place = short_name(config.load_manager_service_unit_state_table_view_class_name)
    return kind is ManagerKind.EXTENSIBLE and place != OWNERS_IN_STORE


def describe(entry: bytes) -> tuple[int, int]:
    """Return the message count and the publish time (ms since 1970) of an entry of a topic.

    If the metadata of the entry is damaged, the result is (1, 0).
    """
    try:
        metadata = read_metadata(entry)
    except MalformedFrameError:
        return 1, 0
    return metadata.num_messages_in_batch, metadata.publish_time


def shape_of(config: BrokerConfig) -> LedgerShape:
    """Return the quorums, the digest and the password that new ledgers on bookies get."""
    return LedgerShape(
        config.managed_ledger_default_ensemble_size,
        config.managed_ledger_default_write_quorum,
        config.managed_ledger_default_ack_quorum,
        _DIGESTS[config.managed_ledger_digest_type],
        config.managed_ledger_password.encode(),
    )


def _caches(config: BrokerConfig) -> Caches:
    return Caches.of(tail_bytes=config.managed_ledger_cache_size_mb << 20)
