"""Reads, changes and writes the records of topics that Pulsar stores, so that Java brokers can continue with them.

Problem. In a cluster with Java brokers a topic moves between them and Python brokers. Each must find everything that
the other stored: which ledgers there are, where they end, what each subscription has acknowledged.

Rules. If a record contains something that our managed ledgers do not support, the record is refused with the reason, or
that part is kept as it was read; it is never dropped. Pulsar's records have no epoch. Instead, an owner that finds that
another owner has replaced the version it knows has lost the topic.

`managed_ledger_formats_pb2` defines the records, `record_codec` encodes and decodes them, `compression` handles
compressed values. `ledger_marks` has the custom metadata of ledgers. `ledgers_mapping` and `cursors_mapping` convert
them to the records of `managed.records` and back; `acked_words` has the two formats of acknowledged entries. `taking`
says which topics a Python broker must leave to Java brokers. `records_in_pulsars_form` stores the records in a metadata
store for `managed`; `cursor_ledgers` stores on bookies the cursors that are too large for it. `errors` has the
exceptions. Only these two modules before it do I/O.
"""
