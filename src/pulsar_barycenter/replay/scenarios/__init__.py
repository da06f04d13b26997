"""The scenarios of `balance-bench`, one file for each: events generated from a seed, and the expected result with
reasons.

A file defines a `CASE`; a new file is all that a new scenario needs.
"""
