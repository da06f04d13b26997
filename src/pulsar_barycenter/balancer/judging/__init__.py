"""What a balancer outside the cluster decides, without a clock, a socket or a file: values in, values out.

- `load_view` folds reports into the snapshot of the cluster; `would_be` moves load between reports, so that the effect
  of moves that nobody made can be measured.
- `snapshots` makes the input of a strategy, by the load manager that has it.
- `deciding` runs a round; `caps` limits it. `splits` chooses the bundles to split. `needs` counts the
  brokers that the load needs. `scoring` compares the cluster's own balance and moves with ours.
- `moves_seen` finds moves in consecutive views; `watchdog` says when to pause, go on, or hand back;
  `error_counts` counts the errors of clients for it.
- `journal_view` reads from the journal what is under way, what moved lately, and how much room the caps have.
"""
