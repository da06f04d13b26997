"""The commands that show the state of a cluster and explain it. Except for `config`, they change nothing.

- `status` prints the state of the cluster on one screen; `top` shows it on the whole terminal and refreshes it.
- `monitor_brokers` prints the tables of pulsar-perf.
- `doctor` finds problems; `config` shows the settings in force and changes the dynamic ones.
- `decide` runs a round on a snapshot; `explain` prints why a topic, bundle or broker is where it is, or was.
- `snapshot` saves the load data on which the leader decides; `decision_tables` prints decisions as tables and as JSON.

The commands parse and print. `questions` combines the answers of several brokers or files, `snapshots` reads snapshots,
and the text of a reason comes from `load.reasons`.
"""
