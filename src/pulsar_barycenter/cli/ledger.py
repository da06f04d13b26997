"""`barycenter ledger`: check the messages of a stopped data folder, and mend what a disk or a hand has damaged."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.groups import CommandGroup
from pulsar_barycenter.cluster_logs.data_folder import LEDGERS, METADATA, WrongFolderError
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.folder import exclusive
from pulsar_barycenter.ledger.folder_identity import check_same_folder
from pulsar_barycenter.ledger.inspection import (
    LedgerReport,
    ListedLedger,
    check_ledger,
    listed_ledgers,
    repair_ledger,
    unlisted_files,
)
from pulsar_barycenter.metadata.errors import MetadataError
from pulsar_barycenter.metadata.open import UnknownStoreError, open_store
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.run.broker_folders import check_broker_folder
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import with_progress
from pulsar_barycenter.terminal.suggestions import did_you_mean

DAMAGED: Final = 3


class Summary(msgspec.Struct, frozen=True):
    """What `--json` prints; `damaged` are the ledgers that are not whole, before a repair."""

    data: str
    topics: int
    ledgers: int
    damaged: list[LedgerReport]
    unlisted: list[str]


_DATA = click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Data folder of the brokers, which must not be running.",
)
_METADATA = click.option(
    "--metadata",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The metadata store's file.  [default: metadata.sqlite in the data folder]",
)
_STORE = click.option(
    "--metadata-store", "url", default="", metavar="URL", help="The brokers' metadataStoreUrl, if it is no file there."
)
_STORE_CONFIG = click.option(
    "--store-config",
    default="",
    type=click.Path(dir_okay=False),
    help="Its metadataStoreConfigPath: TLS, user and password.",
)
_TOPIC = click.option("--topic", default="", help="Only this topic: persistent://TENANT/NAMESPACE/NAME.")
_FORMAT = with_format("table", "json", json="one object")


@click.group(name="ledger", cls=CommandGroup)
def command() -> None:
    """Check and repair the messages of a stopped data folder."""


@command.command(name="check")
@_DATA
@_METADATA
@_STORE
@_STORE_CONFIG
@_TOPIC
@_FORMAT
def check(data: Path, metadata: Path | None, url: str, store_config: str, topic: str, form: str) -> None:
    """Read every ledger and tell what is damaged: file, topic, and the positions that are lost and that are not.

    No ledger is changed. Ends with 0 if all is whole, with 3 if something is damaged, with 1 if it could not be told.
    """
    found = _go_through(data, _store_of(data, metadata, url, store_config), topic, check_ledger)
    if form == "json":
        click.echo(msgspec.json.encode(found))
    else:
        _print(found)
        if found.damaged:
            click.echo(f"\nkeep what is whole with: barycenter ledger repair --data {data}")
    sys.exit(DAMAGED if found.damaged else 0)


@command.command(name="repair")
@_DATA
@_METADATA
@_STORE
@_STORE_CONFIG
@_TOPIC
@_FORMAT
def repair(data: Path, metadata: Path | None, url: str, store_config: str, topic: str, form: str) -> None:
    """Put a file that keeps every whole entry, at its position, in the place of each damaged one.

    Consumers pass the positions that are lost. The damaged file is kept beside the other as NAME.damaged, to be
    deleted by hand; as much free space is needed as the file is large. May be cut short and run again at any time.

    Ends with 0 if all is whole then, with 1 if something could not be repaired.
    """
    found = _go_through(data, _store_of(data, metadata, url, store_config), topic, repair_ledger)
    if form == "json":
        click.echo(msgspec.json.encode(found))
    else:
        _print(found)
    sys.exit(1 if any(report.error for report in found.damaged) else 0)


@dataclass(frozen=True, slots=True)
class _Store:
    """Where the metadata is: `file`, or `url` with its `metadataStoreConfigPath`."""

    file: Path | None
    url: str
    config_path: str = ""


def _store_of(data: Path, metadata: Path | None, url: str, config_path: str) -> _Store:
    if metadata is not None and url:
        raise click.UsageError("--metadata names a file, --metadata-store any store: give one of them")
    if url:
        return _Store(None, url, config_path)
    file = metadata or data / METADATA
    return _Store(file, f"sqlite:{file}")


def _go_through(data: Path, store: _Store, topic: str, work: Callable[[str, ListedLedger], LedgerReport]) -> Summary:
    """Do `work` on every ledger while no broker can start; what hinders all of it ends the program."""
    keep_private()
    ledgers = str(data / LEDGERS)
    try:
        if store.file is not None:
            check_broker_folder(data, store.file)
        elif not (data / LEDGERS).is_dir():
            raise WrongFolderError(f"{data} is no data folder of brokers: expected {LEDGERS}/ in it")
        with exclusive(ledgers):
            listed = asyncio.run(_listed(store, ledgers))
            chosen = [each for each in listed if each.in_use and topic in ("", str(each.topic))]
            if topic and not chosen:
                near = did_you_mean(topic, sorted({str(each.topic) for each in listed}))
                raise WrongFolderError(f"{data} has no ledgers of a topic {topic}{near}")
            reports = [work(ledgers, each) for each in with_progress(chosen, "reading ledgers")]
            unlisted = [] if topic else list(unlisted_files(ledgers, {each.record.ledger_id for each in listed}))
    except (WrongFolderError, LedgerError, MetadataError, UnknownStoreError, OSError) as error:
        fail(in_words(error))
        raise AssertionError from error
    damaged = [report for report in reports if not report.is_whole]
    return Summary(str(data), len({each.topic for each in chosen}), len(chosen), damaged, unlisted)


async def _listed(where: _Store, ledgers: str) -> list[ListedLedger]:
    store = await open_store(where.url, config_path=where.config_path)
    try:
        await check_same_folder(store, ledgers)
        return [each async for each in listed_ledgers(store)]
    finally:
        await store.close()


def _print(found: Summary) -> None:
    for report in found.damaged:
        click.echo(f"{report.topic}  ledger {report.ledger}  {report.state}")
        rows = [
            ("file", report.file),
            ("why", report.detail),
            ("readable", ", ".join(report.readable) or ("" if report.error else "nothing")),
            ("lost", _lost(report)),
            ("gone before", ", ".join(report.gone)),
            ("kept as", report.kept or ""),
            ("failed", report.error or ""),
        ]
        for name, text in rows:
            if text:
                click.echo(f"  {name:<12} {text}")
    for path in found.unlisted:
        click.echo(f"{path}  belongs to no topic")
    whole = found.ledgers - len(found.damaged)
    counted = f"{count_of(found.ledgers, 'ledger')} of {count_of(found.topics, 'topic')}"
    sums = f"{counted}: {whole:,} whole, {len(found.damaged):,} damaged"
    repaired = sum(report.is_repaired for report in found.damaged)
    click.echo(sums + (f", {repaired:,} of these repaired" if repaired else ""))


def _lost(report: LedgerReport) -> str:
    parts = list(report.lost)
    if report.loses_end:
        parts.append("those at the end, whose number is not known")
    text = ", ".join(parts)
    if report.is_estimated:
        text += "; the file's format does not tell how many: positions behind may be higher than they were"
    return text
