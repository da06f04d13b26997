"""Simulates a cluster in virtual time: what a load manager would do with recorded or synthetic load, and how well.

Problem. A strategy can only be judged over days of load, under several seeds, next to other strategies. No production
cluster allows such experiments.

Rules. The simulated leader runs the real code: the rounds of `load.rounds` and the splits of `load.splitting`. It sees
only what a real leader sees: reports that are sent at intervals and may be late. Everything is pure: time, randomness
and inputs are arguments, and the same arguments give the same bytes.

- Input: `demand` is the load that clients put on each bundle over time. `capacity` is what a broker can carry, and how
  traffic becomes usage. `events` are changes of brokers and settings. `synthetic` generates load from a seed, `traces`
  are event counts from CSV files, and `inputs` converts traces, workload files and recorded tables to demand.
- Simulation: `bundles` has the owners and splits of bundles, `reports` the reports and the leader's snapshot;
  `simulator` runs them. `what_if` continues from a snapshot.
- Result: `outcome` is the record of a run, `measures` how well it went, `references` how well an observer with perfect
  knowledge would have done.
- Many runs: `grid` enumerates runs; `scenario` defines a case of `balance-bench`, `scenarios` has all of them;
  `experiments` replays published measurements; `advice` recommends a configuration from a history.
"""
