"""What one batch hands to the next: windows, ownership, the reports held back, and how far the logs were read.

Kept as `pipeline/state/<batch id>/`, with `bundles.parquet` (BUNDLE_STATE), `held.parquet` (see `parsing.report_rows`)
and `memory.json`, which is written last and deleted first: a folder without it is no state. A batch starts from the
newest state of a smaller id, so running it again after a crash starts from the same place.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_barycenter.pipeline.folds.balance import BalanceMemory
from pulsar_barycenter.pipeline.folds.live_windows import no_bundles
from pulsar_barycenter.pipeline.folds.ownership import Ownership
from pulsar_barycenter.pipeline.reports.acceptance import AcceptedReports
from pulsar_barycenter.pipeline.storage.files import Storage, clear_unfinished
from pulsar_barycenter.pipeline.storage.layout import STATE
from pulsar_barycenter.pipeline.stream.batch_result import RefoldDue

_BUNDLES = "bundles.parquet"
_HELD = "held.parquet"
_MEMORY = "memory.json"
_KEPT_STATES = 3


class BatchMemory(msgspec.Struct, rename="camel", kw_only=True):
    """What is remembered of reports, brokers and logs."""

    reports: AcceptedReports = AcceptedReports()
    ownership: Ownership = msgspec.field(default_factory=Ownership)
    balance: BalanceMemory = msgspec.field(default_factory=BalanceMemory)
    decision_offsets: dict[str, int] = {}
    refold: RefoldDue | msgspec.UnsetType = msgspec.UNSET
    """What came too late, see `stream.late`."""


class DamagedStateError(OSError):
    """The state of a batch cannot be read; `folder` holds it."""

    def __init__(self, folder: str, detail: str) -> None:
        super().__init__(
            f"{folder} is damaged: {detail}. Restore it from a copy, or move it away: the pipeline then goes on from"
            " the state before it, without the reports of that batch"
        )
        self.folder = folder


@dataclass(frozen=True, slots=True)
class PriorState:
    """The state a batch starts from; `held` is None when no report waits for its predecessor."""

    batch_id: int = -1
    memory: BatchMemory = field(default_factory=BatchMemory)
    bundles: pa.Table = field(default_factory=no_bundles)
    held: pa.Table | None = None


class StateFolder:
    """The states of a data directory; one process at a time."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: list[int] | None = None

    def batch_ids(self) -> list[int]:
        """The ids of the states kept, ascending."""
        return [batch for batch in self._folders() if self._storage.exists(self._path(batch, _MEMORY))]

    def newest_memory(self) -> BatchMemory:
        """What the newest state remembers; of no state, that of nothing."""
        kept = self.batch_ids()
        if not kept:
            return BatchMemory()
        with self._naming_damage(kept[-1]):
            return self._memory(kept[-1])

    def newest_held(self) -> int:
        """How many reports wait in the newest state."""
        kept = self.batch_ids()
        if not kept:
            return 0
        with self._naming_damage(kept[-1]):
            held = self._held(kept[-1])
        return 0 if held is None else len(held)

    def _memory(self, batch_id: int) -> BatchMemory:
        return msgspec.json.decode(self._storage.read(self._path(batch_id, _MEMORY)), type=BatchMemory)

    def before(self, batch_id: int) -> PriorState:
        """Return the newest state of an id below `batch_id`, an empty one when there is none."""
        earlier = [kept for kept in self.batch_ids() if kept < batch_id]
        if not earlier:
            return PriorState()
        with self._naming_damage(earlier[-1]):
            memory = self._memory(earlier[-1])
            with self._storage.local(self._path(earlier[-1], _BUNDLES)) as file:
                bundles = pq.read_table(file).cast(no_bundles().schema)
            return PriorState(earlier[-1], memory, bundles, self._held(earlier[-1]))

    @contextmanager
    def _naming_damage(self, batch_id: int) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, msgspec.DecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            folder = self._storage.address(self._path(batch_id))
            raise DamagedStateError(folder, str(error).partition("\n")[0]) from error

    def _held(self, batch_id: int) -> pa.Table | None:
        try:
            with self._storage.local(self._path(batch_id, _HELD)) as file:
                return pq.read_table(file)
        except FileNotFoundError:
            return None

    def write(self, batch_id: int, state: PriorState) -> None:
        """Keep the state after `batch_id`, replacing one of the same id, and drop old ones."""
        if self._kept is None:
            clear_unfinished(self._storage, STATE)
        kept = self._folders() if self._kept is None else self._kept
        if batch_id in kept:
            self._drop(batch_id)  # killed here, the batch runs again from the state before it
        with self._storage.new_file(self._path(batch_id, _BUNDLES)) as file:
            pq.write_table(state.bundles, file, compression="lz4", use_dictionary=False)
        if state.held is not None and len(state.held):
            with self._storage.new_file(self._path(batch_id, _HELD)) as file:
                pq.write_table(state.held, file)
        self._storage.write(self._path(batch_id, _MEMORY), msgspec.json.encode(state.memory))
        self._kept = sorted({*kept, batch_id})
        for old in self._kept[:-_KEPT_STATES]:
            self._drop(old)
        self._kept = self._kept[-_KEPT_STATES:]

    def _drop(self, batch_id: int) -> None:
        self._storage.delete(self._path(batch_id, _MEMORY))
        self._storage.delete(self._path(batch_id))

    def _folders(self) -> list[int]:
        return sorted(int(entry.name) for entry in self._storage.entries(STATE) if entry.name.isdigit())

    def _path(self, batch_id: int, file: str = "") -> str:
        return f"{STATE}/{batch_id:012d}/{file}".rstrip("/")
