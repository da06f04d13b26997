"""From lines of logs to rows of tables, as expressions that Spark plans: the same for `batch` and `stream`.

Read `conditions` (how several become one), `report_lines` (what a load report looks like, where it is read from, which
lines are none), `report_rows` (the rows that one makes) and `decision_lines` (whole decision logs). Which reports count
is left to `reports.acceptance` in a stream, and to `report_lines.distinct_reports` in a batch.
"""
