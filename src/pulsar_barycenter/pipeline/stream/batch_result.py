"""What a micro-batch did, without Spark, so that commands of the light install can read it."""

from dataclasses import dataclass

import msgspec


class RefoldDue(msgspec.Struct, frozen=True, rename="camel"):
    """A range of time, epoch ms, both ends included, in which averages, owners and intervals of balance are not what
    the reports and decisions that came by now make of them: some came after what they would have changed was settled.

    `reports` and `decisions` are how many did. A refold of the logs computes what is right.
    """

    since: int
    until: int
    reports: int
    decisions: int


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What one batch did. `lag_ms` and `newest_lag_ms` are None for a batch that published nothing.

    `reports` counts those accepted, late ones included; `bundles` those published; `held` the reports that wait. What
    `overdue` and `overdue_decisions` count, and `refold`, see `stream.late`.
    """

    batch_id: int
    reports: int
    samples: int
    bundles: int
    duplicates: int
    corrupt_files: tuple[str, ...]
    lag_ms: int | None
    newest_lag_ms: int | None
    seconds: float
    as_of: int = 0
    late: int = 0
    held: int = 0
    decisions: int = 0
    corrupt_decisions: int = 0
    overdue: int = 0
    overdue_decisions: int = 0
    refold: RefoldDue | None = None
