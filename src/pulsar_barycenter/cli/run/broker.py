"""`barycenter broker`: one broker process, from a broker.conf until SIGTERM."""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec
import structlog
import uvloop

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.http_peers import HttpPeers
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.rest.server import start_web
from pulsar_barycenter.broker.start_errors import BrokerStartError, OpenToStrangersError
from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import check_metadata, keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.run.log_level import log_level
from pulsar_barycenter.cli.run.process_log import configure_logging
from pulsar_barycenter.config.broker_conf import ConfigError, load_broker_conf
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.credentials.errors import CredentialsError
from pulsar_barycenter.ledger.caches import Caches
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.file_storage import FileLedgerStorage
from pulsar_barycenter.ledger.files.folder_needs import Access
from pulsar_barycenter.ledger.files.folder_probe import fit_access
from pulsar_barycenter.ledger.folder_identity import check_one_folder
from pulsar_barycenter.load.advice.configuration_advice import key_advice
from pulsar_barycenter.load.managers import StrategyError
from pulsar_barycenter.load.reports.load_over_time import LoadQuestion, LoadTables, RecordedLoad
from pulsar_barycenter.logs.data_folder import LEDGERS, METADATA, WrongFolderError
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.open import OF_ONE_MACHINE, UnknownStoreError, data_checks, open_store
from pulsar_barycenter.metadata.store import MetadataStore
from pulsar_barycenter.standalone.interruptible import unless
from pulsar_barycenter.standalone.parent_watch import die_with_parent
from pulsar_barycenter.standalone.ready import BrokerReady, broker_line
from pulsar_barycenter.standalone.scheduling import take_short_turns
from pulsar_barycenter.terminal.errors import in_words

log = structlog.get_logger(__name__)

_CANNOT_START: Final = (
    BrokerStartError,
    ConfigError,
    CredentialsError,
    LedgerError,
    MetadataError,
    OSError,
    StrategyError,
    UnknownStoreError,
    WrongFolderError,
)


@click.command(name="broker")
@click.option("--config", "conf", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@with_format("text", "json", json="one object when the broker serves, with its URLs, data folder and process id")
def command(conf: Path, form: str) -> None:
    """Run one broker.

    Prints one line once the broker serves; ports that are 0 in the file stand in it as the system chose them. Reads
    Pulsar's own broker.conf format. SIGTERM or Ctrl-C makes it leave the cluster in order: it hands its bundles over
    and drains; a second one ends it at once. Ends with 0 if it was asked to, by a signal or by
    `POST /admin/v2/brokers/shutdown`, and with 1 after a failure.
    """
    die_with_parent()
    try:
        result = load_broker_conf(conf)
        level = log_level(result.config.barycenter_log_level, os.environ)
        configure_logging(as_json=not sys.stderr.isatty(), level=level)
        for unknown in key_advice(result.unknown_keys):
            log.warning("unknown_configuration_key", key=unknown.key, file=str(conf), mend=unknown.mend)
        opened_by = result.config.opened_to_strangers_by
        if opened_by is not None and not result.config.barycenter_unauthenticated_network_allowed:
            raise OpenToStrangersError(result.config.bind_address, opened_by)
        keep_private()
        Path(result.config.barycenter_data_dir).mkdir(parents=True, exist_ok=True)
        take_short_turns()
        uvloop.run(_serve(result.config, partial(_say_ready, form)))
    except _CANNOT_START as error:
        fail(in_words(error))


def _ready_of(config: BrokerConfig, broker: Broker) -> BrokerReady:
    urls = broker.urls
    return BrokerReady(
        broker=urls.broker_id,
        pid=os.getpid(),
        data=str(Path(config.barycenter_data_dir).absolute()),
        broker_url=urls.broker_url,
        broker_url_tls=urls.broker_url_tls,
        web_url=urls.web_url,
        web_url_tls=urls.web_url_tls,
    )


def _say_ready(form: str, ready: BrokerReady) -> None:
    click.echo(msgspec.json.encode(ready) if form == "json" else broker_line(ready))


async def _serve(config: BrokerConfig, say_ready: Callable[[BrokerReady], None]) -> None:
    data = Path(config.barycenter_data_dir)
    url = config.metadata_store_url or f"sqlite:{data / METADATA}"
    if url.startswith("sqlite:"):
        check_metadata(data, Path(url.removeprefix("sqlite:")))
    store = await open_store(
        url,
        session_timeout_ms=config.metadata_store_session_timeout_millis,
        operation_timeout_s=config.metadata_store_operation_timeout_seconds,
        config_path=config.metadata_store_config_path,
    )
    try:
        ledgers = await ledgers_of(config, store)
    except (LedgerError, MetadataError):
        await store.close()
        raise
    try:
        env = Environment(
            store,
            ledgers,
            SystemClock(),
            random.Random(),
            HttpPeers.of(config),
            data_checks=(ledgers.check, *data_checks(url)),
        )
        await _until_stopped(config, env, say_ready)
    finally:
        await ledgers.close()
        await store.close()


async def ledgers_of(config: BrokerConfig, store: MetadataStore) -> FileLedgerStorage:
    """Return the storage of a broker's ledgers, in a folder that was found fit for it.

    Raises:
        LedgerError: it is not fit, or cannot be used.
        MetadataError: the store did not answer.
    """
    folder = str(Path(config.barycenter_data_dir) / LEDGERS)
    several_machines = not config.effective_metadata_store_url.startswith(OF_ONE_MACHINE)
    access = await asyncio.to_thread(fit_access, folder, several_machines=several_machines)
    await check_one_folder(store, folder)
    caches = Caches.of(tail_bytes=config.managed_ledger_cache_size_mb << 20)
    return FileLedgerStorage(folder, caches=caches, direct=access is Access.DIRECT)


def load_tables_of(data: Path) -> LoadTables:
    """Return what answers from the tables that the pipeline keeps in a data folder."""

    def read(question: LoadQuestion) -> RecordedLoad:
        # brings Arrow, which a broker needs for this alone
        from pulsar_barycenter.pipeline.load_over_time import read_load
        from pulsar_barycenter.pipeline.storage.layout import PipelineLayout

        return read_load(PipelineLayout.of(data), question, now_ms=time.time_ns() // 1_000_000)

    return read


async def _until_stopped(config: BrokerConfig, env: Environment, say_ready: Callable[[BrokerReady], None]) -> None:
    """Run a broker until a signal, a request to shut down, or a failure; a signal during its start ends it, too."""
    stop = asyncio.Event()
    reason, has_failed = "signal", False

    def end(why: str, *, failed: bool = False) -> None:
        nonlocal reason, has_failed
        reason, has_failed = why, failed
        stop.set()

    web = partial(
        start_web,
        on_stopped=lambda: end("shutdown request"),
        load_tables=load_tables_of(Path(config.barycenter_data_dir)),
    )
    broker = Broker(config, env, web=web, on_fatal=partial(end, failed=True))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: sys.exit(130) if stop.is_set() else stop.set())
    if not await unless(stop, broker.start()):
        return
    say_ready(_ready_of(config, broker))
    await stop.wait()
    await broker.stop(reason=reason)
    if has_failed:
        sys.exit(1)  # so that the supervisor starts this process again
