"""The files that a running cluster leaves behind, and their record types: whoever writes or reads them agrees here.

`load_report_log` keeps each load report as a file; brokers, the collector and the load generator write it.
`decision_log` keeps what was decided and why: the last ones in memory, which the admin REST shows, and all as lines of
a file; `decision_pages` reads those of a folder a page at a time.

`audit_log` keeps who changed what by the admin REST, likewise. `json_lines` are such files, `record_pages` reads them.
`request_ids` names what is done for one request alike in the logs of all brokers.

`data_folder` tells by these files whether a folder is a data folder.

Brokers write while they serve, so a file that cannot be written costs a line in the process log and no more. The
pipeline reads both folders with schemas of its own, since it trusts no file (`pipeline.reports`).
"""
