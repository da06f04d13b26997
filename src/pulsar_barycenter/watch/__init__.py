"""Shows a cluster from outside: the dashboard of brokers that serve none, live or from a folder of recorded load.

Problem. Apache Pulsar's brokers say neither why a bundle moved nor what the load was before. From outside only load
reports and settings can be read, at intervals, and a folder of them may be from last week.

Rules. One fold makes the picture, whatever the source: reports in, at each look the owners are compared with those of
the last look, and the round of the cluster's own strategy is run again on the recorded load. A move that is seen gets
its reason from that round, marked as recomputed. Where the round would not have made the move, the reason says so; a
move that a strategy cannot explain gets none. The pages are those of `dashboard`, and change nothing.

- `loads_seen` keeps loads over time in bounded memory.
- `recomputing` runs the rounds of the cluster's strategy on recorded load; `why_moved` compares them with a move,
  `splits_seen` finds splits and their reasons.
- `watched_cluster` is the fold.
- `sources` has what feeds it: `data_folder` of `collect`, of `balance` or of a cluster, or `live` requests.
- `recorded_status` is what `status` and `top` show. `answers` makes what the pages ask for; `server` serves pages and
  answers on loopback; `running` does so until the process ends.
"""
