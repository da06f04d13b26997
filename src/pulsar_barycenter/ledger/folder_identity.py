"""That all brokers of a cluster see one folder of ledgers: its name for itself, kept in it and in the metadata store.

The first broker that comes writes down which folder it found. One that finds another does not start: it would not find
the ledgers of the topics that it takes over. Such is an empty folder, be it that the ledgers were removed or that their
disk is not mounted, and the machine's own disk where a shared one is not mounted.
"""

import os
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from pulsar_barycenter.ledger.errors import LedgerError, LedgerFolderUnfitError
from pulsar_barycenter.ledger.files.folder import FILE_MODE, in_our_terms
from pulsar_barycenter.metadata.errors import BadVersionError
from pulsar_barycenter.metadata.store import MUST_NOT_EXIST, MetadataStore

FOLDER_KEY: Final = "/barycenter/ledgers-folder"
IDENTITY: Final = "identity"
_LONGEST: Final = 64
_FORM: Final = re.compile(r"[0-9a-f]{32}")


async def check_one_folder(store: MetadataStore, folder: str) -> None:
    """Return if the folder, which is there, is that of the cluster; it becomes that if the cluster has none yet.

    Raises:
        LedgerFolderUnfitError: the cluster has another.
        LedgerError: its name cannot be read or written.
        MetadataError: the store did not answer.
    """
    if await store.get(FOLDER_KEY) is None:
        with suppress(BadVersionError):  # another broker was faster
            await store.put(FOLDER_KEY, named(folder).encode(), expected_version=MUST_NOT_EXIST)
    await check_same_folder(store, folder)


async def check_same_folder(store: MetadataStore, folder: str) -> None:
    """Return if the folder is that of the cluster, or if the cluster has none; nothing is written.

    Raises:
        LedgerFolderUnfitError, LedgerError, MetadataError: as `check_one_folder`.
    """
    found = await store.get(FOLDER_KEY)
    if found is None:
        return
    expected, given = found.value.decode(errors="replace"), identity_of(folder)
    if expected != given:
        what = (
            f"its file {IDENTITY} says {given}" if given else f"it has no file {IDENTITY}, so it is new or was emptied"
        )
        raise LedgerFolderUnfitError(
            folder,
            [
                (
                    f"it is another folder than the one that the brokers of this metadata store use: {what}",
                    "mount that one here and set barycenterDataDir, or restore it from a copy; or, to go on with this"
                    f" one and without the messages of that one, write {expected!r} into {folder}/{IDENTITY},"
                    f" which is the value of the key {FOLDER_KEY} of the store",
                )
            ],
        )


def identity_of(folder: str) -> str | None:
    """Return the folder's name for itself, None if it has none.

    Raises:
        LedgerError: it cannot be read, or is none.
    """
    path = Path(folder) / IDENTITY
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise in_our_terms(error) from error
    if not _FORM.fullmatch(text):
        raise LedgerError(f"{path}: is not the name of a folder of ledgers; restore it from a copy")
    return text


def named(folder: str) -> str:
    """Return the folder's name for itself, given to it now if it has none; of several that name it one wins.

    Raises:
        LedgerError: it cannot be read or written.
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
        raise in_our_terms(error) from error
    given = identity_of(folder)
    if given is None:
        raise LedgerError(f"{folder}/{IDENTITY}: is gone again; keep others from the folder, and start the broker anew")
    return given
