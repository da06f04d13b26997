"""Bundles owned by records instead of locks: the ownership channel of the extensible load manager.

`records` is the contract of the place where the records are: `store_records` keeps them in the metadata store,
`topic_records` in a compacted topic, which the leader serves (`leaders_topics`); `places` knows which of the two it is,
and moves them. `settling` and `splitting` are what a broker does about each record, as `load.service_units.duties` says
it; `channel_ownership` is what others ask of that, and `leader_repairs` what only the leader does. `ownership_channel`
puts them together.
"""
