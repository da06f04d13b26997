"""The state on the disk, from which the next batch starts: windows, ownership, held reports, offsets of decision logs.

A state is a folder, `pipeline/state/<batch id>/`, and is *whole* or a *change*:

- A whole state has `bundles.parquet` (BUNDLE_STATE) and `memory.json` (`BatchMemory`).
- A change has `changes.parquet` (the rows of BUNDLE_STATE that its batch changed) and `memory.json` (`MemoryChange`),
  which contains the id of the state before it.

Both have `held.parquet` if reports are held back (with the columns of `parsing.report_rows`). `memory.json` is written
last and deleted first: a folder without it is incomplete and does not count. A batch starts from the newest state with
a smaller id, so a batch that runs again after a crash starts from the same state.

The newest `_KEPT_STATES` states are kept, with the states that they follow, back to a whole one. Changes keep the bytes
that a batch writes proportional to its samples. `live_state` decides when a whole state is written, so that the changes
take no more space than the whole state.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_barycenter.pipeline.folds.balance import BalanceMemory
from pulsar_barycenter.pipeline.folds.live_windows import no_bundles
from pulsar_barycenter.pipeline.folds.ownership import Ownership, OwnershipSteps
from pulsar_barycenter.pipeline.reports.acceptance import AcceptedReports
from pulsar_barycenter.pipeline.storage.files import Storage, clear_unfinished
from pulsar_barycenter.pipeline.storage.layout import STATE
from pulsar_barycenter.pipeline.stream.batch_result import RefoldDue

_BUNDLES = "bundles.parquet"
_CHANGES = "changes.parquet"
_HELD = "held.parquet"
_MEMORY = "memory.json"
_CHANGE_START = b'{"follows":'
"""The first bytes of the `memory.json` of a change; that of a whole state begins differently."""
_KEPT_STATES = 3
_DROPPED_AT_ONCE = 32
"""The maximum number of old states that a batch deletes."""


class BatchMemory(msgspec.Struct, rename="camel", kw_only=True):
    """The part of a stored state that does not have the averages of bundles: processed reports, owners, balance,
    offsets of the decision logs.
    """

    reports: AcceptedReports = AcceptedReports()
    ownership: Ownership = msgspec.field(default_factory=Ownership)
    balance: BalanceMemory = msgspec.field(default_factory=BalanceMemory)
    decision_offsets: dict[str, int] = {}
    refold: RefoldDue | msgspec.UnsetType = msgspec.UNSET
    """The time range that is incomplete, see `stream.late`."""


class MemoryChange(msgspec.Struct, rename="camel", kw_only=True):
    """How a batch changed `BatchMemory`. Ownership has only its changes here; the other fields have their complete new
    values, because their size does not depend on the number of bundles.

    `follows` is the batch id of the previous state. `silent` are the bundles that the batch removed.
    """

    follows: int
    reports: AcceptedReports
    ownership_steps: OwnershipSteps
    balance: BalanceMemory
    decision_offsets: dict[str, int]
    refold: RefoldDue | msgspec.UnsetType = msgspec.UNSET
    silent: list[str] = []


class Progress(msgspec.Struct, rename="camel", kw_only=True):
    """The fields of the file `memory.json` of a state that `BatchMemory` and `MemoryChange` both have, for readers that
    need only these.
    """

    decision_offsets: dict[str, int] = {}
    refold: RefoldDue | msgspec.UnsetType = msgspec.UNSET


class DamagedStateError(OSError):
    """The stored state after a batch cannot be read. `folder` is its full path or URL."""

    def __init__(self, folder: str, detail: str) -> None:
        super().__init__(
            f"{folder} is damaged: {detail}. Restore it from a copy, or move it away: the pipeline then continues from"
            " the state before it, without the reports of that batch"
        )
        self.folder = folder


@dataclass(frozen=True, slots=True)
class PriorState:
    """The state from which a batch starts. `held` are the reports that wait because an earlier report of their broker
    is missing, None if there are none.

    The state was read from a complete state on the disk and from the changes after it: `changes` is the number of these
    changes, `changed` the number of rows in all of them.
    """

    batch_id: int = -1
    memory: BatchMemory = field(default_factory=BatchMemory)
    bundles: pa.Table = field(default_factory=no_bundles)
    held: pa.Table | None = None
    changes: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True)
class StateChange:
    """The difference between the states before and after a batch. `bundles` has the new rows (BUNDLE_STATE) of the
    bundles with samples in the batch.
    """

    memory: MemoryChange
    bundles: pa.Table
    held: pa.Table | None


class StateFolder:
    """Reads and writes the stored states of a data directory, one for each of the last batches. Only one process at a
    time may write.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: dict[int, bool] | None = None
        """For each stored state, whether it is whole; None: unknown."""

    def batch_ids(self) -> list[int]:
        """Return the batch ids of all stored states, ascending."""
        return [batch for batch in self._folders() if self._storage.exists(self._path(batch, _MEMORY))]

    def newest_progress(self) -> Progress:
        """Return two fields of the newest stored state: how far the decision logs are read, and the time range in which
        the tables are incomplete. Return a `Progress` with default values if there is no state.
        """
        kept = self.batch_ids()
        if not kept:
            return Progress()
        with self._naming_damage(kept[-1]):
            return msgspec.json.decode(self._storage.read(self._path(kept[-1], _MEMORY)), type=Progress)

    def newest_held(self) -> int:
        """Return the number of reports in the newest stored state that wait because an earlier report of their broker
        is missing; 0 if there is no state.
        """
        kept = self.batch_ids()
        if not kept:
            return 0
        with self._naming_damage(kept[-1]):
            held = self._held(kept[-1])
        return 0 if held is None else len(held)

    def before(self, batch_id: int) -> PriorState:
        """Return the newest stored state with an id below `batch_id`. Return an empty state if there is none.

        Raises:
            DamagedStateError: this state is damaged; or a state of which it has only the changes is damaged or missing.
                Older states are not tried.
        """
        kept = self.batch_ids()
        earlier = [batch for batch in kept if batch < batch_id]
        if not earlier:
            return PriorState()
        newest = whole = earlier[-1]
        changes: list[tuple[MemoryChange, pa.Table]] = []
        while not self._is_whole(whole):
            with self._naming_damage(whole):
                change = msgspec.json.decode(self._storage.read(self._path(whole, _MEMORY)), type=MemoryChange)
                if change.follows not in kept or change.follows >= whole:
                    raise msgspec.DecodeError(
                        f"the state has only the changes since batch {change.follows}, whose state is missing"
                    )
                changes.append((change, self._rows(whole, _CHANGES)))
            whole = change.follows
        with self._naming_damage(whole):
            memory = msgspec.json.decode(self._storage.read(self._path(whole, _MEMORY)), type=BatchMemory)
            bundles = self._rows(whole, _BUNDLES)
        for change, _ in reversed(changes):
            change.ownership_steps.apply(memory.ownership)
        if changes:
            last = changes[0][0]
            memory.reports, memory.balance = last.reports, last.balance
            memory.decision_offsets, memory.refold = last.decision_offsets, last.refold
            bundles = _changed(bundles, [(rows, change.silent) for change, rows in reversed(changes)])
        with self._naming_damage(newest):
            held = self._held(newest)
        changed = sum(len(rows) + len(change.silent) for change, rows in changes)
        return PriorState(newest, memory, bundles, held, len(changes), changed)

    @contextmanager
    def _naming_damage(self, batch_id: int) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, msgspec.DecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            folder = self._storage.address(self._path(batch_id))
            raise DamagedStateError(folder, str(error).partition("\n")[0]) from error

    def _is_whole(self, batch_id: int) -> bool:
        start = self._storage.read(self._path(batch_id, _MEMORY), length=len(_CHANGE_START))
        return start != _CHANGE_START

    def _rows(self, batch_id: int, name: str) -> pa.Table:
        with self._storage.local(self._path(batch_id, name)) as file:
            return pq.read_table(file).cast(no_bundles().schema)

    def _held(self, batch_id: int) -> pa.Table | None:
        try:
            with self._storage.local(self._path(batch_id, _HELD)) as file:
                return pq.read_table(file)
        except FileNotFoundError:
            return None

    def write(self, batch_id: int, state: PriorState) -> None:
        """Write the complete state after the batch `batch_id`. A stored state with this id is replaced. States that are
        no longer needed are deleted.
        """
        self._keep(batch_id, _BUNDLES, state.bundles, state.held, state.memory)

    def append(self, batch_id: int, change: StateChange) -> None:
        """Write the state after the batch `batch_id` as a change of the previous state. A stored state with this id is
        replaced. States that are no longer needed are deleted.
        """
        self._keep(batch_id, _CHANGES, change.bundles, change.held, change.memory)

    def make_newest_whole(self) -> None:
        """If the newest stored state is a change, replace it by the complete state after the same batch. An earlier
        release, which cannot read changes, can then start from it.

        If the process is killed meanwhile, the change is still there and valid: the file `memory.json`, which says
        whether the state is complete or a change, is replaced last.
        """
        kept = self.batch_ids()
        if not kept or self._is_whole(kept[-1]):
            return
        newest, state = kept[-1], self.before(kept[-1] + 1)
        self._kept = None
        with self._storage.new_file(self._path(newest, _BUNDLES)) as file:
            _write_rows(state.bundles, file)
        self._storage.write(self._path(newest, _MEMORY), msgspec.json.encode(state.memory))
        self._storage.delete(self._path(newest, _CHANGES))

    def _keep(
        self, batch_id: int, name: str, rows: pa.Table, held: pa.Table | None, memory: BatchMemory | MemoryChange
    ) -> None:
        kept = self._known()
        self._kept = None  # until all is written: after an error the next call lists the folder and deletes the rest
        if kept.pop(batch_id, None) is not None:
            self._drop(batch_id)  # after a kill here the batch runs again, from the state before it
        with self._storage.new_file(self._path(batch_id, name)) as file:
            _write_rows(rows, file)
        if held is not None and len(held):
            with self._storage.new_file(self._path(batch_id, _HELD)) as file:
                pq.write_table(held, file)
        self._storage.write(self._path(batch_id, _MEMORY), msgspec.json.encode(memory))
        kept[batch_id] = name == _BUNDLES
        self._drop_old(kept)
        self._kept = kept

    def _known(self) -> dict[int, bool]:
        """Return all stored states: for each batch id, whether the state is complete (True) or a change (False). Delete
        folders of states that a killed process left unfinished.
        """
        if self._kept is None:
            clear_unfinished(self._storage, STATE)
            complete = self.batch_ids()
            for batch in set(self._folders()).difference(complete):
                self._drop(batch)
            self._kept = {batch: self._is_whole(batch) for batch in complete}
        return self._kept

    def _drop_old(self, kept: dict[int, bool]) -> None:
        """Delete the states that the newest `_KEPT_STATES` states do not need, at most `_DROPPED_AT_ONCE` of them, and
        remove them from `kept`. They are deleted in the order from newer to older ones: so after a kill every state
        that is left can be read.
        """
        batches = sorted(kept)
        oldest = batches[-_KEPT_STATES:][0]
        whole = max((batch for batch in batches if batch <= oldest and kept[batch]), default=oldest)
        for batch in [batch for batch in reversed(batches) if batch < whole][:_DROPPED_AT_ONCE]:
            self._drop(batch)
            del kept[batch]

    def _drop(self, batch_id: int) -> None:
        self._storage.delete(self._path(batch_id, _MEMORY))
        self._storage.delete(self._path(batch_id))

    def _folders(self) -> list[int]:
        return sorted(int(entry.name) for entry in self._storage.entries(STATE) if entry.name.isdigit())

    def _path(self, batch_id: int, file: str = "") -> str:
        return f"{STATE}/{batch_id:012d}/{file}".rstrip("/")


def _write_rows(rows: pa.Table, file: Path) -> None:
    pq.write_table(rows, file, compression="lz4", use_dictionary=False)


def _changed(bundles: pa.Table, changes: Iterable[tuple[pa.Table, Iterable[str]]]) -> pa.Table:
    """Return `bundles` (columns BUNDLE_STATE) after `changes`, in their order; the result is sorted by bundle. A change
    is a pair: new or changed rows, and the names of removed bundles.
    """
    tables = [bundles]
    row_of = {name: row for row, name in enumerate(bundles.column("bundle").to_pylist())}
    count = len(bundles)
    for rows, silent in changes:
        row_of |= {name: count + row for row, name in enumerate(rows.column("bundle").to_pylist())}
        for name in silent:
            row_of.pop(name, None)
        tables.append(rows)
        count += len(rows)
    chosen = pa.array(row_of.values(), pa.int64())
    return pa.concat_tables(tables).take(chosen).sort_by("bundle")
