"""Which bundles leave which brokers: the shedding strategies, each a function of a snapshot, settings and memory.

Read `shedder`, what a shedder is asked and answers, and `plan`, that answer as columns, with how a round that is full
says so and how brokers give their heaviest bundles. `ordering` sorts no more of a million bundles than is asked for,
and `beside_drained` has any shedder decide as if brokers that are drained were not there.

Then the family that goes by usage (`overload_shedder`, `threshold_shedder`, `range_threshold_shedder`), the one that
fills budgets (`fitting`, for `uniform_load_shedder` and `avg_shedder`), and `deviation_shedder`, which plays its moves
one by one. The extensible load manager has its own, `transfer_shedder` with `transfer_plan`, over the lists of
`top_bundles`. Our own, for both managers, is `least_disturbance`.

Where a bundle goes is left to placement, policies and vetoes to selection, carrying out to the load managers; the
simple load manager sheds by `load.simple`.
"""
