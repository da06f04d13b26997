"""This broker's load report: measured, compared with the last one, and written where others read it.

`report_identity` says who the broker is, `host_usage` how much of its machine (or, by `cgroup_limits`, its container)
it uses, `local_load` what it carries. `load_reporter` puts a report of the modular load manager together and decides
whether it is due; `load_report_topic` publishes reports as messages. The log of reports is in
`pulsar_barycenter.cluster_logs`.
"""
