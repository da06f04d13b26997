"""The two places (storages) of ownership records, a topic and the metadata store, and how a running cluster moves its
records from one to the other.

Problem: all brokers must read and write the same records, also while these are moved. Rule: one place has the
authoritative copy. A key in the metadata store names it, and no broker writes records while that key changes.

- `place` is this key, and the keys by which brokers publish that they have stopped writing.
- `following_records` are the records in the place that the key names.
- `syncer` is the leader's part: it copies the records to the other place, and changes the key.
"""
