"""The decisions of a migration: its phase by what is stored, and the step for a ledger by what the bookies have."""

from dataclasses import replace

import pytest

from pulsar_barycenter.bookkeeper.metadata.ledger_metadata import LedgerMetadata, Segment
from pulsar_barycenter.bookkeeper.wire.digests import DigestType
from pulsar_barycenter.ledger.bookkeeper_storage.marks import marks_of
from pulsar_barycenter.ledger.errors import LedgerError
from pulsar_barycenter.ledger.folder_identity import bookies_value, moved_value
from pulsar_barycenter.ledger.migration.planning import (
    Phase,
    SourceLedger,
    Step,
    StoredNames,
    phase_of,
    refusals_of_ids,
    step_of,
)
from pulsar_barycenter.ledger.migration_marks import UnfinishedMigration
from support.migrated_cluster import SHAPE

FOLDER, BOOKIES, CLUSTER = "f" * 32, "uuid", "c" * 32
IN_FILES = FOLDER.encode()
ON_BOOKIES = bookies_value("barycenter", BOOKIES, CLUSTER)
BEGUN = UnfinishedMigration(FOLDER, BOOKIES, CLUSTER)
LEDGER = SourceLedger("t", 7, 3, "/7.ledger", 2, entries=4, length=40)
OPEN = LedgerMetadata(3, 2, 2, (Segment(0, ("a", "b", "c")),), password=SHAPE.password, custom=marks_of(CLUSTER, 3))


@pytest.mark.parametrize(
    ("present", "next_", "unfinished", "mark", "phase"),
    [
        (IN_FILES, IN_FILES, None, b"", Phase.NEW),
        (IN_FILES, b"", None, b"", Phase.NEW),
        (IN_FILES, IN_FILES, BEGUN, b"", Phase.UNFINISHED),
        (IN_FILES, b"", BEGUN, b"", Phase.UNFINISHED),
        (moved_value(ON_BOOKIES), b"", BEGUN, b"", Phase.UNFINISHED),
        (ON_BOOKIES, ON_BOOKIES, BEGUN, b"", Phase.SWITCHED),
        (moved_value(ON_BOOKIES), ON_BOOKIES, BEGUN, ON_BOOKIES, Phase.SWITCHED),
        (ON_BOOKIES, ON_BOOKIES, None, ON_BOOKIES, Phase.DONE),
        (moved_value(ON_BOOKIES), ON_BOOKIES, None, ON_BOOKIES, Phase.DONE),
    ],
)
def test_the_phase_follows_from_what_is_stored(
    present: bytes, next_: bytes, unfinished: UnfinishedMigration | None, mark: bytes, phase: Phase
) -> None:
    assert phase_of(FOLDER, BOOKIES, StoredNames(present, next_), unfinished, mark.decode()) is phase


@pytest.mark.parametrize(
    ("present", "next_", "unfinished", "mark", "said"),
    [
        (b"0" * 32, b"0" * 32, None, b"", "do not keep messages in this folder, but in '0000"),
        (IN_FILES, ON_BOOKIES, None, b"", "do not keep messages in this folder, but in 'bookkeeper:uuid"),
        (ON_BOOKIES, ON_BOOKIES, None, b"", "do not keep messages in this folder"),
        (
            IN_FILES,
            IN_FILES,
            UnfinishedMigration("e" * 32, BOOKIES, CLUSTER),
            b"",
            "an earlier migration is unfinished",
        ),
        (IN_FILES, IN_FILES, UnfinishedMigration(FOLDER, "other", CLUSTER), b"", "an earlier migration is unfinished"),
        (b"0" * 32, b"", BEGUN, b"", "changed the storage of the cluster during the migration"),
        (IN_FILES, b"0" * 32, BEGUN, b"", "changed the storage of the cluster during the migration"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    present: bytes, next_: bytes, unfinished: UnfinishedMigration | None, mark: bytes, said: str
) -> None:
    with pytest.raises(LedgerError) as refused:
        phase_of(FOLDER, BOOKIES, StoredNames(present, next_), unfinished, mark.decode())
    assert said in str(refused.value)


def test_the_step_follows_from_what_the_bookies_have() -> None:
    assert step_of(LEDGER, None, CLUSTER, SHAPE) is Step.CREATE
    assert step_of(LEDGER, OPEN, CLUSTER, SHAPE) is Step.CONTINUE
    assert step_of(LEDGER, OPEN.closed(3, 40), CLUSTER, SHAPE) is Step.COMPARE


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (replace(OPEN, custom=marks_of("other", 3)), "another program created ledger 7"),
        (replace(OPEN, custom={}), "another program created ledger 7"),
        (replace(OPEN, password=b"other"), "another managedLedgerDigestType or managedLedgerPassword"),
        (replace(OPEN, digest_type=DigestType.CRC32), "another managedLedgerDigestType or managedLedgerPassword"),
        (OPEN.recovering(), "is IN_RECOVERY"),
        (OPEN.closed(2, 30), "has 3 entries and is CLOSED, its file has 4 entries"),
        (OPEN.closed(3, 41), "has 4 entries and is CLOSED"),
    ],
)
def test_a_ledger_that_others_created_or_ended_is_refused(stored: LedgerMetadata, said: str) -> None:
    with pytest.raises(LedgerError) as refused:
        step_of(LEDGER, stored, CLUSTER, SHAPE)
    assert said in str(refused.value)


def test_ids_of_others_are_refused_and_own_ones_are_not() -> None:
    assert refusals_of_ids({7, 8}, {7: OPEN, 9: OPEN}, CLUSTER) == []
    assert (
        "1 ledger of other programs with ids of ledgers of this cluster (7)"
        in refusals_of_ids({7}, {7: OPEN}, "")[0].reason
    )
    (refusal,) = refusals_of_ids(range(20), dict.fromkeys(range(20), OPEN), "other")
    assert "20 ledgers of other programs" in refusal.reason
    assert "(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …)" in refusal.reason
