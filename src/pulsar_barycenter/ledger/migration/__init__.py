"""Migrates the messages of a stopped cluster of brokers from files of a folder to bookies.

Problem. A cluster keeps its storage: positions of cursors, compacted ledgers and clients refer to ledgers by id. A
migration copies terabytes, so it is interrupted, and while it is unfinished neither storage may lose a message.

Rules. Ledgers keep their ids, so no record of a topic or cursor changes, and every message keeps its position, also for
clients that stored it. First everything is asked that could prevent the migration; nothing is written before. Then the
ids are taken from the counter of the bookies, so that no other program gets one. Each ledger is written, closed, read
back and compared with its file, entry by entry. Last, one compare-and-set of the key that names the storage moves the
cluster: before it, brokers run on the files, after it, on bookies. Files are only read. A migration that is interrupted
continues: what to do with a ledger follows from its metadata on the bookies. A ledger that was left open is written
again from the start of its last segment, with the same bytes. A ledger that was deleted is never created again under
its id, because bookies delete entries some time later.

The metadata stays in its store, or is copied to the next one, for which everything is the same: nothing relies on it
before the last write.

Read `planning` first, the pure part: what prevents a migration, in which phase it is, what to do with a ledger.
`source_files` reads the files. `copying` writes one ledger and compares it. `stores` are the metadata stores before and
after the migration, `metadata_copy` copies one to the other. `migrating` is the sequence of all steps, `progress` what
it shows of them.
"""
