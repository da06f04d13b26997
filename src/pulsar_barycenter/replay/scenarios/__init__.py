"""The scenarios of `balance-bench`, one file each: what happens, drawn from a seed, and what is expected and why.

A file has a `CASE`; adding one is all that a further scenario takes.
"""
