"""Which bundles leave which brokers: the shedding strategies, each a function of a snapshot, settings and memory.

A move costs: clients of the bundle reconnect, and its ledgers change hands. So every strategy first decides which
brokers have too much load, then how much load each has to shed, and then which bundles make up that amount. They differ
in the measure (usage, messages, bytes), in what they compare a broker with (a limit, the mean, the least loaded broker)
and in how long an imbalance must last. A strategy only chooses: placement chooses destinations, `selection` applies
policies and vetoes, the load managers carry the plan out, and the simple load manager sheds by `load.simple`.

Start with `shedder`, the contract of a shedder, and `plan`, its answer as columns; `plan` also limits a round and takes
the heaviest bundles of brokers. `ordering` sorts only as many of a million bundles as are needed. `beside_drained` lets
any shedder decide as if drained brokers did not exist.

- For shedders of other packages: `listed_plan`, a plan that is a list.
- By usage: `overload_shedder`, `threshold_shedder` and `range_threshold_shedder`.
- By a budget of messages or bytes: `uniform_load_shedder` and `avg_shedder`, which share `fitting`.
- By standard deviations, one move after the other: `deviation_shedder`.
- For the extensible load manager: `transfer_shedder` with `transfer_plan`, on the lists of `top_bundles`.
- Our own, for the modular and the extensible manager: `least_disturbance`.
"""
