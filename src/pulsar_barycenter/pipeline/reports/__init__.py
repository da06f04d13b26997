"""Prepares the reports and decisions of a batch in the driver, before they are folded.

Problem. A report must count exactly once and in its broker's order, although files may be found twice, late or in the
wrong order. Input that cannot be read must not stop the pipeline, and must not be lost.

- `acceptance` decides which reports count; `taken_reports` looks up reports that are older than its memory.
- `columns` cuts accepted reports into rows of the tables.
- `decision_files` reads new lines of the decision logs; `log_files` lists the files of the report log.
- `quarantine` keeps input that could not be read, with the reason; `archive` has the files that were read.

Spark reads the report log, in `parsing`; `folds` applies the accepted reports.
"""
