"""What keeps memory, effort and background tasks bounded.

`recent` keeps the last so many things that were put into it; `back_off` says how long to wait before the next attempt.
`background` owns the tasks of an object: it logs their failures and ends them in order.

Caches with another bound than a number of keys (bytes, open files that are in use) are at home where these are:
`ledger.tail_cache`, `ledger.caches`, `ledger.files.open_files`. Pure functions are memoised by `functools.lru_cache`.
"""
