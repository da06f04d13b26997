"""What fills a data folder with load reports: `collect` of a running cluster, `generate_load` of one that is made up.

Both write the log that brokers write (`cluster_logs.load_report_log`), so that the pipeline, and whoever reads its
tables, need not know which it was. How a cluster is asked is `attach`, how load is made up `replay.synthetic`.
"""
