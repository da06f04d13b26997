"""Ownership by records: the ownership channel of the extensible load manager.

Each bundle has one ownership record, with its owner and its state. All brokers read all records in the same order, and
each broker does what a record requires of it. So a bundle can be transferred from owner to owner, and every broker can
answer look-ups. `load.service_units` decides which of two records is valid, and what a record requires.

- `records` is the interface of a storage of records. `store_records` stores them in the metadata store, `topic_records`
  in a compacted topic that the leader serves (`leaders_topics`). `places` decides which of the two is used, and moves
  the records.
- `record_ownership` owns bundles by the records; `machine` has the modules of its state machine, and
  `load.service_units.duties` the table.
- `leader_repairs` is the leader's part: it repairs the ownership of lost brokers.
- `ownership_channel` connects all these modules; `channel_counters` counts operations.
"""
