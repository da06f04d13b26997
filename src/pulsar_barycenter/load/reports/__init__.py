"""What brokers tell of their load, and what is kept of it: the records of the store, the log and the topics.

Read `load_report` (the modular load manager's, and the averages kept of bundles and brokers), then `windows`, the one
definition of the short and the long window that the live fold, the Spark batch and the Spark stream share.
`simple_load_report`, with `simple_report_rule` on when it is written, and `extensible_reports` are the reports of the
other load managers, `weights` which resources count how much, `publication` what the pipeline hands to the leader.
`load_over_time` brings what a leader remembers and what tables hold together, in steps of time.

Free of numpy, as every broker reads and writes these. Columns of them are made in `snapshot`.
"""
