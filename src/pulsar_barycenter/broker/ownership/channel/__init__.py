"""Bundles owned by records instead of locks: the ownership channel of the extensible load manager.

`records` is the contract of the place where the records are: `store_records` keeps them in the metadata store,
`topic_records` in a compacted topic, which the leader serves (`leaders_topics`); `places` knows which of the two it is,
and moves them. `settling` and `splitting` are what a broker does about each record, as `load.service_units.duties` says
it, in `steps`; `channel_ownership` is what others ask of that, and `leader_repairs` what only the leader does. A record
counts for one of the `lives` of its broker, and beside brokers that own by locks for whoever holds the lock as well
(`term_locks`). `ownership_channel` puts all together, and `channel_counters` counts what went through it.

`record_base` is what `lives` works on.

Which record of two counts, and what each asks for, is decided in `load.service_units`.
"""
