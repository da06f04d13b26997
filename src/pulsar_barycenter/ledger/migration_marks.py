"""What a migration of messages from files to bookies leaves in the metadata store and in the folder of ledgers.

While it is unfinished, a key of the metadata store names the folder and the bookies, and the id that the cluster of
brokers has on them. When it is done, the folder has a file that says so. A broker that is started with a folder that
has this file refuses to start: it would serve a second copy of the topics.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFolderUnfitError
from pulsar_barycenter.ledger.files.folder import FILE_MODE, ledger_error
from pulsar_barycenter.metadata.codec import JsonCodec
from pulsar_barycenter.metadata.store import MetadataStore

MIGRATION_KEY: Final = "/barycenter/ledger-migration"
MIGRATED: Final = "migrated"
"""The name of the file in a folder of ledgers whose messages were migrated."""
_LONGEST: Final = 256


class UnfinishedMigration(msgspec.Struct, frozen=True):
    """A migration that has begun and not ended. `folder` is the identity of the folder of ledgers, `bookies` the UUID
    of the bookies' cluster. `cluster` is the id that the cluster of brokers has on the bookies; it is stored with each
    of its ledgers.
    """

    folder: str
    bookies: str
    cluster: str


_CODEC: Final = JsonCodec(UnfinishedMigration)


async def unfinished_migration(store: MetadataStore) -> UnfinishedMigration | None:
    """Return the migration to the metadata store `store` that has begun and not ended; None if there is none.

    Raises:
        MetadataError: the store did not answer, or the record cannot be decoded.
    """
    found = await store.get(MIGRATION_KEY)
    return None if found is None else _CODEC.decode(MIGRATION_KEY, found.value)


async def check_no_migration(store: MetadataStore) -> None:
    """Check that there is no migration to the metadata store `store` that has begun and not ended. During a migration,
    a part of the metadata may still be missing in the store.

    Raises:
        LedgerError: there is such a migration.
        MetadataError: the store did not answer, or the record cannot be decoded.
    """
    if await unfinished_migration(store) is not None:
        raise LedgerError(
            f"a migration to this metadata store is unfinished, as the key {MIGRATION_KEY} says: end it with"
            " `barycenter ledger migrate`"
        )


def encode_migration(migration: UnfinishedMigration) -> bytes:
    return _CODEC.encode(migration)


def migrated_to(folder: str) -> str:
    """Return the bookies to which the messages of a folder of ledgers were migrated, as text: the value of FOLDER_KEY
    that names them. "" if the messages were not migrated.

    Raises:
        LedgerError: the file in the folder that says this cannot be read.
    """
    try:
        with (Path(folder) / MIGRATED).open("rb") as file:
            return file.read(_LONGEST).decode(errors="replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ledger_error(error) from error


def mark_migrated(folder: str, where: str) -> None:
    """Write a file into a folder of ledgers that says that its messages were migrated to bookies. `where` is the value
    of FOLDER_KEY that names the bookies. Idempotent.

    Raises:
        LedgerError: the file cannot be written.
    """
    unfinished = f"{folder}/{MIGRATED}-unfinished"
    try:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            os.write(descriptor, f"{where}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(unfinished, f"{folder}/{MIGRATED}")
    except OSError as error:
        raise ledger_error(error) from error


def check_not_migrated(folder: str) -> None:
    """Check that the messages of a folder of ledgers were not migrated to bookies.

    Raises:
        LedgerFolderUnfitError: the messages were migrated.
        LedgerError: the file in the folder that says whether they were migrated cannot be read.
    """
    where = migrated_to(folder)
    if where:
        raise LedgerFolderUnfitError(
            folder,
            [
                (
                    f"its messages were migrated to bookies ({where}), as its file {MIGRATED} says",
                    "use the configuration of the cluster on bookies; or, to continue with the messages as they were"
                    f" before the migration, delete {folder}/{MIGRATED}",
                )
            ],
        )
