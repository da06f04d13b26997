"""The result of a micro-batch. Does not import Spark, so that commands can use it without PySpark."""

from dataclasses import dataclass

import msgspec


class RefoldDue(msgspec.Struct, frozen=True, rename="camel"):
    """A time range (epoch ms, both ends inclusive) in which averages, owners and rows of the table `balance` are
    incomplete, because reports or decisions arrived too late. `reports` and `decisions` are the numbers of these.

    The command that computes all tables again from the logs (refold) computes the complete values.
    """

    since: int
    until: int
    reports: int
    decisions: int


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one batch. `lag_ms` is the time from the batch's oldest report to the publication of the batch,
    `newest_lag_ms` that from the newest report; both are None if the batch published nothing.

    `reports` counts accepted and late reports. `bundles` is the number of all bundles that are published after the
    batch. `held` is the number of reports that wait, because an earlier report of their broker is missing. `overdue`,
    `overdue_decisions` and `refold` are explained in `stream.late`.
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
