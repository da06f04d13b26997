"""Balances a running cluster of Apache Pulsar or Barycenter from outside, as a process beside it.

Problem. The brokers of a cluster have a balancer of their own. An operator wants to see what another strategy would do,
then let it act, without replacing a broker. Two balancers at the same time move bundles to and fro, and a process
beside the cluster can lose its view, its disk or its life at any time.

Rules. The decisions are those of a leader: the reports that `collect` reads, the windows of `load.reports.windows`, the
round of `load.rounds`. What may be done depends on the mode: `observe` only reads, `advise` waits for an approval of
each round, `act` carries rounds out. A move begins only while this process holds the lease, the watchdog is content and
the caps have room. Before a setting of the cluster is changed, its former value is written to the disk and to the
lease.

- `options` has the modes and limits; `judging` decides, as pure code.
- `facts` reads settings, identity and clock of a cluster, `client_errors` how many errors the clients get.
  `state_folder` keeps the state on the disk.
- `lease` lets one process at a time change the cluster; `right_to_act` keeps it, and what that process has taken over.
  `operations.own_balancing` switches the cluster's own shedding and splitting off, and restores them;
  `operations.splitting` splits.
- `approval` passes a round to a person and back; `metrics` serves numbers for Prometheus, `page` shows the last round
  in a browser and takes an answer by REST.
- `carrying_out` carries moves and splits out with the executors of `operations`; `rounds` runs one round with all these
  parts; `running` repeats it until the process ends.
"""
