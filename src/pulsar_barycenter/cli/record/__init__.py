"""The commands that fill a data folder with load reports.

`collect` records the reports of a running cluster; `import_prometheus`, in the group of `import_command`, makes them of
stored metrics; `generate_load` writes synthetic ones. All write the same log as brokers (`cluster_logs.load_report_log`), so the pipeline and its tables do not depend on the source. `observer` reads
the cluster, `replay.synthetic` generates the load.
"""
