"""Bundles owned by records instead of locks: the ownership channel of the extensible load manager.

`records` is the contract of the place where the records are: `store_records` keeps them in the metadata store,
`topic_records` in a compacted topic, which the leader serves (`leaders_topics`); `places` knows which of the two it is,
and moves them. `record_ownership` owns bundles by the records, whichever place they are in: `machine` has its parts,
and `load.service_units.duties` its table. `leader_repairs` is what only the leader does. `ownership_channel` puts all
together, and `channel_counters` counts what went through it.

Which record of two counts, and what each asks for, is decided in `load.service_units`.
"""
