"""Assembles one broker with a real store, disk, clock and network, and runs it until it is stopped."""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from pulsar_barycenter.broker.broker import Broker
from pulsar_barycenter.broker.cluster.http_peers import HttpPeers
from pulsar_barycenter.broker.environment import Environment
from pulsar_barycenter.broker.rest.server import start_web
from pulsar_barycenter.cluster_logs.data_folder import METADATA
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.load.reports.load_over_time import LoadQuestion, LoadTables, RecordedLoad
from pulsar_barycenter.metadata.clock import SystemClock
from pulsar_barycenter.metadata.open import data_checks, open_store
from pulsar_barycenter.run.broker_folders import check_metadata
from pulsar_barycenter.run.ledger_storages import opened_ledgers
from pulsar_barycenter.standalone.interruptible import unless
from pulsar_barycenter.standalone.ready import BrokerReady


async def serve(config: BrokerConfig, say_ready: Callable[[BrokerReady], None]) -> None:
    """Run a broker with the given configuration until a signal or a shutdown request ends it, or until it fails: then
    the process ends with exit code 1.

    `say_ready` is called once, when the broker serves.

    Raises:
        BrokerStartError, CredentialsError, LedgerError, MetadataError, UnknownStoreError: the broker cannot start.
        WrongFolderError: the data folder has ledgers, but their metadata is missing.
    """
    async with broker_environment(config) as env:
        await _until_stopped(config, env, say_ready)


@asynccontextmanager
async def broker_environment(config: BrokerConfig) -> AsyncIterator[Environment]:
    """Open the metadata store and the ledgers that the configuration names, and close them when the block ends.

    Raises:
        LedgerError, MetadataError, UnknownStoreError: the store or the ledgers cannot be opened.
        WrongFolderError: the data folder has ledgers, but their metadata is missing.
    """
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
        async with opened_ledgers(config, store) as ledgers:
            yield Environment(
                store,
                ledgers.storage,
                SystemClock(),
                random.Random(),
                HttpPeers.of(config),
                records=ledgers.records,
                data_checks=(*ledgers.checks, *data_checks(url)),
            )
    finally:
        await store.close()


def load_tables_of(data: Path) -> LoadTables:
    """Return an object that reads the tables of loads and decisions which the pipeline wrote to a data folder."""

    def read(question: LoadQuestion) -> RecordedLoad:
        # imports Arrow, which a broker needs only here
        from pulsar_barycenter.pipeline.load_over_time import read_load
        from pulsar_barycenter.pipeline.storage.layout import PipelineLayout

        return read_load(PipelineLayout.of(data), question, now_ms=time.time_ns() // 1_000_000)

    return read


async def _until_stopped(config: BrokerConfig, env: Environment, say_ready: Callable[[BrokerReady], None]) -> None:
    """Run a broker until a signal, a shutdown request or a failure ends it. A signal ends the broker also while it is
    still starting.
    """
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
    say_ready(ready_of(config, broker))
    await stop.wait()
    await broker.stop(reason=reason)
    if has_failed:
        sys.exit(1)  # so that the supervisor restarts this process


def ready_of(config: BrokerConfig, broker: Broker) -> BrokerReady:
    """Return the addresses at which `broker`, which has started, serves clients."""
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
