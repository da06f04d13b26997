"""`barycenter ledger`: the group, and the commands that check the messages of a stopped data folder, repair damaged
files, or compare the messages on bookies with what topics list.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import click
import msgspec

from pulsar_barycenter.cli.failure import fail
from pulsar_barycenter.cli.folders import keep_private
from pulsar_barycenter.cli.formats import with_format
from pulsar_barycenter.cli.groups import CommandGroup
from pulsar_barycenter.cli.ledger.migrate import command as migrate
from pulsar_barycenter.cli.ledger.present_store import DATA, METADATA, STORE, STORE_CONFIG, StoreOptions, store_of
from pulsar_barycenter.cluster_logs.data_folder import LEDGERS, WrongFolderError
from pulsar_barycenter.ledger.bookie_inspection import BookieReport, compare
from pulsar_barycenter.ledger.bookie_inspection import delete_unlisted as delete_unlisted_ledgers
from pulsar_barycenter.ledger.bookkeeper_storage.opened_bookies import opened_bookies
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.folder import exclusive
from pulsar_barycenter.ledger.folder_identity import bookie_user, check_same_folder
from pulsar_barycenter.ledger.inspection import (
    LedgerReport,
    ListedLedger,
    UnreadableList,
    check_ledger,
    listed_ledgers,
    repair_ledger,
    unlisted_files,
)
from pulsar_barycenter.ledger.managed.records import read_list_with_epoch
from pulsar_barycenter.ledger.pulsar_records.list_readers import list_reader
from pulsar_barycenter.metadata.errors import InvalidValueError, MetadataError
from pulsar_barycenter.metadata.open import UnknownStoreError, open_store
from pulsar_barycenter.naming.counted import count_of
from pulsar_barycenter.run.broker_folders import check_broker_folder
from pulsar_barycenter.run.ledger_storages import REGISTERED_BROKERS
from pulsar_barycenter.terminal.errors import in_words
from pulsar_barycenter.terminal.progress import with_progress
from pulsar_barycenter.terminal.suggestions import did_you_mean

DAMAGED: Final = 3


class Summary(msgspec.Struct, frozen=True):
    """The last JSON object that a command prints with `--json`: the numbers of topics and ledgers that were read, the
    ledgers that are damaged (for a repair: those that were damaged before it), and the files in the folder that belong
    to no ledger of a topic (`unlisted`). `unreadable` are the topics whose list of ledgers cannot be decoded; while
    there are any, nobody knows which files belong to no topic, so `unlisted` is empty.
    """

    data: str
    topics: int
    ledgers: int
    damaged: list[LedgerReport]
    unlisted: list[str]
    unreadable: list[UnreadableList] = []

    @property
    def is_whole(self) -> bool:
        return not self.damaged and not self.unreadable


_TOPIC = click.option("--topic", default="", help="Only this topic: persistent://TENANT/NAMESPACE/NAME.")
_FORMAT = with_format("table", "json", json="one object")


@click.group(name="ledger", cls=CommandGroup)
def command() -> None:
    """Check, repair and migrate the messages of a stopped data folder, or check those on bookies."""


command.add_command(migrate)


@command.command(name="check")
@DATA
@METADATA
@STORE
@STORE_CONFIG
@_TOPIC
@_FORMAT
def check(data: Path, metadata: Path | None, url: str, store_config: str, topic: str, form: str) -> None:
    """Read every ledger and report damage: the file, the topic, and the lost and readable positions.

    No ledger is changed. Exit code: 0 if nothing is damaged; 3 if a ledger, or a topic's list of ledgers, is damaged; 1
    if the check failed.
    """
    found = _go_through(data, store_of(data, metadata, url, store_config), topic, check_ledger)
    if form == "json":
        click.echo(msgspec.json.encode(found))
    else:
        _print(found)
        if found.damaged:
            click.echo(f"\nto keep all readable entries: barycenter ledger repair --data {data}")
    sys.exit(0 if found.is_whole else DAMAGED)


@command.command(name="repair")
@DATA
@METADATA
@STORE
@STORE_CONFIG
@_TOPIC
@_FORMAT
def repair(data: Path, metadata: Path | None, url: str, store_config: str, topic: str, form: str) -> None:
    """Replace each damaged file by one that has all readable entries at their positions.

    Consumers skip the lost positions. The damaged file is kept next to the new one as NAME.damaged; delete it when you
    do not need it. The repair needs as much free space as the size of the file. It may be interrupted and run again.

    Exit code: 0 if no ledger is damaged afterwards; 1 if a ledger could not be repaired, or the list of a topic cannot
    be read.
    """
    found = _go_through(data, store_of(data, metadata, url, store_config), topic, repair_ledger)
    if form == "json":
        click.echo(msgspec.json.encode(found))
    else:
        _print(found)
    sys.exit(1 if found.unreadable or any(report.error for report in found.damaged) else 0)


@command.command(name="bookies")
@click.option("--metadata-store", "url", required=True, metavar="URL", help="The brokers' metadataStoreUrl.")
@STORE_CONFIG
@click.option(
    "--bookies",
    "uri",
    default="",
    metavar="URI",
    help="The brokers' bookkeeperMetadataServiceUri.  [default: /ledgers in the brokers' metadata store]",
)
@click.option(
    "--delete-unlisted", is_flag=True, help="Delete the ledgers of the brokers that no topic lists; no broker may run."
)
@_FORMAT
def bookies(url: str, store_config: str, uri: str, *, delete_unlisted: bool, form: str) -> None:
    """Compare the ledgers that topics list with the ledgers on bookies (barycenterLedgerStorage=bookkeeper).

    Reports ledgers that a topic needs and bookies do not have or not wholly, topics whose list cannot be read, and
    ledgers of the brokers that no topic lists. Ledgers of other users of the bookies are counted and left alone. While
    brokers run, a ledger that is being created or deleted may be reported.

    Exit code: 0 if no topic lacks a ledger; 3 if one does, or its list cannot be read; 1 if the check failed.
    """
    try:
        found = asyncio.run(_compare(url, store_config, uri, is_deleting=delete_unlisted))
    except (LedgerError, MetadataError, UnknownStoreError, OSError) as error:
        fail(in_words(error))
        raise AssertionError from error
    if form == "json":
        click.echo(msgspec.json.encode(found))
    else:
        _print_bookies(found)
    sys.exit(DAMAGED if found.lacking or found.unreadable else 0)


async def _compare(url: str, config_path: str, uri: str, *, is_deleting: bool) -> BookieReport:
    async with opened_bookies(uri, url, config_path) as (store, client):
        if is_deleting and (running := await store.children(REGISTERED_BROKERS)):
            raise LedgerError(
                f"{count_of(len(running), 'broker')} run on this metadata store ({', '.join(running[:10])}): stop them"
                " first, because a ledger that they are creating is not listed yet"
            )
        user = await bookie_user(store, client.instance_id)
        read = list_reader(user.records)
        found = await compare(store, client, user.cluster, read)
        if is_deleting:
            if found.unreadable:
                raise LedgerError(
                    f"nothing is deleted, because the list of {found.unreadable[0].topic} cannot be read and may name"
                    f" any ledger: {found.unreadable[0].detail}; run this command without --delete-unlisted to see all"
                )
            deleted = await delete_unlisted_ledgers(store, client, found.unlisted, read)
            left = [ledger for ledger in found.unlisted if ledger not in deleted]
            found = msgspec.structs.replace(found, unlisted=left, deleted=deleted)
        return found


def _print_unreadable(lists: Iterable[UnreadableList]) -> None:
    for one in lists:
        click.echo(f"{one.topic}  its list of ledgers cannot be read, so no broker can serve it: {one.detail}")
        click.echo("  write the value of this key back from a copy of the metadata store")


def _print_bookies(found: BookieReport) -> None:
    _print_unreadable(found.unreadable)
    for lacking in found.lacking:
        click.echo(f"{lacking.topic}  ledger {lacking.ledger}  {lacking.detail}")
    for ledger in found.unlisted:
        click.echo(f"ledger {ledger}  belongs to no topic")
    for ledger in found.deleted:
        click.echo(f"ledger {ledger}  belonged to no topic; deleted")
    counted = f"{count_of(found.ledgers, 'ledger')} of {count_of(found.topics, 'topic')}"
    unlisted = (
        "which ledgers no topic lists is not known"
        if found.unreadable
        else f"{len(found.unlisted):,} listed by no topic"
    )
    click.echo(
        f"{counted}: {found.ledgers - len(found.lacking):,} on bookies, {len(found.lacking):,} missing;"
        f" {unlisted}; {count_of(found.others, 'ledger')} of other users of the bookies"
    )


def _go_through(
    data: Path, store: StoreOptions, topic: str, work: Callable[[str, ListedLedger], LedgerReport]
) -> Summary:
    """Call `work` for every ledger of the data folder (of `topic` only, if it is not ""), and return a summary. The
    folder is locked meanwhile, so that no broker can start on it. End the program if the folder or the metadata store
    cannot be used.
    """
    keep_private()
    ledgers = str(data / LEDGERS)
    try:
        if store.file is not None:
            check_broker_folder(data, store.file)
        elif not (data / LEDGERS).is_dir():
            raise WrongFolderError(
                f"{data} is not a data folder of brokers: it has no {LEDGERS}/; give the folder that the brokers use"
            )
        with exclusive(ledgers):
            listed, unreadable = asyncio.run(_listed(store, ledgers))
            unreadable = [one for one in unreadable if topic in ("", one.topic)]
            chosen = [ledger for ledger in listed if ledger.in_use and topic in ("", str(ledger.topic))]
            if topic and not chosen and not unreadable:
                near = did_you_mean(topic, sorted({str(ledger.topic) for ledger in listed}))
                raise WrongFolderError(f"{data} has no ledgers of a topic {topic}{near}")
            reports = [work(ledgers, ledger) for ledger in with_progress(chosen, "reading ledgers")]
            unlisted = (
                []
                if topic or unreadable
                else list(unlisted_files(ledgers, {ledger.record.ledger_id for ledger in listed}))
            )
    except (WrongFolderError, LedgerError, MetadataError, UnknownStoreError, OSError) as error:
        fail(in_words(error))
        raise AssertionError from error
    damaged = [report for report in reports if not report.is_whole]
    return Summary(str(data), len({ledger.topic for ledger in chosen}), len(chosen), damaged, unlisted, unreadable)


async def _listed(where: StoreOptions, ledgers: str) -> tuple[list[ListedLedger], list[UnreadableList]]:
    unreadable: list[UnreadableList] = []

    def note(name: str, error: InvalidValueError) -> None:
        unreadable.append(UnreadableList(name, str(error)))

    store = await open_store(where.url, config_path=where.config_path)
    try:
        await check_same_folder(store, ledgers)
        return [ledger async for ledger in listed_ledgers(store, read_list_with_epoch, note)], unreadable
    finally:
        await store.close()


def _print(found: Summary) -> None:
    _print_unreadable(found.unreadable)
    for report in found.damaged:
        click.echo(f"{report.topic}  ledger {report.ledger}  {report.state}")
        rows = [
            ("file", report.file),
            ("why", report.detail),
            ("readable", ", ".join(report.readable) or ("" if report.error else "nothing")),
            ("lost", _lost(report)),
            ("lost before", ", ".join(report.gone)),
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
    sums = f"{counted}: {whole:,} intact, {len(found.damaged):,} damaged"
    repaired = sum(report.is_repaired for report in found.damaged)
    click.echo(sums + (f", {repaired:,} of these repaired" if repaired else ""))


def _lost(report: LedgerReport) -> str:
    parts = list(report.lost)
    if report.loses_end:
        parts.append("an unknown number of entries at the end")
    text = ", ".join(parts)
    if report.is_estimated:
        text += "; the file does not show how many entries these are, so positions after them may be too high"
    return text
