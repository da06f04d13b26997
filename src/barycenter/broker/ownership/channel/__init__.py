"""Bundles owned by records instead of locks: the ownership channel of the extensible load manager.

`records` is the contract of the place where the records are, `store_records` keeps them in the metadata store.
`channel_ownership` is what a broker does about each record, as `load.service_units.duties` says it. `leader_repairs`
is what only the leader does.
"""
