"""What one batch hands to the next: windows, ownership, the reports held back, and how far the logs were read.

Kept as `<folder>/<batch id>/`, with `bundles.parquet` (BUNDLE_STATE), `held.parquet` (see `samples.report_rows`) and
`memory.json`. A batch starts from the newest state of a smaller id and writes its own by a rename, so running it again
after a crash starts from the same place.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from barycenter.pipeline.acceptance import AcceptedReports
from barycenter.pipeline.balance import BalanceMemory
from barycenter.pipeline.layout import sync
from barycenter.pipeline.live_windows import no_bundles
from barycenter.pipeline.ownership import Ownership

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


@dataclass(frozen=True, slots=True)
class PriorState:
    """The state a batch starts from; `held` is None when no report waits for its predecessor."""

    batch_id: int = -1
    memory: BatchMemory = field(default_factory=BatchMemory)
    bundles: pa.Table = field(default_factory=no_bundles)
    held: pa.Table | None = None


class StateFolder:
    """The states under `folder`; one process at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def batch_ids(self) -> list[int]:
        """The ids of the states kept, ascending."""
        return sorted(int(entry.name) for entry in self._folder.iterdir() if entry.name.isdigit())

    def before(self, batch_id: int) -> PriorState:
        """Return the newest state of an id below `batch_id`, an empty one when there is none."""
        earlier = [kept for kept in self.batch_ids() if kept < batch_id]
        if not earlier:
            return PriorState()
        folder = self._path(earlier[-1])
        memory = msgspec.json.decode((folder / _MEMORY).read_bytes(), type=BatchMemory)
        held = folder / _HELD
        return PriorState(
            earlier[-1],
            memory,
            pq.read_table(folder / _BUNDLES).cast(no_bundles().schema),
            pq.read_table(held) if held.exists() else None,
        )

    def write(self, batch_id: int, state: PriorState) -> None:
        """Keep the state after `batch_id`, replacing one of the same id, and drop old ones."""
        target = self._path(batch_id)
        temporary = self._folder / f"_{batch_id}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        pq.write_table(state.bundles, temporary / _BUNDLES, compression="lz4", use_dictionary=False)
        if state.held is not None and len(state.held):
            pq.write_table(state.held, temporary / _HELD)
        (temporary / _MEMORY).write_bytes(msgspec.json.encode(state.memory))
        for file in temporary.iterdir():
            sync(file)
        shutil.rmtree(target, ignore_errors=True)  # killed here, the batch runs again from the state before it
        temporary.rename(target)
        for old in self.batch_ids()[:-_KEPT_STATES]:
            shutil.rmtree(self._path(old))

    def _path(self, batch_id: int) -> Path:
        return self._folder / f"{batch_id:012d}"
