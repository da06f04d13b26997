"""Counts reports and decisions that arrived too late, and records the time range to compute again (`RefoldDue`).

There are three kinds:

- A *late* report arrived after a later report of its broker (see `reports.acceptance`). It is only in the tables of
  reports and samples.
- An *overdue* report arrived in its broker's order and is folded. But its interval of balance was already settled, or a
  bundle of it already had newer samples.
- An *overdue* decision belongs to an interval of balance that was already settled.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pulsar_barycenter.pipeline.reports.acceptance import Acceptance, ReportHeader, TakenKey, taken_key
from pulsar_barycenter.pipeline.stream.batch_result import RefoldDue

REFOLD_MEMORY_MS: Final = 30 * 86_400_000
"""How long a range is stored after its end: as long as tables are kept by default."""


def overdue_reports(
    accepted: Iterable[ReportHeader], settled_until: int | None, overtaken: Iterable[TakenKey]
) -> list[ReportHeader]:
    """Return those of the `accepted` reports that are overdue: they came too late to change values that were already
    computed.

    These are the reports whose time is before `settled_until` (epoch ms; None: there are none), and the reports in
    `overtaken`: one of their bundles already had a newer sample.
    """
    passed = set(overtaken)
    return [
        header
        for header in accepted
        if (settled_until is not None and header.key.reported_at < settled_until) or taken_key(header.key) in passed
    ]


def refold_due(
    before: RefoldDue | None, acceptance: Acceptance, overdue: Sequence[ReportHeader], decisions: Sequence[int]
) -> RefoldDue | None:
    """Return the time range in which the tables are incomplete after a batch: `before`, the range before the batch,
    extended by the late reports in `acceptance` and the overdue reports and decisions. None: there is no such range.

    `decisions` are the times (epoch ms) of overdue decisions. If there are late or overdue ones, the range ends at the
    newest report, because a wrong average changes all later averages. If `before` ended more than `REFOLD_MEMORY_MS`
    before the newest report, it is forgotten: by default, the tables of that time are deleted by then.
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
