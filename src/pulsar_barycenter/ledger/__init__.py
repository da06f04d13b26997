"""Where messages lie: append-only ledgers, and the unbroken row of them that a topic is.

Read `position`, then the two interfaces, `reader` and `storage`: append, make durable, fence, read. `files` keeps
ledgers in a shared folder; `managed` makes topics of ledgers, with cursors, for one owner at a time. `settings` say
how large ledgers grow. `entry_index` is what is known of a ledger's entries without their data; `tail_cache` and
`caches` are the memory that all topics of a storage share. `write_room` remembers that the disk was full. The promise
of the room: an entry that was reported as durable is found again, in order, by whoever takes over, and a former owner
gets nothing more reported.

`one_folder` holds all brokers of a cluster to the same folder. `inspection` checks and repairs the ledgers of a folder
that no broker runs on.

It opens no entry. What entries mean is the `protocol`'s business, who owns a topic under which epoch the `broker`'s.
"""
