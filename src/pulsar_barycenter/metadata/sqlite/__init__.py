"""A metadata store in a SQLite file that processes on one machine share.

From the event loop inwards: `sqlite_store` is what a caller has, `operations` what passes between it and the thread of
`sqlite_worker`, which alone touches the `sqlite_file`. A session ends by its process's end, which `session_files` shows
at once, or by silence, which `silence` judges. `reading` looks at a file without a session, whether brokers use it or
not.
"""
