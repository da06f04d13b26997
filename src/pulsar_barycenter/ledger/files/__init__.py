"""Stores ledgers as files of a folder that all brokers share.

Problem. Several processes, maybe on several machines, open the same files, and any of them may crash or lose its
ownership at any moment. A reader must distinguish an incomplete write at the end of a file, which is normal after a
crash, from damage before it. A later owner must stop a former one without asking it.

Rules. Every entry has checksums that include its ledger id and its entry id. The header has the end of the last durable
group, the *durable mark*: bytes before the mark whose checksum does not match are damage; after the mark they are a
torn tail. The header also has the fence, an epoch that a later owner writes in place and that a writer reads before it
reports.

Read `file_format` first: the bytes, and the rules for torn tails and damage. `folder` has the paths of the files,
`open_files` bounds the number of open ones, and `group_commit` has the threads that wait for the disk. `file_writer`
appends and `file_reader` reads. `examine` reads a whole existing file; `salvage` finds the intact entries of a damaged
one, and `repair` replaces it by a file of these. `folder_needs` decides which folders are safe for ledgers, from the
tests that `folder_probe` makes in a folder. `file_storage` is the `LedgerStorage` that uses all of them: create, fence,
open, delete.
"""
