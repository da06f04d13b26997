"""What the driver does with the reports and decisions of a batch before they are folded.

Read `acceptance` (each report once, those of a broker in their order), `taken_reports` (what is beyond its memory),
`columns` (their rows for the tables), `decision_files` (what was added to the decision logs), `log_files` (what lies in
the log of reports), `quarantine` (what could not be read) and `archive` (what was read). Reading the report log is left
to Spark, in `parsing`; what the accepted ones change to `folds`.
"""
