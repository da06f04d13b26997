"""What starts processes and stays until stopped: `standalone` a cluster, `broker` one of it, `demo` a show of one.

`process_log` says how such a process logs, `log_level` how much, and `library_log` what libraries log. The processes of
a cluster and their data folder are `standalone`, a broker's parts `broker`; only here is one put together of a real
store, disk, clock and network.
"""
