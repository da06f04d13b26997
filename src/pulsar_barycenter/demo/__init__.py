"""The demo: a cluster grows, balances, and loses its busiest broker under the load of real clients; a report shows it.

- The run: read `scenario` first. The load comes from `replay.traces` or is synthetic. The process of `clients` sends it
  according to a `plan`, and counts messages in a `tally`. `contenders` are the strategies of the cluster.
- Recording: `observer` queries the brokers, `log_readers` read their logs, `live_view` shows the progress. All data
  goes to the `record`.
- Results: `moves` follows each bundle through the record, `gaps` combines interruptions of topics, `summary` computes
  the results, and `report` writes a page, also for two runs side by side.

`standalone` runs the processes. The demo uses the cluster only as any client or operator can.
"""
