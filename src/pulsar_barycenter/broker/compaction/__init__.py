"""Topic compaction: of all messages of a key the newest is kept, for those who ask for the compacted topic.

`messages` says what an entry holds for a compactor: keys, batches, chunks, and takes a batch apart; `compression` reads
and writes its payload. `compactor` goes over a topic twice and writes what is kept; `topic_compactions` says when, how
many at once, and how it went.

Where the result lies and how it comes into force is `ledger.managed.compacted_topic`; how consumers read it
is a dispatcher's part.
"""
