"""What fills a data folder with load reports: `collect` of a running cluster, `generate_load` of one that is made up.

Both write the same log as brokers (`cluster_logs.load_report_log`), so the pipeline and its tables do not depend on the
source. `observer` reads a cluster, `replay.synthetic` generates load.
"""
