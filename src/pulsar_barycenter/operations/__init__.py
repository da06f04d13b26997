"""Moves bundles on behalf of an operator, and checks that each is served by its new broker.

Problem. An operator moves many bundles while the load manager may move bundles too. The tool may crash half-way, and an
answer may be lost although the move was made. No bundle may move twice, and every move must be reversible.

Rules. A move is done when the destination serves the bundle. A journal records each move on disk before it begins, so
that the same command can continue after a crash. If a bundle is not where the plan says, the plan stops.

- `plan` reads a plan (the output of `decide` or `plan`), and checks its result.
- `journal` records the state of each move; it yields the remaining moves and the reverse plan. `journal_file` is the
  file of any journal.
- `executor` carries out a plan at a bounded rate.
- `draining` selects the bundles that leave a drained broker, `drained` reads and changes which brokers are drained, and
  `bring_back` finds the bundles that left such a broker and may return.
- `splitting` splits a bundle, with a journal of its own.
- `own_balancing` switches the cluster's own shedding and splitting off, and restores them.
- `rolling` restarts or replaces all brokers, one after the other.
- `admin_cluster` sends the requests to brokers of Barycenter or Apache Pulsar, and `policies_read` reads the rules of
  administrators by it.

`load` decides where bundles go; `cli.operate` has the options and the output.
"""
