"""Makes sure that all brokers of a cluster use the same folder of ledgers, by an identity that is stored in the folder
and in the metadata store; or the same cluster of bookies, by its UUID, and the same form of the records of topics.

The first broker creates the identity and stores it. A broker whose folder has another identity, or none, does not
start: it would not find the ledgers of the topics that it takes over. This happens when the ledgers were removed, when
their disk is not mounted, or when a broker writes to a local disk because the shared one is not mounted.
"""

import os
import re
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFolderUnfitError
from pulsar_barycenter.ledger.files.folder import FILE_MODE, ledger_error
from pulsar_barycenter.ledger.migration_marks import check_no_migration, check_not_migrated
from pulsar_barycenter.metadata.errors import BadVersionError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

FOLDER_KEY: Final = "/barycenter/ledgers-folder"
IDENTITY: Final = "identity"
_LONGEST: Final = 64
_ON_BOOKIES: Final = {"barycenter": b"bookkeeper:", "pulsar": b"bookkeeper-pulsar:"}
"""How the value of FOLDER_KEY begins, for each value of barycenterLedgerRecords. A release that knows the first one
only does not start on records in Pulsar's form.
"""
_MOVED: Final = b"moved:"
"""How the value of FOLDER_KEY begins in a store whose metadata was copied to another one."""
_FORM: Final = re.compile(r"[0-9a-f]{32}")


async def check_one_folder(store: MetadataStore, folder: str) -> None:
    """Check that `folder`, which must exist, is the cluster's folder of ledgers. If the cluster has no folder yet, make
    `folder` its folder: write a file with an identity into it, and record this identity in the store.

    Raises:
        LedgerFolderUnfitError: the cluster has another folder, or keeps its messages on bookies.
        LedgerError: the identity cannot be read or written, or a migration to bookies is unfinished.
        MetadataError: the store did not answer.
    """
    if await store.get(FOLDER_KEY) is None:
        check_not_migrated(folder)
        await check_no_migration(store)
        with suppress(BadVersionError):  # another broker was faster
            await store.put(FOLDER_KEY, create_identity(folder).encode(), expected_version=MUST_NOT_EXIST)
    await check_same_folder(store, folder)


async def check_same_folder(store: MetadataStore, folder: str) -> None:
    """Check that `folder` is the cluster's folder of ledgers, or that the cluster has no folder yet. Writes nothing.

    Raises:
        LedgerFolderUnfitError: the cluster has another folder, or keeps its messages on bookies.
        LedgerError: the identity of `folder` cannot be read.
        MetadataError: the store did not answer.
    """
    found = await store.get(FOLDER_KEY)
    if found is not None and is_on_bookies(found.value):
        raise LedgerFolderUnfitError(
            folder,
            [
                (
                    "the brokers of this metadata store keep messages on bookies",
                    "set barycenterLedgerStorage=bookkeeper, or use another metadata store",
                )
            ],
        )
    if found is not None and found.value.startswith(_MOVED):
        raise LedgerFolderUnfitError(
            folder,
            [
                (
                    "the cluster was migrated to bookies, and its metadata to another metadata store",
                    "use the configuration of the cluster on bookies; if its migration was interrupted, run `barycenter"
                    " ledger migrate` again",
                )
            ],
        )
    check_not_migrated(folder)
    if found is None:
        return
    expected, given = found.value.decode(errors="replace"), identity_of(folder)
    if expected != given:
        what = (
            f"its file {IDENTITY} contains the other identity {given}"
            if given
            else f"it has no file {IDENTITY}, so it is new or empty"
        )
        raise LedgerFolderUnfitError(
            folder,
            [
                (
                    f"the brokers of this metadata store use another folder: {what}",
                    "mount that folder here and set barycenterDataDir, or restore it from a copy; or, to use "
                    f"this folder without the messages in that folder, write {expected!r} into "
                    f"{folder}/{IDENTITY}; that is"
                    f" the value of the key {FOLDER_KEY} of the store",
                )
            ],
        )


@dataclass(frozen=True, slots=True)
class BookieUser:
    """A cluster of brokers that keeps its messages on bookies. `cluster` is the id that the brokers store with each of
    their ledgers. `records` is the form of the lists of ledgers and of the cursors: a value of the configuration key
    barycenterLedgerRecords.
    """

    cluster: str
    records: str


def bookies_value(records: str, instance_id: str, cluster: str) -> bytes:
    """Return the value to store at FOLDER_KEY (the key that names the storage of a cluster's messages) if the messages
    are on bookies.

    `records` is the form of the records of topics: a value of barycenterLedgerRecords. `instance_id` is the UUID of the
    bookies' cluster, `cluster` the id of the cluster of brokers.
    """
    return b"%s%s:%s" % (_ON_BOOKIES[records], instance_id.encode(), cluster.encode())


def moved_value(value: bytes) -> bytes:
    """Return the value to store at FOLDER_KEY of the old metadata store, after the cluster's metadata was moved to
    another store. `value` is the value of FOLDER_KEY in that other store.
    """
    return _MOVED + value


def is_on_bookies(value: bytes) -> bool:
    """Return whether `value`, a value of FOLDER_KEY (the key that names the storage of a cluster's messages), says that
    the messages are on bookies.
    """
    return value.startswith(tuple(_ON_BOOKIES.values()))


async def check_one_bookie_cluster(store: MetadataStore, instance_id: str, *, records: str) -> str:
    """Check that the brokers that use `store` keep their messages on the bookies with the UUID `instance_id`, and the
    records of topics in the form `records`, a value of barycenterLedgerRecords. Return the id of the cluster of
    brokers, which is stored with each ledger.

    If `store` does not say yet where the messages are, record these bookies, this form and a new id.

    Raises:
        LedgerError: the brokers keep messages in a folder, on other bookies, or with another form of the records; or a
            migration is unfinished.
        MetadataError: the store did not answer.
    """
    found = await store.get(FOLDER_KEY)
    if found is None or not is_on_bookies(found.value):
        await check_no_migration(store)
    wanted = bookies_value(records, instance_id, uuid.uuid4().hex)
    with suppress(BadVersionError):  # there is a value already
        await store.put(FOLDER_KEY, wanted, expected_version=MUST_NOT_EXIST)
    user = await bookie_user(store, instance_id)
    if user.records != records:
        raise LedgerError(
            f"the brokers of this metadata store keep lists of ledgers and cursors with"
            f" barycenterLedgerRecords={user.records}, as the key {FOLDER_KEY} says, and this broker has"
            f" barycenterLedgerRecords={records}. Set barycenterLedgerRecords={user.records}, or use another metadata"
            " store: a cluster cannot change the form of its records"
        )
    return user.cluster


async def bookie_user(store: MetadataStore, instance_id: str) -> BookieUser:
    """Return the cluster of brokers that uses `store` and keeps its messages on the bookies with the UUID
    `instance_id`. Writes nothing.

    Raises:
        LedgerError: the brokers have stored no messages yet, or keep them in a folder or on other bookies.
        MetadataError: the store did not answer.
    """
    found = await store.get(FOLDER_KEY)
    if found is None:
        raise LedgerError(
            f"the key {FOLDER_KEY} is absent: no broker of this metadata store has stored messages yet. Start a broker,"
            " or give another metadata store"
        )
    for records, beginning in _ON_BOOKIES.items():
        instance, _, cluster = found.value.removeprefix(beginning).decode(errors="replace").rpartition(":")
        if found.value.startswith(beginning) and instance == instance_id:
            return BookieUser(cluster, records)
    elsewhere = "on the bookies of another cluster" if is_on_bookies(found.value) else "in files"
    if found.value.startswith(_MOVED):
        elsewhere = "under another metadata store, to which they were migrated"
    raise LedgerError(
        f"the bookies have the instance id {instance_id}, but the brokers of this metadata store keep messages"
        f" {elsewhere}: the key {FOLDER_KEY} is {found.value.decode(errors='replace')[:100]!r}. Correct"
        " bookkeeperMetadataServiceUri or barycenterLedgerStorage, or use another metadata store; to continue"
        " without these messages, delete the key and the topics"
    )


def identity_of(folder: str) -> str | None:
    """Return the identity of a folder of ledgers: 32 hexadecimal digits in one of its files. None if the folder has no
    such file.

    Raises:
        LedgerError: the file cannot be read, or does not contain an identity.
    """
    path = Path(folder) / IDENTITY
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ledger_error(error) from error
    if not _FORM.fullmatch(text):
        raise LedgerError(f"{path}: the file does not contain 32 hexadecimal digits; restore the file from a copy")
    return text


def create_identity(folder: str) -> str:
    """Return the identity of a folder of ledgers: 32 hexadecimal digits in one of its files. If the folder has none,
    create it. If several brokers do so at the same time, all of them return the same identity.

    Raises:
        LedgerError: the identity cannot be read or written.
    """
    given = identity_of(folder)
    if given is not None:
        return given
    unfinished = f"{folder}/{IDENTITY}-{uuid.uuid4().hex}"
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            os.write(descriptor, f"{uuid.uuid4().hex}\n".encode())
            os.fsync(descriptor)
            with suppress(FileExistsError):
                os.link(unfinished, f"{folder}/{IDENTITY}")
        finally:
            os.close(descriptor)
            os.unlink(unfinished)
    except OSError as error:
        raise ledger_error(error) from error
    given = identity_of(folder)
    if given is None:
        raise LedgerError(
            f"{folder}/{IDENTITY}: another program deleted the new file; keep other programs out of the "
            "folder and restart the broker"
        )
    return given
