"""The decisions of the simple load manager: it learns a quota for each bundle, and ranks brokers by quotas and usage.

It is Pulsar's oldest load manager and keeps no averages of load: a slowly changing quota for each bundle takes their
place. A broker's load is the larger of its measured usage and the sum of its quotas, plus the quotas of bundles on
their way. Brokers of Apache Pulsar may share the cluster, so quotas and ranks must equal Pulsar's.

Read `simple_settings`, `quotas` (the expected needs of each bundle), `ranking` (the load of each broker),
`placement` (the owner of a bundle), then `shedding` and `splitting`. Its reports are in `reports.simple_load_report`,
and the part that acts is in `broker.load_manager.simple`.
"""
