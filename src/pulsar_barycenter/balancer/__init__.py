"""Balances a running cluster of Apache Pulsar or Barycenter from outside, as a process beside it.

Problem. The brokers of a cluster have a balancer of their own. An operator wants to see what another strategy would do,
then let it act, without replacing a broker. Two balancers at the same time move bundles to and fro, and a process
beside the cluster can lose its view, its disk or its life at any time.

Rules. The decisions are those of a leader: the reports that `collect` reads, the windows of `load.reports.windows`, the
round of `load.rounds`. What may be done depends on the mode: `observe` only reads, `advise` waits for an approval of
each round, `act` carries rounds out. A move begins only while this process holds the lease, the watchdog is content and
the caps have room. Whatever was changed in the cluster is on the disk and in the lease before it is changed.

- `options` has the modes and limits; `judging` decides, as pure code.
- `facts` reads settings, identity and clock of a cluster, `client_errors` how many errors the clients get.
  `state_folder` keeps the state on the disk.
- `lease` is held by one process; `right_to_act` has it, with what that process has taken over from the cluster.
  `operations.own_balancing` switches the cluster's own shedding and splitting off, and restores them;
  `operations.splitting` splits.
- `approval` passes a round to a person and back; `metrics` serves numbers for Prometheus, `page` shows the last round
  in a browser and takes an answer by REST.
- `carrying_out` carries moves and splits out with the executors of `operations`; `rounds` makes a round of all parts;
  `running` repeats it until the process ends.
"""
