"""The records that Pulsar keeps of topics: read, changed and written so that Java brokers go on with them.

Problem. In a cluster with Java brokers a topic moves between them and Python brokers. Both must find all that the other
stored: which ledgers there are, where they end, what each subscription has acknowledged.

Rules. What a record has and our managed ledgers cannot keep is refused with the reason, or kept as it was read; it is
never dropped. There is no epoch in Pulsar's records: who changes a record from a version that another owner has
replaced, has lost the topic.

`managed_ledger_formats_pb2` are the records, `record_codec` their bytes, `compression` what some values are wrapped in.
`ledger_marks` has the custom metadata of ledgers. `ledgers_mapping` and `cursors_mapping` translate to the records of
`managed.records` and back; `acked_words` has the two forms of acknowledged entries. `taking` says which topics a Python
broker must leave to Java brokers; `topic_check` asks it before a topic is taken over. `records_in_pulsars_form` keeps
the records in a metadata store for `managed`; `cursor_ledgers` has what does not fit there, on bookies. `list_readers`
reads lists for tools. `errors` has what can fail. All but `records_in_pulsars_form`, `cursor_ledgers` and `topic_check`
is pure.
"""
