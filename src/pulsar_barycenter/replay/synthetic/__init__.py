"""Load that is made of a seed: the same seed, the same load, in each form in which load is needed.

`shapes` is what all of it is made of: how sizes spread over bundles, and the swing over a day. `demand` is what clients
of a simulated cluster ask, `reports` are load reports as brokers would write them, and `traces` are counts of events
that real clients follow.
"""
