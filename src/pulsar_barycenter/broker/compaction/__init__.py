"""Topic compaction: keeps only the newest message of each key, for consumers that read the compacted topic.

A topic is read twice: the first time to find the newest message of each key, the second time to write these messages to
a compacted ledger. So only keys are in memory, not messages.

- `messages` splits an entry into what compaction needs: keys, batches, chunks. `compression` reads and writes payloads.
- `compactor` is one compaction of a topic.
- `topic_compactions` limits the number of compactions at the same time, and keeps the result of the last one.

`ledger.managed.compacted_topic` stores the result and puts it into force; a dispatcher reads it for consumers.
"""
