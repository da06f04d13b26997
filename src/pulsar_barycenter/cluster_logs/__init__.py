"""The files that a running cluster writes, and their record types: load reports, decisions, administrative changes.

Problem. Operators want to know later what the load was, what was decided and why, and who changed what. The processes
that know it may crash, and a disk may be full.

Rules. A broker writes while it serves, so a file that cannot be written costs one line in the process log and nothing
else. Each broker writes its own files, so no two processes share one. Readers read from the newest record backwards, in
pages of limited cost. Writers and readers share the record types of this package. The pipeline reads both folders with
its own schemas, because it trusts no file (`pipeline.reports`).

`load_report_log` stores each load report as a file; brokers, the collector and the load generator write it.
`decision_log` stores decisions with their reasons: the latest ones in memory, for the admin REST interface, and all of
them as lines of a file. `decision_pages` reads them by page. `audit_log` stores in the same way who changed what by the
admin REST interface. `json_lines` writes such files, and `record_pages` reads them.
`data_folder` recognizes a data folder by these files. `request_ids` gives everything that is done for one request the
same id in the logs of all brokers.
"""
