"""Restarts or replaces all brokers of a cluster, one after the other, with few moves and without a gap.

Problem. A rolling restart done by hand moves many bundles several times, because they land on brokers that restart
later; it restarts a broker before the leader knows the load of the others; and it leaves settings changed when it is
interrupted.

Rules. The plan is made before anything starts; before each step, its moves are planned again from the present owners. A
broker restarts only when it is empty and all others are healthy. The next one follows only when the reports of this one
and of the receivers have arrived. The journal shows what was done; a killed roll goes on from it.

- `plan` decides order, destinations and limits; `order` applies it to what an operator wants. Both are pure.
- `progress` folds the journal into a state and gives the next action; `reports` decides whether a report has arrived.
  Both are pure.
- `run` does the actions on a cluster, and `waiting` waits for its brokers. `contract` has what both need of their
  surroundings: `cluster` is a running one, by its admin REST; `report_sources` reads its load reports; `hooks` runs the
  operator's command.
- `statefulset` checks the StatefulSet of brokers in Kubernetes for what a roll needs.

The settings of shedding and splitting are those of `operations.own_balancing`.
"""
