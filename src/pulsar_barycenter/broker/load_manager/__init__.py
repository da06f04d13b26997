"""The load managers: how a broker reports its load, and how the leader balances the cluster.

Problem: decisions need the load of the whole cluster, but each broker only measures its own. So each broker publishes
load reports, follows those of the others, and the leader decides on them. The decisions themselves are pure functions
in `pulsar_barycenter.load`; nothing here compares loads. A load manager collects their input and carries out their
output.

`contract` is the interface of a load manager, and `context` is what it gets from its broker. There are four:

- `modular`, the default: the leader assigns, sheds and splits.
- `extensible`: every broker assigns and splits, the leader sheds.
- `simple`: bundles are placed by quotas.
- `noop_load_manager`: balances nothing.

`factory` creates the configured one, and `switch` replaces it while the broker runs. All load managers share these
modules:

- `reporting` measures this broker and publishes its reports; `environment` gives it the machine, or a simulated one.
- `load_data_watch` follows the reports of other brokers, and `pipeline_feed` reads what the pipeline published.
- `round_driver` carries out a shedding round, and `decision_executor` a decision: it sends commands and logs decisions.
- `metrics` are the Prometheus metrics, `store_writes` writes many keys in parallel, and `balancing_configuration` is
  the part of the configuration in a snapshot.
"""
