"""The commands that fill a data folder with load reports.

`collect` records the reports of a running cluster; `generate_load` writes synthetic ones. Both write the same log as
brokers (`cluster_logs.load_report_log`), so the pipeline and its tables do not depend on the source. `observer` reads
the cluster, `replay.synthetic` generates the load.
"""
