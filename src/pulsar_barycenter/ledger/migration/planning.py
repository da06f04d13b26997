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
    """Why the cluster cannot be migrated. If a ledger prevents it, `topic` and `ledger` name the ledger; otherwise they
    are "" and -1.
    """

    reason: str
    topic: str = ""
    ledger: int = -1


@dataclass(frozen=True, slots=True)
class SourceLedger:
    """A ledger to copy: its file, of format version `version`, with `entries` entries of `length` bytes in total.
    `epoch` is the epoch of the owner that wrote its topic's list last.
    """

    topic: str
    ledger_id: int
    epoch: int
    path: str
    version: int
    entries: int
    length: int


class Phase(Enum):
    """How far a migration is. SWITCHED: the cluster is on bookies; only marks of the migration are left to write."""

    NEW = "new"
    UNFINISHED = "unfinished"
    SWITCHED = "switched"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class StoredNames:
    """The values of the key that names the storage of a cluster: in its present metadata store, and in the next one,
    which may be the same; b"" if the key is absent.
    """

    present: bytes
    next: bytes


def phase_of(
    identity: str, instance: str, stored: StoredNames, unfinished: UnfinishedMigration | None, mark: str
) -> Phase:
    """Return the phase of the migration of the folder `identity` to the bookies with the UUID `instance`. `mark` is the
    text of the folder's mark, "" if it has none.

    Raises:
        LedgerError: the cluster has another storage, or another migration is unfinished.
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
            f"another migration is unfinished: of the folder with the identity {unfinished.folder} to the bookies with"
            f" the instance id {unfinished.bookies}; this is the folder {identity}, these are the bookies {instance}."
            f" End that one first; or, to abandon it, delete the key {MIGRATION_KEY}, and the ledgers with"
            f" barycenter-cluster={unfinished.cluster} on those bookies"
        )
    on_bookies = bookies_value(RECORDS, instance, unfinished.cluster)
    if stored.next == on_bookies:
        return Phase.SWITCHED
    if stored.present in (in_files, moved_value(on_bookies)) and is_next_before:
        return Phase.UNFINISHED
    raise LedgerError(
        f"the storage of the cluster was changed during the migration, to {_shown(stored.present)} in the present"
        f" metadata store and {_shown(stored.next)} in the next one"
    )


def _shown(stored: bytes) -> str:
    return repr(stored.decode(errors="replace")[:100])


def refusal_of_file(found: LedgerFile, max_entry_bytes: int) -> str:
    """Return why the file of a ledger cannot be copied; "" if it can. An entry on bookies may have up to
    `max_entry_bytes` (inclusive).
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
    """Return a refusal if other programs have ledgers on the bookies with ids that topics name. `on_bookies` is the
    metadata of ledgers on bookies, `cluster` the id that this migration stores with its own ones, "" before it has one.
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
    """What to do with a ledger. Each step is followed by the comparison of all its entries."""

    CREATE = "create"
    CONTINUE = "continue"
    COMPARE = "compare"


def step_of(ledger: SourceLedger, stored: LedgerMetadata | None, cluster: str, shape: LedgerShape) -> Step:
    """Return the step for a ledger by its metadata on the bookies, None if it does not exist there. `cluster` is the id
    that this migration stores with its ledgers, `shape` the shape of new ones.

    Raises:
        LedgerError: another program has the ledger, or changed it.
    """
    if stored is None:
        return Step.CREATE
    number = ledger.ledger_id
    if not is_of(cluster, stored.custom):
        raise LedgerError(f"another program created ledger {number} on the bookies during the migration")
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
        f" file has {count_of(ledger.entries, 'entry')}: another program, such as BookKeeper's auto recovery, ended it."
        f" Delete it with `bookkeeper shell deleteledger -ledgerid {number}`, wait until the bookies have removed its"
        " entries (gcWaitTime), and run this command again"
    )
