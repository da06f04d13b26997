"""What came after the time that it belongs to was settled: counted, and remembered as a range to fold anew.

Three kinds do: a report after one of its broker that follows it (`reports.acceptance` calls it late), which stands in
the tables of reports alone; a report that is *overdue*, in its broker's order and folded, but before an interval of
balance that was settled, or with samples older than others of their bundles; a decision that is overdue, of an interval
that was settled.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pulsar_barycenter.pipeline.reports.acceptance import Acceptance, ReportHeader, TakenKey, taken_key
from pulsar_barycenter.pipeline.stream.batch_result import RefoldDue

REFOLD_MEMORY_MS: Final = 30 * 86_400_000
"""How long a range is remembered after its end: as long as tables are kept unless somebody chooses otherwise."""


def overdue_reports(
    accepted: Iterable[ReportHeader], settled_until: int | None, overtaken: Iterable[TakenKey]
) -> list[ReportHeader]:
    """Return the reports before `settled_until` (epoch ms; None: nothing is settled), and those `overtaken`."""
    passed = set(overtaken)
    return [
        header
        for header in accepted
        if (settled_until is not None and header.key.reported_at < settled_until) or taken_key(header.key) in passed
    ]


def refold_due(
    before: RefoldDue | None, acceptance: Acceptance, overdue: Sequence[ReportHeader], decisions: Sequence[int]
) -> RefoldDue | None:
    """Return the range of before and of what came too late in a batch as one; None if nothing did.

    `decisions` are the times of those overdue. The range goes on to the newest report, since averages go on.
    """
    as_of = acceptance.reports.as_of
    kept = before if before is not None and as_of - before.until <= REFOLD_MEMORY_MS else None
    reports = [header.key.reported_at for header in (*acceptance.late, *overdue)]
    if not reports and not decisions:
        return kept
    return RefoldDue(
        min([*reports, *decisions, *([kept.since] if kept else ())]),
        max([as_of, *([kept.until] if kept else ())]),
        len(reports) + (kept.reports if kept else 0),
        len(decisions) + (kept.decisions if kept else 0),
    )
