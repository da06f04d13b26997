"""The state as the driver keeps it between batches: changed in place, so that a batch costs what its samples cost.

A batch that fails leaves it half changed, and it is then read from the disk again (`state`).
"""

from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa

from pulsar_barycenter.pipeline.folds.balance import BalanceMemory
from pulsar_barycenter.pipeline.folds.broker_sums import BrokerSums
from pulsar_barycenter.pipeline.folds.bundle_rows import BundleRows
from pulsar_barycenter.pipeline.folds.owners import Owners
from pulsar_barycenter.pipeline.reports.acceptance import AcceptedReports
from pulsar_barycenter.pipeline.stream.batch_result import RefoldDue
from pulsar_barycenter.pipeline.stream.state import BatchMemory, PriorState, StateChange, StateFolder

_MOST_CHANGES: Final = 500
"""Changes that follow a whole state, at most: so many folders are read when the pipeline starts."""


@dataclass(slots=True)
class LiveState:
    """What is known after the batch `batch_id`."""

    batch_id: int
    reports: AcceptedReports
    owners: Owners
    balance: BalanceMemory
    decision_offsets: dict[str, int]
    refold: RefoldDue | msgspec.UnsetType
    rows: BundleRows
    sums: BrokerSums
    held: pa.Table | None
    changes: int
    changed: int

    @classmethod
    def of(cls, kept: PriorState) -> "LiveState":
        """Return the state that was kept on the disk."""
        memory, owners, rows = kept.memory, Owners(kept.memory.ownership), BundleRows(kept.bundles)
        return cls(
            batch_id=kept.batch_id,
            reports=memory.reports,
            owners=owners,
            balance=memory.balance,
            decision_offsets=memory.decision_offsets,
            refold=memory.refold,
            rows=rows,
            sums=BrokerSums(owners, rows),
            held=kept.held,
            changes=kept.changes,
            changed=kept.changed,
        )

    def whole(self) -> PriorState:
        """Return all of it, to be written at once."""
        memory = BatchMemory(
            reports=self.reports,
            ownership=self.owners.record(),
            balance=self.balance,
            decision_offsets=self.decision_offsets,
            refold=self.refold,
        )
        return PriorState(self.batch_id, memory, self.rows.table(), self.held)

    def keep(self, states: StateFolder, change: StateChange, *, whole_below: int) -> None:
        """Write the state of `batch_id`, which `change` made of the one before.

        It is written as a change unless it has fewer than `whole_below` bundles, or the changes since the last whole
        state would have more rows than the state, or are `_MOST_CHANGES`.
        """
        changed = self.changed + len(change.bundles) + len(change.memory.silent)
        is_first = change.memory.follows < 0
        if is_first or len(self.rows) < whole_below or changed > len(self.rows) or self.changes >= _MOST_CHANGES:
            states.write(self.batch_id, self.whole())
            self.changes = self.changed = 0
        else:
            states.append(self.batch_id, change)
            self.changes, self.changed = self.changes + 1, changed
