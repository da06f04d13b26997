"""Decides about a migration: what prevents it, in which phase it is, and what to do with a ledger. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from pulsar_barycenter.bookkeeper.client.client_settings import LedgerShape
from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from pulsar_barycenter.ledger.bookkeeper_storage.marks import is_of
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.files.repair import FileState, LedgerFile
from pulsar_barycenter.ledger.folder_identity import bookies_value, is_on_bookies, moved_value
from pulsar_barycenter.ledger.migration_marks import MIGRATION_KEY, UnfinishedMigration
from pulsar_barycenter.ledger.position import positions_text
from pulsar_barycenter.naming.counted import count_of

LAST_ID: Final = 2**31 - 2
"""The highest id of a ledger on bookies that this release writes."""
RECORDS: Final = "barycenter"
"""The form of the records of a cluster with messages in files, which the migration keeps."""


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reason, as text, for which the cluster cannot be migrated. If a ledger is the reason, `topic` and `ledger` name
    it; otherwise they are "" and -1.
    """

    reason: str
    topic: str = ""
    ledger: int = -1


@dataclass(frozen=True, slots=True)
class SourceLedger:
    """A ledger to copy. Its file is at `path`, has the format version `version`, and contains `entries` entries of
    `length` bytes in total. `epoch` is the epoch of the owner that wrote the topic's list of ledgers last.
    """

    topic: str
    ledger_id: int
    epoch: int
    path: str
    version: int
    entries: int
    length: int


class Phase(Enum):
    """How far a migration is. NEW: it has not begun. UNFINISHED: it has begun, and the cluster still uses the files.
    SWITCHED: the cluster uses the bookies, and only the record of the unfinished migration and the file in the folder
    have to be updated. DONE: nothing is left to do.
    """

    NEW = "new"
    UNFINISHED = "unfinished"
    SWITCHED = "switched"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class StoredNames:
    """The values of FOLDER_KEY (the key that names the storage of a cluster's messages): `present` in the present
    metadata store, `next` in the store that the cluster uses after the migration, which may be the same store. b"" if
    the store does not have the key.
    """

    present: bytes
    next: bytes


def phase_of(
    identity: str, instance: str, stored: StoredNames, unfinished: UnfinishedMigration | None, mark: str
) -> Phase:
    """Return the phase of the migration of the folder with the identity `identity` to the bookies with the UUID
    `instance`.

    `unfinished` is the record of a migration that has begun and not ended, None if there is none. `mark` is the content
    of the file in the folder that says where its messages were migrated to, "" if there is no such file.

    Raises:
        LedgerError: the cluster keeps its messages elsewhere, or the unfinished migration is of another folder or to
            other bookies.
    """
    in_files = identity.encode()
    is_next_before = stored.next in (in_files, b"")
    if unfinished is None:
        if stored.present == in_files and is_next_before:
            return Phase.NEW
        if is_on_bookies(stored.next) and stored.next == mark.encode():
            return Phase.DONE
        other = stored.present if stored.present != in_files else stored.next
        raise LedgerError(
            f"the brokers of this metadata store do not keep messages in this folder, but in {_shown(other)}: give the"
            " metadata store and the data folder of the same cluster"
        )
    if (unfinished.folder, unfinished.bookies) != (identity, instance):
        raise LedgerError(
            f"an earlier migration is unfinished: from the folder with the identity {unfinished.folder} to the bookies"
            f" with the instance id {unfinished.bookies}; this command was given the folder {identity} and the bookies"
            f" {instance}. End the earlier migration first; or, to abandon it, delete the key {MIGRATION_KEY}, and, on"
            f" the bookies of the earlier migration, the ledgers with barycenter-cluster={unfinished.cluster}"
        )
    on_bookies = bookies_value(RECORDS, instance, unfinished.cluster)
    if stored.next == on_bookies:
        return Phase.SWITCHED
    if stored.present in (in_files, moved_value(on_bookies)) and is_next_before:
        return Phase.UNFINISHED
    raise LedgerError(
        f"another program changed the storage of the cluster during the migration: the present metadata store names"
        f" {_shown(stored.present)}, the next metadata store {_shown(stored.next)}. Restore the former values, and"
        " run this command again"
    )


def _shown(stored: bytes) -> str:
    return repr(stored.decode(errors="replace")[:100])


def refusal_of_file(found: LedgerFile, max_entry_bytes: int) -> str:
    """Return why the ledger in a file cannot be copied, as text; "" if it can. `found` is the state of the file.
    `max_entry_bytes` is the size (inclusive) of the largest entry that the bookies accept.
    """
    scan = found.found
    if found.ledger_id > LAST_ID:
        return f"ledgers on bookies have ids up to {LAST_ID}"
    if found.state is not FileState.WHOLE:
        return (
            f"{found.path} is {found.state}: {found.detail}. Restore the file from a copy; or delete the topic, or"
            " let its subscriptions consume all before the migration"
        )
    if scan.gone:
        removed = ", ".join(positions_text(found.ledger_id, first, last) for first, last in scan.gone)
        return (
            f"a repair removed the entries {removed}, and a ledger on bookies cannot lack entries. Let the topic's"
            " subscriptions consume this ledger, so that it is deleted; or delete the topic"
        )
    if scan.index.largest_bytes > max_entry_bytes:
        return (
            f"an entry has {scan.index.largest_bytes:,} bytes, bookies accept {max_entry_bytes:,}. Set maxMessageSize"
            " in the configuration, and nettyMaxFrameSizeBytes of the bookies, so that bookies accept this entry"
        )
    return ""


def refusals_of_ids(named: Collection[int], on_bookies: Mapping[int, LedgerMetadata], cluster: str) -> list[Refusal]:
    """Return one refusal if the bookies have ledgers of other programs whose ids are in `named`, the ids in the lists
    of topics; otherwise an empty list.

    `on_bookies` is the metadata of ledgers on the bookies, by id. `cluster` is the id that this migration stores with
    the ledgers that it creates; "" if the migration has not begun, so that all ledgers are of other programs.
    """
    taken = sorted(
        ledger
        for ledger, metadata in on_bookies.items()
        if ledger in named and not (cluster and is_of(cluster, metadata.custom))
    )
    if not taken:
        return []
    first = ", ".join(map(str, taken[:10]))
    return [
        Refusal(
            f"the bookies have {count_of(len(taken), 'ledger')} of other programs with ids of ledgers of this cluster"
            f" ({first}{', …' if len(taken) > 10 else ''}), and ledgers keep their ids. Use a cluster of bookies"
            " without these ledgers"
        )
    ]


class Step(Enum):
    """What has to be done to copy a ledger: create it on the bookies, continue to write it, or nothing (COMPARE). After
    each of these, its entries on the bookies are compared with those in its file.
    """

    CREATE = "create"
    CONTINUE = "continue"
    COMPARE = "compare"


def step_of(ledger: SourceLedger, stored: LedgerMetadata | None, cluster: str, shape: LedgerShape) -> Step:
    """Return what has to be done to copy `ledger`. `stored` is its metadata on the bookies; None if it does not exist
    there. `cluster` is the id that this migration stores with the ledgers that it creates. `shape` has the password and
    the digest type of these ledgers.

    Raises:
        LedgerError: another program created the ledger on the bookies or closed it early, or its password or digest
            type is another one.
    """
    if stored is None:
        return Step.CREATE
    number = ledger.ledger_id
    if not is_of(cluster, stored.custom):
        raise LedgerError(
            f"another program created ledger {number} on the bookies during the migration: stop that program, delete"
            " the ledger on the bookies if no program needs it, and run this command again"
        )
    if (stored.digest_type, stored.password) != (shape.digest_type, shape.password):
        raise LedgerError(
            f"ledger {number} on the bookies was written with another managedLedgerDigestType or managedLedgerPassword:"
            " continue the migration with the configuration with which it began"
        )
    if stored.state is LedgerState.OPEN:
        return Step.CONTINUE
    if stored.state is LedgerState.CLOSED and (stored.last_entry + 1, stored.length) == (ledger.entries, ledger.length):
        return Step.COMPARE
    raise LedgerError(
        f"ledger {number} on the bookies has {count_of(stored.last_entry + 1, 'entry')} and is {stored.state.name}, its"
        f" file has {count_of(ledger.entries, 'entry')}: another program, such as BookKeeper's auto recovery, closed it"
        f" early. Delete the ledger with `bookkeeper shell deleteledger -ledgerid {number}`, wait until the"
        " bookies have removed the entries (gcWaitTime), and run this command again"
    )
