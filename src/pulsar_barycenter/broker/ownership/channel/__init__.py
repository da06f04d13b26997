"""Ownership by records: the ownership channel of the extensible load manager.

Each bundle has one record with its owner and its state. All brokers read all records in the same order, and each does
what a record requires of it. So a bundle can be transferred from owner to owner, and every broker can answer look-ups.
`load.service_units` decides which of two records counts, and what a record requires.

- `records` is the interface of a place with records. `store_records` keeps them in the metadata store,
  `topic_records` in a compacted topic that the leader serves (`leaders_topics`). `places` decides which place is used,
  and moves the records.
- `record_ownership` owns bundles by the records; `machine` has its parts, and `load.service_units.duties` its table.
- `leader_repairs` is the leader's part: it repairs the ownership of lost brokers.
- `ownership_channel` connects all of it; `channel_counters` counts operations.
"""
