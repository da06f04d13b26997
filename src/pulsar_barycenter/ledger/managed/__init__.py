"""Managed ledgers: the ledgers of one topic as one sequence of entries, and the cursors of its subscriptions.

Problem. A topic outlives every owner and every file. It needs one order of entries over many ledgers, it must move
between brokers without losing or repeating a position, and it must delete what every subscription has consumed.

Rules. All records of a topic in the metadata store contain the owner's epoch (`records`). A new owner first writes its
epoch into these records, then recovers the ledgers that the former owner left open. A file is created before it is
listed and taken off the list before it is deleted, so a crash at any step is completed when the topic is opened next.

Begin with `managed_ledger`, which a broker opens for each persistent topic; it delegates to the other modules. An
append passes `appender` and `append_queue`; a read passes `entry_reads`. `ledger_list` changes the topic's record and
the files together; `succession` is the order in which a full ledger ends and its successor is listed. `segments`
computes with positions over the ledgers of a topic; `missing_entries` are entries that cannot be read any more. `stats`
counts entries and measures how long writes take. `losses` records what cannot be read. A `cursor` is the position of a
subscription, with `acked_ranges` after it and `partial_acks` of batches; `unacked` lists what it has not acknowledged.
`topic_cursors` has all durable cursors of a topic. `retention` decides which consumed ledgers are deleted.
`compacted_topic` is the ledger that contains what compaction kept.

The storage decides how bytes are stored. The broker's subscriptions decide which entry is sent to which consumer.
"""
