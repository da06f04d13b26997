"""Measures this broker's load, compares it with the last report, and publishes a report if it changed enough.

A report in the metadata store is read by all brokers, so small changes are not reported.

- `report_identity` is the part of a report that says which broker it is.
- `host_usage` measures the usage of the machine, or of the container with the limits of `cgroup_limits`.
- `local_load` combines this usage with the stats of the broker's bundles.
- `load_reporter` makes the reports of the modular load manager and decides whether one is due.
- `load_report_topic` publishes reports as messages. The log of reports is in `pulsar_barycenter.cluster_logs`.
"""
