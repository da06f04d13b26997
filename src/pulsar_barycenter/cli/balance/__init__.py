"""`barycenter balance`: balances a running cluster from outside.

- `command` runs the balancer; `lines` prints its rounds.
- `approve` shows the round that waits for a person, and approves or rejects it.
- `restore` puts the cluster's own shedding back if a balancer died and is not to be started again.

`balancer` does the work.
"""
