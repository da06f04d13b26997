"""A metadata store in a SQLite file that processes on one machine share.

Problem. SQLite has transactions, but no sessions and no notifications. Here both are tables of the file: each client
writes heartbeats and reads changes. A client whose process has ended is recognized at once by a file lock that the
kernel released (`session_files`); a client that is paused is recognized by heartbeats that stop (`silence`).

The modules, from the interface inwards: `sqlite_store` has the operations and runs on the event loop. It exchanges the
objects of `operations` with the thread of `sqlite_worker`. Only that thread uses the file (`sqlite_file`). `reading`
reads a file without a session, even while brokers use it.
"""
