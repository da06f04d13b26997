"""The decisions of a client of bookies, as state machines without I/O, clock or randomness.

A machine takes an event (an answer of a bookie, the result of a compare-and-set) and returns `actions`: what to send,
to store, or to report. Answers of bookies may be reordered, repeated or lost: that costs progress, never safety. A
request without an answer counts as failed, although it may have been carried out. The caller reports the result of each
request to the metadata store to the machine once; if it is unknown, as failed.

`add_window` counts which bookies have the entries that are not confirmed yet. `entry_read` reads one entry, from one
bookie after the other. `last_confirmed` asks all bookies of a segment for their last entry, and knows whether the
answers cover the ledger. `writer` writes a ledger and closes it; `recovery` takes over a ledger from another client and
closes it. `placement` chooses bookies for a new ledger, and for those that failed.
"""
