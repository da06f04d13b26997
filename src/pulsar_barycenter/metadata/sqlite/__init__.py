"""A metadata store in a SQLite file that processes on one machine share.

Problem. SQLite has transactions, but no sessions and no notifications. Both are tables of the file: each client writes
heartbeats and reads changes. A client whose process has ended is recognized at once by a file lock that the kernel
released (`session_files`); a client that is paused is recognized by heartbeats that stop (`silence`).

From the event loop inwards: `sqlite_store` has the operations. `operations` is what it exchanges with the thread of
`sqlite_worker`, which alone uses the `sqlite_file`. `reading` reads a file without a session, whether brokers use the
file or not.
"""
