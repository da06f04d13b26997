"""What keeps memory, effort and background tasks bounded.

`recent` is a map that keeps only the keys that were put last; `back_off` computes the delay before the next attempt;
`token_bucket` says how many messages may pass at a rate.
`json_text` decodes JSON that clients or other programs wrote, and has one kind of error for all invalid text.
`background` owns the tasks of an object: it logs their failures and ends them in order.

Caches that limit something else than the number of keys (bytes, open files) are in the packages that use them:
`ledger.tail_cache`, `ledger.caches`, `ledger.files.open_files`. Pure functions are memoised by `functools.lru_cache`.
"""
