"""`barycenter ledger migrate`: moves the messages of a stopped cluster from files to bookies."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.ledger.present_store import DATA, METADATA, STORE, STORE_CONFIG, StoreOptions, store_of
from pulsar_barycenter.cluster_logs.data_folder import LEDGERS, WrongFolderError
from pulsar_barycenter.config.broker_conf import ConfigError, load_broker_conf
from pulsar_barycenter.config.broker_config import BrokerConfig
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.folder import exclusive
from pulsar_barycenter.ledger.migration.metadata_copy import MetadataCopy
from pulsar_barycenter.ledger.migration.migrating import Migration, Plan
from pulsar_barycenter.ledger.migration.planning import RECORDS, Phase, Refusal
from pulsar_barycenter.ledger.migration.stores import OneStore, Stores, TwoStores
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.open import UnknownStoreError, open_store
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.run.broker_folders import check_broker_folder
from pulsar_barycenter.run.counters import NUMBERS
from pulsar_barycenter.run.ledger_storages import REGISTERED_BROKERS, client_of, shape_of
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import with_progress

REFUSED: Final = 3


class MigrationReport(msgspec.Struct, frozen=True, rename="camel"):
    """The object that `--json` prints. `state` is `migrated`, `possible` (a dry run found that everything can be moved)
    or `refused`. `written` is the number of ledgers that this run wrote to bookies; the bookies had all others already.
    """

    data: str
    bookies: str
    state: str
    topics: int = 0
    ledgers: int = 0
    entries: int = 0
    bytes: int = 0
    written: int = 0
    unlisted: list[str] = []
    refusals: list[Refusal] = []


@click.command(name="migrate")
@DATA
@METADATA
@STORE
@STORE_CONFIG
@click.option(
    "--config",
    "conf",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="broker.conf of the cluster on bookies.",
)
@click.option("--dry-run", is_flag=True, help="Read everything and report what prevents the migration; write nothing.")
@with_format("table", "json", json="one object")
def command(
    data: Path, metadata: Path | None, url: str, store_config: str, conf: Path, *, dry_run: bool, form: str
) -> None:
    """Move the messages of a stopped cluster from files to bookies, and compare every entry.

    First everything is read; if a ledger cannot be moved, nothing is written. Ledgers keep their ids, so cursors,
    compacted topics and stored message ids stay valid. If the configuration has another metadata store, the metadata is
    copied there. Files are not changed. The last step moves the cluster; before it, the brokers can continue on the
    files. If the command is interrupted, run it again.

    Exit code: 0 if the messages are on bookies, or with --dry-run can be moved; 3 if something cannot be moved; 1 if
    the command failed.
    """
    keep_private()
    try:
        config = _config(conf)
        source = store_of(data, metadata, url, store_config)
        _check(data, source)
        with exclusive(str(data / LEDGERS)):
            report = asyncio.run(_migrate(data, source, config, is_dry=dry_run))
    except (ConfigError, WrongFolderError, LedgerError, MetadataError, UnknownStoreError, OSError) as error:
        fail(in_words(error))
        raise AssertionError from error
    if form == "json":
        click.echo(msgspec.json.encode(report))
    else:
        _print(report, conf)
    sys.exit(REFUSED if report.refusals else 0)


def _config(conf: Path) -> BrokerConfig:
    config = load_broker_conf(conf).config
    if config.barycenter_ledger_storage != "bookkeeper":
        raise LedgerError(
            f"{conf} has barycenterLedgerStorage={config.barycenter_ledger_storage}: give the configuration of the"
            " cluster on bookies, with barycenterLedgerStorage=bookkeeper"
        )
    if config.barycenter_ledger_records != RECORDS:
        raise LedgerError(
            f"{conf} has barycenterLedgerRecords={config.barycenter_ledger_records}: the records of topics and cursors"
            f" stay as they are, so set barycenterLedgerRecords={RECORDS}"
        )
    return config


def _check(data: Path, source: StoreOptions) -> None:
    if source.file is not None:
        check_broker_folder(data, source.file)
    elif not (data / LEDGERS).is_dir():
        raise WrongFolderError(f"{data} is not a data folder of brokers: it has no {LEDGERS}/")


def _address(url: str) -> str:
    """Return a URL of a metadata store in a form in which equal stores have equal URLs."""
    if url.startswith("sqlite:"):
        return f"sqlite:{Path(url.removeprefix('sqlite:')).resolve()}"
    return url.removeprefix("zk:").rstrip("/")


async def _migrate(data: Path, source: StoreOptions, config: BrokerConfig, *, is_dry: bool) -> MigrationReport:
    async with AsyncExitStack() as opened:
        stores = await _stores(source, config, opened)
        client, _ = await client_of(config, stores.next, opened)
        opened.push_async_callback(client.close)
        migration = Migration(
            stores,
            str(data / LEDGERS),
            client,
            shape_of(config),
            check_stopped=lambda: _check_stopped(stores),
            progress=with_progress,
        )
        plan = await migration.plan()
        if plan.refusals:
            return _report(data, client.instance_id, plan, "refused")
        if is_dry and plan.phase not in (Phase.SWITCHED, Phase.DONE):
            return _report(data, client.instance_id, plan, "possible")
        written = 0 if is_dry else await migration.carry_out(plan)
        return _report(data, client.instance_id, plan, "migrated", written)


async def _stores(source: StoreOptions, config: BrokerConfig, opened: AsyncExitStack) -> Stores:
    """Open the metadata store of the cluster, and the one in the configuration if that is another one."""
    url, config_path = config.effective_metadata_store_url, config.metadata_store_config_path
    is_one = _address(url) == _address(source.url)
    present = await open_store(source.url, config_path=source.config_path or (config_path if is_one else ""))
    opened.push_async_callback(present.close)
    if is_one:
        return OneStore(present)
    next_ = await open_store(url, config_path=config_path)
    opened.push_async_callback(next_.close)
    return TwoStores(present, next_, MetadataCopy(present, next_, NUMBERS, with_progress))


async def _check_stopped(stores: Stores) -> None:
    for store in {stores.present, stores.next}:
        running = await store.children(REGISTERED_BROKERS)
        if running:
            raise LedgerError(
                f"{count_of(len(running), 'broker')} still registered in the metadata store "
                f"({', '.join(running[:10])}): stop these brokers first. A broker that was killed stays registered "
                "until its session expires"
            )


def _report(data: Path, bookies: str, plan: Plan, state: str, written: int = 0) -> MigrationReport:
    return MigrationReport(
        str(data),
        bookies,
        state,
        len({ledger.topic for ledger in plan.ledgers}),
        len(plan.ledgers),
        sum(ledger.entries for ledger in plan.ledgers),
        sum(ledger.length for ledger in plan.ledgers),
        written,
        list(plan.unlisted),
        list(plan.refusals),
    )


def _print(report: MigrationReport, conf: Path) -> None:
    for path in report.unlisted:
        click.echo(f"{path}  belongs to no topic; not moved")
    for refusal in report.refusals:
        where = f"{refusal.topic}  ledger {refusal.ledger}  " if refusal.topic else ""
        click.echo(f"{where}{refusal.reason}")
    size = f"{count_of(report.entries, 'entry')}, {count_of(report.bytes, 'byte')}"
    counted = f"{count_of(report.ledgers, 'ledger')} of {count_of(report.topics, 'topic')} ({size})"
    if report.refusals:
        click.echo(f"{count_of(len(report.refusals), 'reason')} against the migration; nothing was changed")
    elif report.state == "possible":
        click.echo(f"{counted}: nothing prevents the migration; nothing was changed")
    elif not report.ledgers:
        click.echo(f"the cluster is on bookies; start its brokers with {conf}")
    else:
        click.echo(f"{counted}: on bookies, every entry compared; {report.written:,} written by this run")
        click.echo(
            f"the cluster is on bookies; start its brokers with {conf}. Brokers with this configuration do not use"
            " the ledger files in the data folder, so you can delete these files"
        )
