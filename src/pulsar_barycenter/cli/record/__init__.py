"""The commands that fill a data folder with load reports.

`collect` records the reports of a running cluster; `import_prometheus`, a command of the group `import_command`, makes
them of stored metrics; `generate_load` writes synthetic ones. All write the same log as brokers
(`cluster_logs.load_report_log`), so the pipeline and its tables do not depend on the source. `observer` reads the
cluster and the metrics, `replay.synthetic` generates the load.
"""
