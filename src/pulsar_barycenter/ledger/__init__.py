"""Stores the entries of topics: append-only ledgers, and managed ledgers that join them to one sequence for each topic.

Problem. A topic moves from broker to broker. A former owner may be paused, cut off or slow and not know that it lost
the topic. This package guarantees that the next owner finds every entry that was reported as durable, in order, and
that no later entry of the former owner is reported.

Rules. One owner writes a ledger, under the epoch of its ownership. The next owner fences the ledger first and reads it
afterwards. A writer checks for a fence after its bytes are durable and before it reports them. No clock is involved.

Read `position`, then the two interfaces, `reader` and `storage`: append, make durable, fence, read. `files` stores
ledgers in a folder that brokers share, `bookkeeper_storage` on bookies of Apache BookKeeper. `managed` builds topics
and cursors from ledgers, for one owner at a time. `pulsar_records` stores the records about topics and cursors in
Pulsar's format. `ledger_settings` sets the size of ledgers. `entry_index` holds sizes, message counts and publish times
of a ledger's entries without their data. All topics of a storage share the memory of `tail_cache` and `caches`.
`disk_full` records that the disk is full. `folder_identity` makes sure that all brokers of a cluster use the same
folder. `inspection` checks and repairs the ledgers of a folder while no broker runs on it; `bookie_inspection` compares
those on bookies with the lists of topics. `foreign_topics` finds the topics that only Java brokers can serve.
`migration` moves the messages of a stopped cluster from files to bookies; `migration_marks` is what it leaves in the
store and in the folder.

This package does not interpret the content of an entry. `protocol` knows what entries mean; `broker` knows who owns a
topic under which epoch.
"""
