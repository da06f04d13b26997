"""Ledgers as files of a folder that brokers share.

Read `file_format` first: the bytes, and how a torn tail is told from damage. `folder` says where files stand,
`open_files` bounds how many are open, `group_commit` has the threads that wait for the disk. `file_writer` appends,
`file_reader` reads, `examine` opens what was written before, with `survey` where that is damaged, and `repair` puts a
whole file in the place of a damaged one. `folder_needs` says which folders will do, and `folder_probe` tries one.
`file_storage` joins them to what the room calls a storage: creating, fencing, deleting.
"""
