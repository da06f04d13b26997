"""The state in the memory of the driver. Batches change it in place, so their cost depends only on their samples.

A batch that fails leaves it partly changed. Then it is read from the disk again (`state`).
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
"""The maximum number of changes after a whole state. The pipeline reads all of them when it starts."""


@dataclass(slots=True)
class LiveState:
    """The state of the pipeline in memory after the batch `batch_id`.

    `rows` has the averages of bundles, `sums` the averages of brokers, `held` the reports that wait because an earlier
    report is missing. On the disk, the state may be a complete one and the changes after it: `changes` is the number of
    these changes, `changed` the number of their rows.
    """

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
        """Return the form in memory of `kept`, a state that was read from the disk."""
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
        """Return the complete state, in the form in which it is written to the disk. It shares its content with this
        object, so the caller must write it before the next change.
        """
        memory = BatchMemory(
            reports=self.reports,
            ownership=self.owners.record(),
            balance=self.balance,
            decision_offsets=self.decision_offsets,
            refold=self.refold,
        )
        return PriorState(self.batch_id, memory, self.rows.table(), self.held)

    def keep(self, states: StateFolder, change: StateChange, *, whole_below: int) -> None:
        """Write this state to the disk. `change` is its difference from the state after the previous batch.

        Usually only the change is written. The complete state is written if it is the first one; if it has fewer than
        `whole_below` bundles; if all changes since the last complete state, with this one, would have more rows than
        the state; or if `_MOST_CHANGES` changes were written since then.
        """
        changed = self.changed + len(change.bundles) + len(change.memory.silent)
        is_first = change.memory.follows < 0
        if is_first or len(self.rows) < whole_below or changed > len(self.rows) or self.changes >= _MOST_CHANGES:
            states.write(self.batch_id, self.whole())
            self.changes = self.changed = 0
        else:
            states.append(self.batch_id, change)
            self.changes, self.changed = self.changes + 1, changed
