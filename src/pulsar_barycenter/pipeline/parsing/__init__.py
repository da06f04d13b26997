"""Converts lines of logs to rows of tables, as Spark expressions, the same for `batch` and `stream`.

- `conditions` combines conditions.
- `report_lines` has the schema of a load report, reads reports, and decides which lines are reports.
- `report_rows` makes the rows of a report.
- `decision_lines` reads whole decision logs.

Which reports count is decided by `reports.acceptance` in a stream, and by `report_lines.distinct_reports` in a batch.
"""
