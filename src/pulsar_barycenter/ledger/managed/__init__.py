"""Topics made of ledgers: rolled, recovered, trimmed, and read by cursors.

Begin with `managed_ledger`, which a broker opens for each persistent topic; it delegates to the rest. An append goes
through `appender` and `append_queue`; reading is `entry_reads`. `records` are what the metadata store keeps, and how
only the latest owner writes it; `ledger_list` is a topic's record at work, over the arithmetic of `segments`, of
which `missing` entries are no more, and `stats` how much they hold and how quickly it was written. What cannot be read
is the matter of `losses`. A `cursor` is a subscription's place, with `acked_ranges` beyond it, and `topic_cursors` are
all durable ones of a topic.
`compacted_topic` is the ledger beside them that holds what compaction kept.

How a ledger's bytes are kept is left to the storage, and what is sent to whom and when to the broker's subscriptions.
"""
